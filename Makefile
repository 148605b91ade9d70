# Everything runs in .venv, made with python3 and pip alone: no ensurepip, nothing written to the system.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench clean

demo: $(VENV)/installed
	rm -rf demo-output
	$(BIN)/oboro demo -o demo-output

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed-bench
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) demo-output build dist

$(BIN)/python:
	$(PYTHON) -m venv --without-pip $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --editable '.[dev]'
	touch $@ $(VENV)/installed

$(VENV)/installed-bench: pyproject.toml | $(BIN)/python
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --editable '.[bench]'
	touch $@
