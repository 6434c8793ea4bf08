# Needs Python 3.11 or newer and make. Everything else is installed into .venv from the lock files.
PYTHON ?= python3
BIN := .venv/bin
BENCH := .venv/bench
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo kafka java page peers chart test test-long bench lint format lock clean

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

BUS ?= embedded
demo: .venv/run $(if $(filter kafka,$(BUS)),java) ## set up, then watch a posterior follow a stream while its processes are killed (BUS=kafka: on Kafka)
	@$(if $(filter kafka,$(BUS)),$(BIN)/python -m tests.brokers,$(BIN)/streaminfer) demo

PORT ?= 9092
kafka: .venv/run java ## a Kafka broker to try things on, until Ctrl-C (PORT=9092)
	@$(BIN)/python -m tests.brokers serve --port $(PORT)

java: # what a local broker needs, where it can be installed
	@tests/brokers/install.sh

page: # what a local broker needs, and a browser
	@tests/brokers/install.sh chromium

peers: # the same, a client of Kafka that nobody here wrote, Prometheus, which checks the alert rules, a browser, and helm, which is built meanwhile
	@tests/brokers/install.sh kcat prometheus chromium $$({ command -v helm || command -v go; } >/dev/null || echo golang-go)
	@$(PYTHON) tests/chart/build.py >/dev/null 2>&1 </dev/null &

chart: .venv/dev ## write the files of the Helm chart that follow from the declaration of topics and roles
	@$(BIN)/python -m tests.chart

test: .venv/dev peers ## set up, then all tests that CI runs
	$(BIN)/python -m pytest -n 4 --dist loadgroup -m "not long" -q

test-long: .venv/dev peers ## the full matrices and soaks as well
	$(BIN)/python -m pytest -n 3 --dist loadgroup -q

bench: $(BENCH)/installed page ## how fast it is, beside a bare loop and its peers (QUICK=1, ONLY=ac or l3, COMPARE=benchmarks/results/...json)
	@$(BENCH)/bin/python -m benchmarks run $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(COMPARE),--against $(COMPARE))

lint: .venv/dev ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev ## write the code as the formatter would
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: .venv/dev ## pin all dependencies again
	echo "setuptools>=77" | $(BIN)/pip-compile $(LOCK) -o requirements.lock pyproject.toml -
	$(BIN)/pip-compile $(LOCK) -c requirements.lock --extra dev -o requirements-dev.lock pyproject.toml
	$(BIN)/pip-compile $(LOCK) -c requirements.lock --extra bench -o requirements-bench.lock pyproject.toml
LOCK := -q --generate-hashes --strip-extras --allow-unsafe --no-emit-index-url --no-emit-find-links --no-header

clean: ## remove what was made
	rm -rf .venv .streaminfer build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.venv/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "streaminfer needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv .venv
	@touch $@

.venv/run: .venv/python requirements.lock pyproject.toml
	$(BIN)/pip install -q --require-hashes -r requirements.lock
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	@touch $@

.venv/dev: .venv/run requirements-dev.lock
	$(BIN)/pip install -q --require-hashes -r requirements-dev.lock
	@touch $@

# An environment of its own: a peer wants an older confluent-kafka than the tests.
$(BENCH)/installed: .venv/python requirements.lock requirements-bench.lock pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install -q --require-hashes -r requirements.lock -r requirements-bench.lock
	$(BENCH)/bin/pip install -q --no-deps --no-build-isolation -e .
	@touch $@
