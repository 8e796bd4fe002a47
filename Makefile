# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-fast lint install benchmark leaderboard

demo: install
	$(BIN)/interpbench demo

test: lint
	$(BIN)/pytest -n 2 --dist loadfile

test-fast: install
	$(BIN)/pytest -m "not slow and not gpu and not network"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright --pythonpath $(BIN)/python

benchmark: install
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.acdc

leaderboard: install
	$(BIN)/python evaluate.py method=all checkpoint=all board=docs pictures=false

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
