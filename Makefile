# Everything runs in .venv, made with python3 and pip alone: no ensurepip, nothing written to the system.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
LOWEST := .venv-lowest

.PHONY: demo test quick check docs bench lowest release-check clean

demo: $(VENV)/installed
	rm -rf demo-output
	$(BIN)/oboro demo -o demo-output

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n auto --dist loadfile

# The most important ones: exact numbers, promises, domains, the runner, the ledger, a question on the command line.
quick: $(VENV)/installed-dev
	$(BIN)/python -m pytest tests/test_exact.py tests/test_front_door.py tests/domain tests/privacy tests/release \
		tests/ledger/test_ledger_account.py tests/noise/test_bits.py tests/cli/test_query_command.py

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/installed-dev
	$(BIN)/python docs/build_site.py site

bench: $(BENCH)/installed
	$(BENCH)/bin/python -m bench

# The tests at the lowest versions that pyproject.toml declares. Compiled loops are kept apart: they differ by version.
lowest: $(LOWEST)/installed
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/numba $(LOWEST)/bin/python -m pytest -n auto --dist loadfile -p no:cacheprovider

release-check:
	$(PYTHON) tools/release_check.py dist

clean:
	rm -rf $(VENV) $(BENCH) $(LOWEST) demo-output build dist site

$(BIN)/python:
	$(PYTHON) -m venv --without-pip $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --editable '.[dev]'
	touch $@ $(VENV)/installed

$(BENCH)/installed: pyproject.toml
	$(PYTHON) -m venv --without-pip $(BENCH)
	$(PYTHON) -m pip --python $(BENCH)/bin/python install --quiet --editable '.[bench]'
	touch $@

$(LOWEST)/installed: pyproject.toml tools/lowest.py
	$(PYTHON) -m venv --without-pip --clear $(LOWEST)
	$(PYTHON) tools/lowest.py > $(LOWEST)/constraints.txt
	$(PYTHON) -m pip --python $(LOWEST)/bin/python install --quiet --constraint $(LOWEST)/constraints.txt --editable '.[dev]'
	touch $@
