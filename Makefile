# make demo: what the bundled models do, without a GPU, with a report to look at (a few minutes on 2 cores).
# make test: lint, types and the test suite. make docs: the documentation, in site/. make notebooks: runs examples/notebooks
# anew. All make their own environment in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow docs notebooks format clean

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ardm needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(VENV)/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" sh runs/demo.sh

test: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2

test-slow: $(VENV)/installed
	$(BIN)/pytest -m slow

docs: $(VENV)/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

notebooks: $(VENV)/installed
	$(BIN)/python tools/run_notebooks.py

format: $(VENV)/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) runs/out site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
