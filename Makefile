# Every target does its own set-up; with nothing changed that costs a fraction of a second.
PY := .venv/bin/python
ARGS ?=
PYTEST := $(PY) -m pytest -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder
SOURCES := $(wildcard antiphon tests bench scripts examples)
# The tests of spec and stream alone hold those two to their floor, so the others do not count lines there.
OTHERS := $(filter-out %/spec/ %/stream/ %/__pycache__/,$(wildcard antiphon/*/))
FLOOR = $(PY) -m coverage json --quiet -o - | $(PY) scripts/coverage_floor.py $(1) \
	|| { $(PY) -m coverage report; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help serve test check docs judge agents bench cluster chaos format lock clean setup model clients web packages

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

serve: export SETUP := serve
serve: setup model web ## start the gateway on 127.0.0.1:8080 (options: make serve ARGS="--port 9000")
	@exec .venv/bin/antiphon serve $(ARGS)

# Each process that starts would compile what it imports anew where nothing may be kept.
test: export PYTHONDONTWRITEBYTECODE :=
test: setup model clients web packages ## run every test, and hold the package to its coverage
	$(PYTEST) tests/spec tests/stream -m counted --cov --cov-report=
	@$(call FLOOR,antiphon/spec:95:95 antiphon/stream:95:95)
	$(PYTEST) tests -m "not counted" $(OTHERS:%/=--cov=%) --cov-append --cov-report=
	@$(call FLOOR,antiphon:90)
	@scripts/web_checks test

check: setup web ## format, lint, strict types, layer rule, laws, and whether generated code is up to date
	$(PY) -m ruff format --check $(SOURCES)
	$(PY) -m ruff check $(SOURCES)
	$(PY) -m mypy $(SOURCES)
	.venv/bin/lint-imports
	$(PY) scripts/laws.py antiphon
	$(PY) -m scripts.sync_client --check
	@scripts/web_checks check

docs: export SETUP := serve
docs: setup ## make a site of the documentation, in build/site
	@PYTHON='$(PYTHON)' scripts/setup docs
	@$(PY) -m scripts.site

judge: setup model ## hold other servers to the specification (one: make judge ARGS=litellm)
	$(PY) scripts/judge.py $(ARGS)

agents: setup ## drive real coding agents over the gateway (some: make agents ARGS="codex chat")
	$(PY) scripts/agents.py $(ARGS)

bench: setup model ## run the benchmarks
	$(PY) -m bench $(ARGS)

cluster: setup ## start two gateways on one PostgreSQL behind nginx, to try it
	@scripts/packages initdb nginx
	@exec $(PY) -m examples.cluster $(ARGS)

chaos: setup ## kill gateways and PostgreSQL for 15 minutes, and check that nothing is lost
	@scripts/packages initdb
	@exec $(PY) -m tests.chaos $(ARGS)

format: setup ## format, and fix what the linter can
	$(PY) -m ruff format $(SOURCES)
	$(PY) -m ruff check --fix $(SOURCES)
	@scripts/web_checks format

lock: setup ## write the lock again from pyproject.toml (newest versions: make lock ARGS=--upgrade)
	@scripts/lock $(ARGS)

clean: ## remove everything that make made
	rm -rf .venv .docs .cache .setup.lock .judge build dist .coverage .coverage.* htmlcov
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf tests/bridges/node/node_modules web/node_modules antiphon/server/web .node
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup:
	@PYTHON='$(PYTHON)' scripts/setup $${SETUP:-dev}

# Without its weights the gateway still starts, so this never stops a target.
model: setup
	@test ! -f antiphon/embedded/weights.py || $(PY) -m antiphon.embedded.weights \
		|| echo "make: going on without the embedded model" >&2

clients:
	@scripts/clients

web: setup ## build the web app that the gateway serves at /
	@scripts/web $${SETUP:-dev}

packages:
	@scripts/packages
