# Everything runs in .venv, made with python3 and pip alone: no ensurepip, nothing written to the system.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench

.PHONY: demo test check bench clean

demo: $(VENV)/installed
	rm -rf demo-output
	$(BIN)/oboro demo -o demo-output

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n auto --dist loadfile

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(BENCH)/installed
	$(BENCH)/bin/python -m bench

clean:
	rm -rf $(VENV) $(BENCH) demo-output build dist

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
