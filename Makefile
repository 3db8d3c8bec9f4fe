# Everything from a fresh machine with Python 3.11+ and make. `make test` and `make demo` set up what they need.
PYTHON ?= python3
VENV ?= .venv
SIZES ?= 10000 100000
DATA ?=

ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
STAMP := $(VENV)/.ready

.PHONY: setup demo test conformance lint bench docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'velesdb-memory needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/python -c "import pathlib; pathlib.Path('$(STAMP)').touch()"

demo: setup
	$(BIN)/velesdb-memory demo

test: setup
	$(BIN)/python -m pytest -n 2

# What others wrote to test MCP servers with. Node.js comes with a Python package, the tools by its npm.
conformance: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[conformance]"
	$(BIN)/python tests/conformance/run.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: setup
	$(BIN)/python benchmarks/speed.py $(SIZES)
	$(BIN)/python benchmarks/chains.py
	$(BIN)/python benchmarks/daemon.py
	$(if $(DATA),$(BIN)/python benchmarks/retrieval.py $(DATA))

docs: setup
	$(BIN)/python docs/generate.py

clean:
	$(PYTHON) -c "import shutil; [shutil.rmtree(path, ignore_errors=True) for path in ('$(VENV)', '.conformance')]"
