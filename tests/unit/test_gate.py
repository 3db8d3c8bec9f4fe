"""The names in Host headers."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.server.gate import host_name

PORTS = st.one_of(st.just(""), st.integers(0, 65_535).map(lambda port: f":{port}"))


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("localhost", "localhost"), ("LocalHost:18090", "localhost"), ("memory.example.", "memory.example"),
        ("127.0.0.1:1", "127.0.0.1"), ("[::1]", "::1"), ("[::1]:18090", "::1"), ("::1", "::1"), ("", ""), (":80", ""),
        ("[", ""), ("user@localhost", "user@localhost"), ("localhost/..", "localhost/."),
    ],
)  # fmt: skip
def test_a_host_is_read_without_its_port_and_in_lower_case(written: str, name: str) -> None:
    assert host_name(written) == name


@given(st.ip_addresses(v=6), PORTS)
def test_an_ipv6_host_is_read_out_of_its_brackets(address: ipaddress.IPv6Address, port: str) -> None:
    assert host_name(f"[{address}]{port}") == str(address)


@given(st.from_regex(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", fullmatch=True), PORTS)
def test_a_named_host_is_read_whatever_its_port(name: str, port: str) -> None:
    assert host_name(name.upper() + port) == name


@given(st.text())
def test_nothing_that_is_sent_breaks_it(written: str) -> None:
    assert "localhost" not in host_name(written) or "localhost" in written.lower()
