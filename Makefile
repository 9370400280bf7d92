# Everything a newcomer types. The work is done by scripts/bootstrap.py, which needs nothing but Python.

PYTHON ?= python3
PORT ?= 8000
HOST ?= 127.0.0.1
DEMO ?= 1
ARGS ?=
export PORT HOST DEMO

BOOTSTRAP = $(PYTHON) scripts/bootstrap.py

.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-thorough test-clients test-newest bench chaos lint lint-mutations format shell lock vendor check-vendor clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## set up what is missing and serve (PORT=8000 HOST=127.0.0.1 DEMO=1)
	@$(BOOTSTRAP) run $(ARGS)

test: ## set up what is missing and run the tests (ARGS="-k gate")
	@$(BOOTSTRAP) test $(ARGS)

test-fast: ## only the tests that take moments and need no browser and no database server
	@$(BOOTSTRAP) test-fast $(ARGS)

test-thorough: ## what make test leaves out: more pages and sizes, faults, examples of properties
	@$(BOOTSTRAP) test-thorough $(ARGS)

test-clients: ## the tests with real agent libraries
	@$(BOOTSTRAP) test-clients $(ARGS)

test-newest: ## the same with the newest release of each library (ARGS="--only opencode")
	@$(BOOTSTRAP) test-newest $(ARGS)

bench: ## measure, print a table, write JSON
	@$(BOOTSTRAP) bench $(ARGS)

chaos: ## break servers under load; nothing may be lost (ARGS="--only kill --store sqlite")
	@$(BOOTSTRAP) chaos $(ARGS)

lint: ## style, types, imports, language, templates, page scripts, migrations, vendored files
	@$(BOOTSTRAP) lint

lint-mutations: ## break each rule in a copy of the tree; its check must fail (ARGS="--only imports")
	@$(BOOTSTRAP) lint-mutations $(ARGS)

format: ## let ruff and djade tidy the code
	@$(BOOTSTRAP) format

shell: ## a Django shell
	@$(BOOTSTRAP) shell

lock: ## pin the dependencies again, with hashes
	@$(BOOTSTRAP) lock $(ARGS)

vendor: ## fetch the browser libraries named in static/vendor/vendor.json (needs npm)
	@$(PYTHON) scripts/vendor.py

check-vendor: ## compare the vendored files with their checksums (no network)
	@$(PYTHON) scripts/vendor.py --check

clean: ## remove the virtual environment and caches; data in var/ stays
	rm -rf .venv .venv.lock .tools .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage htmlcov build dist *.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
