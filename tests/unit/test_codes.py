"""Vector codes: how well they stand for vectors, and the files that hold them (D29)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from velesdb_memory.errors import StoreUnwritable
from velesdb_memory.store.sqlite import codes
from velesdb_memory.store.sqlite.codes import Codec, CodeFiles, Rows, approximate, best


def unit(count: int, dimension: int, seed: int = 1) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 32, 384, 1_025])
def test_a_score_of_codes_is_near_the_exact_one(dimension: int) -> None:
    vectors = unit(200, dimension)
    coded, scales = Codec(dimension, 7).encode(vectors)
    scores = approximate(coded[0], coded, scales) * scales[0]
    assert np.abs(scores - vectors @ vectors[0]).max() < 0.02


@pytest.mark.parametrize("component", [0, 5])
def test_a_vector_with_one_component_is_coded_as_well_as_any(component: int) -> None:
    vectors = np.eye(64, dtype=np.float32)
    coded, scales = Codec(64, 3).encode(vectors)
    scores = approximate(coded[component], coded, scales) * scales[component]
    assert np.abs(scores - vectors[component]).max() < 0.02


def test_codes_are_those_of_the_seed_whatever_the_batch() -> None:
    vectors = unit(50, 96)
    together = Codec(96, 5).encode(vectors)[0].astype(int)
    apart = np.concatenate([Codec(96, 5).encode(vectors[n : n + 1])[0] for n in range(50)]).astype(int)
    assert np.abs(together - apart).max() <= 1
    assert (Codec(96, 6).encode(vectors)[0] != together).mean() > 0.5


@pytest.mark.parametrize("dimension", [32, 384, 1_025])
def test_scanning_without_simsimd_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch, dimension: int) -> None:
    pytest.importorskip("simsimd")
    coded, scales = Codec(dimension, 1).encode(unit(300, dimension))
    quick = approximate(coded[0], coded, scales)
    monkeypatch.setattr(codes, "_simsimd", lambda: None)
    assert (approximate(coded[0], coded, scales) == quick).all()


@settings(max_examples=60)
@given(st.integers(0, 3_000), st.integers(1, 200), st.integers(1, 50), st.integers(0, 99))
def test_the_best_scores_are_the_best_whatever_their_spread(size: int, count: int, levels: int, seed: int) -> None:
    scores = np.random.default_rng(seed).integers(0, levels, size).astype(np.float32)
    picked = best(scores, count)
    assert len(set(picked.tolist())) == len(picked) == min(size, count)
    assert sorted(scores[picked]) == sorted(scores)[size - len(picked) :]


def rows(first: int, count: int, dimension: int = 4) -> Rows:
    slots = np.arange(first, first + count, dtype=np.uint32)
    return Rows(np.full((count, dimension), first, np.int8), np.full(count, 0.001, np.float32), slots)


def test_rows_written_are_the_rows_mapped(tmp_path: Path) -> None:
    files = CodeFiles(tmp_path, "one", 4)
    files.create()
    files.write(0, rows(1, 3))
    files.write(3, rows(9, 2))
    found = files.map(5)
    assert found is not None
    assert found.slots.tolist() == [1, 2, 3, 9, 10]
    assert found.codes[:, 0].tolist() == [1, 1, 1, 9, 9]
    files.close()


def test_a_map_sees_what_is_written_later_and_growth_by_a_step(tmp_path: Path) -> None:
    files = CodeFiles(tmp_path, "one", 4)
    files.create()
    files.write(0, rows(1, 1))
    assert files.map(1) is not None
    files.write(1, rows(2, codes.STEP))
    found = files.map(codes.STEP + 1)
    assert found is not None and found.slots[-1] == codes.STEP + 1
    files.close()


def test_missing_and_short_files_are_not_mapped(tmp_path: Path) -> None:
    files = CodeFiles(tmp_path, "one", 4)
    assert files.map(1) is None
    files.create()
    files.write(0, rows(1, 2))
    assert files.map(2) is not None
    with files.paths[1].open("r+b") as file:
        file.truncate(4)
    assert files.map(2) is None
    assert files.map(1) is not None
    files.paths[0].unlink()
    assert files.map(1) is None
    files.close()


def test_no_rows_need_no_bytes(tmp_path: Path) -> None:
    files = CodeFiles(tmp_path, "one", 4)
    files.create()
    found = files.map(0)
    assert found is not None and found.codes.shape == (0, 4)
    files.close()


def test_files_that_are_there_are_not_created_over(tmp_path: Path) -> None:
    files = CodeFiles(tmp_path, "one", 4)
    files.create()
    files.close()
    with pytest.raises(StoreUnwritable):
        CodeFiles(tmp_path, "one", 4).create()
