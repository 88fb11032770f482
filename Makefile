# Two commands on a fresh machine with Python and make:
#   make quickstart   installs the package and what it needs, and runs the quickstart
#   make test         installs what tests need besides, and passes the tests, in a few minutes
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What is installed already: the package with what it needs, and what tests, docs and Flower need.
CORE := $(VENV)/.installed-core
DEV := $(VENV)/.installed-dev
# Two at once, a file each, in our order: xdist's own would leave files of one long test to the end.
# One thread of torch per process: tests are small, and many wait.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile \
	--no-loadscope-reorder

.PHONY: quickstart test test-all test-gpu unit lint docs figures bench setup clean

quickstart: $(CORE)
	$(BIN)/unstale run quickstart --jobs 2

test: setup
	$(PYTEST)

# Also what is marked slow: real SuperLinks and SuperNodes, TLS, kills, hostile clients, Ray.
test-all: setup
	$(PYTEST) --all

# What only a GPU shows; skipped where there is none.
test-gpu: setup
	$(BIN)/python -m pytest -m gpu tests/gpu

unit: setup
	$(BIN)/python -m pytest tests/unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup
	$(BIN)/mkdocs build --strict

# The tables and figures of pages, from the result files that they name; CONTRIBUTING.md says how.
figures: setup
	$(BIN)/python docs/quoted --write

bench: setup
	$(BIN)/python benchmarks/rounds.py

setup: $(DEV)

# constraints.txt holds every version; the project's own ranges are in pyproject.toml.
$(CORE): pyproject.toml constraints.txt
	$(PYTHON) tools/set_up.py $(VENV)
	touch $@

$(DEV): $(CORE)
	$(PYTHON) tools/set_up.py $(VENV) dev
	touch $@

clean:
	rm -rf $(VENV) site build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
