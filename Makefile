# make demo | make test : all that a fresh machine needs. See README.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE ?= 1

.PHONY: venv demo test lint test-slow bench docs clean

venv: $(VENV)/.installed

# torch first and pinned: otherwise another package's requirement may pull a build several times larger.
$(VENV)/.installed: pyproject.toml constraints-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints-dev.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints-dev.txt -e '.[dev]'
	touch $@

demo: venv
	$(BIN)/statetrack demo

lint: venv
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest

test-slow: venv
	$(BIN)/pytest -m slow

bench: venv
	$(BIN)/statetrack bench scan

docs: venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints-dev.txt -e '.[docs]'
	$(BIN)/sphinx-build -q -W docs docs/_build

clean:
	rm -rf $(VENV) docs/_build dist
