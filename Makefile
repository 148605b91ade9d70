# Everything runs in .venv, made with python3 and pip alone: no ensurepip, nothing written to the system.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
LOWEST := .venv-lowest
SPARK := .venv-spark
# not PEERS, which the bench reads: what make sets goes to its commands in place of what was typed
PEER_VENVS := .venv-tmlt/installed .venv-pipelinedp/installed
LOOPS := $(shell grep -rl --include='*.py' noise.compiler src)
# errors are shown; what pip would say about itself is not
PIP := $(PYTHON) -m pip --disable-pip-version-check --quiet --quiet
PYTEST := -m pytest -n auto --dist worksteal
# Tests start many processes: what these import is kept as bytecode, also where the environment says not to.
export PYTHONDONTWRITEBYTECODE :=
WORKERS = $(shell $(PYTHON) -c "import os; print(os.cpu_count() + 1)")

.PHONY: demo studio test test-long test-spark check docs bench busy lowest release-check clean

demo: $(VENV)/installed
	rm -rf demo-output
	$(BIN)/oboro demo -o demo-output

# The studio on the demo's city, in a browser.
studio: $(VENV)/installed-service
	test -f demo-output/city.toml || $(MAKE) demo
	$(BIN)/oboro studio demo-output/city.toml

# What a newcomer runs. Its last line says what it leaves out. One worker more than cores: some tests wait for other processes.
test: $(VENV)/compiled
	$(BIN)/python $(PYTEST:auto=$(WORKERS)) -m "not long"

# The rest. `make test-long MINUTES=30` begins no test after half an hour, and says how many were left.
test-long: $(VENV)/compiled
	$(BIN)/python $(PYTEST) -m long --cpu=$(VENV)/cpu.json $(if $(MINUTES),--minutes=$(MINUTES))

# Apache Spark, for real: in one process, as a cluster of processes, and by Connect. Needs Java 17 or later.
test-spark: $(SPARK)/installed
	$(SPARK)/bin/python -m pytest -p no:cacheprovider tests/engine/test_cluster.py tests/tables/test_subtrees_spark.py

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/installed-dev
	$(BIN)/python docs/build_site.py site

# `make bench PART=peers` first makes an environment for each peer that cannot live beside our dependencies.
bench: $(BENCH)/installed $(if $(filter peers,$(PART)),$(PEER_VENVS)) $(if $(filter synth synth_table,$(PART)),.venv-aim/installed)
	$(BENCH)/bin/python -m bench $(PART)

# All tests, three times, beside processes that keep every core busy.
busy: $(VENV)/compiled
	$(BIN)/python tools/busy.py --times 3 $(BIN)/python $(PYTEST)

# All tests on another Python, in an environment of its own: make python3.12, make python3.13
python3.%:
	$(MAKE) test test-long PYTHON=$@ VENV=.venv-$@

# All tests at the lowest versions that pyproject.toml declares. Compiled loops are kept apart: they differ by version.
lowest: $(LOWEST)/installed
	export NUMBA_CACHE_DIR="$(CURDIR)/$(LOWEST)/numba"; $(LOWEST)/bin/python tests/warm.py && $(LOWEST)/bin/python $(PYTEST) -p no:cacheprovider

release-check:
	$(PYTHON) tools/release_check.py dist

clean:
	rm -rf $(VENV) $(VENV)-* demo-output build dist site

$(BIN)/python:
	$(PYTHON) -m venv --without-pip $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(PIP) --python $(BIN)/python install --editable .
	touch $@

$(VENV)/installed-service: pyproject.toml | $(BIN)/python
	$(PIP) --python $(BIN)/python install --editable '.[service]'
	touch $@ $(VENV)/installed

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(PIP) --python $(BIN)/python install --editable '.[dev]'
	touch $@ $(VENV)/installed

# Loops are compiled once, not by each of the processes that run the tests.
$(VENV)/compiled: $(VENV)/installed-dev $(LOOPS)
	$(BIN)/python tests/warm.py
	touch $@

$(BENCH)/installed: pyproject.toml
	$(PYTHON) -m venv --without-pip $(BENCH)
	$(PIP) --python $(BENCH)/bin/python install --editable '.[bench]'
	touch $@

$(SPARK)/installed: pyproject.toml
	$(PYTHON) -m venv --without-pip $(SPARK)
	$(PIP) --python $(SPARK)/bin/python install --editable '.[dev,spark]'
	touch $@

.venv-tmlt/installed:
	$(PYTHON) -m venv --without-pip .venv-tmlt
	$(PIP) --python .venv-tmlt/bin/python install 'tmlt.analytics==0.21.*'
	touch $@

.venv-aim/installed:
	$(PYTHON) -m venv --without-pip .venv-aim
	$(PIP) --python .venv-aim/bin/python install 'opendp[mbi]==0.16.*' 'sdmetrics==0.32.*'
	touch $@

.venv-pipelinedp/installed:
	$(PYTHON) -m venv --without-pip .venv-pipelinedp
	$(PIP) --python .venv-pipelinedp/bin/python install 'pipeline-dp==0.3.*' pyarrow
	touch $@

$(LOWEST)/installed: pyproject.toml tools/lowest.py
	$(PYTHON) -m venv --without-pip --clear $(LOWEST)
	$(PYTHON) tools/lowest.py > $(LOWEST)/constraints.txt
	$(PIP) --python $(LOWEST)/bin/python install --constraint $(LOWEST)/constraints.txt --editable '.[dev]'
	touch $@
