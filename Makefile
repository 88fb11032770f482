# Two commands on a fresh machine with Python and make:
#   make quickstart   sets up and runs the quickstart
#   make test         sets up and passes the tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: quickstart test test-long unit lint docs bench setup clean

quickstart: setup
	$(BIN)/unstale run quickstart --jobs 2

# Two at once, a file each: much of the time Flower, Ray and the browser are waited for.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --runslow --numprocesses 2 --dist loadfile

# Also what takes minutes and is covered in parts by the tests above: the example's scripts.
test-long: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m long --runlong --runslow

unit: setup
	$(BIN)/python -m pytest tests/unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup
	$(BIN)/mkdocs build --strict

bench: setup
	$(BIN)/python benchmarks/rounds.py

setup: $(STAMP)

# constraints.txt holds every version; the project's own ranges are in pyproject.toml.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) site build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
