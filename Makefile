# Needs python3 (3.11 or later) and make; everything else comes from the lock files into .venv,
# but for luacheck, Debian's lua-check, which `make lint` runs.
PYTHON ?= python3
VENV ?= .venv
LOCK ?= requirements/dev.txt
ARGS ?=
# Tests that run at once, each group with servers of its own; most of their time they wait for processes.
JOBS ?= 7
BIN := $(VENV)/bin
# Where this is set, each process that a test starts compiles the library again.
export PYTHONDONTWRITEBYTECODE :=
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo example test emulator test-rules test-variants test-quick test-postgres test-cluster test-all lint lint-checks format docs docs-html board node bench mutants wheel soak lock clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

$(READY): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: $(PYTHON) is missing or older than 3.11; name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: $(PYTHON) cannot make a virtual environment with pip;" \
	    "on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@test ! -L $(VENV) || { \
	  echo "make: $(VENV) is a symbolic link, and making it anew would empty what it points to;" \
	    "remove the link, or name another: make VENV=.venv-own ..." >&2; exit 1; }
	@echo "making $(VENV) from $(LOCK)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(LOCK)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY) ## real workers keep a real service under its limit, and lose one of them
	$(BIN)/python -m example_project.demo $(ARGS)

example: $(READY) ## a Django shop with web, worker and beat; its semaphores in the admin
	$(BIN)/python -m example_project.run $(ARGS)

# One process compiles the tests, else each of the others would, in a fresh clone.
test: $(READY) ## the tests, on this machine's python3 and the newest Celery
	@test -d tests/__pycache__ || $(BIN)/python -m pytest --collect-only -qq >/dev/null || true
	$(BIN)/python -m pytest -m "not soak and not release and not variants" -n $(JOBS) --dist worksteal $(ARGS)

# In an environment of its own: it brings another botocore. Without it the tests on DynamoDB and SQS are skipped.
EMULATOR = .venv-emulator
emulator: $(EMULATOR)/.ready ## an emulator of DynamoDB and SQS, of 90 MB, for `make test-variants`

$(EMULATOR)/.ready: requirements/emulator.txt
	@$(PYTHON) -m venv --clear $(EMULATOR)
	@$(EMULATOR)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	@touch $@

test-variants: $(READY) ## the same once more: other versions of the servers, the other broker, larger sizes
	$(BIN)/python -m pytest -m "variants and not soak" -n $(JOBS) --dist worksteal $(ARGS)

test-rules: $(READY) ## a few seconds: the rows of the architecture on memory, which decides as all stores do
	$(BIN)/python -m pytest tests/stores/test_conformance.py::TestMemoryStore tests/test_rows.py $(ARGS)

# Fewer processes than for the others: these tests hardly wait, and each process collects all of them.
test-quick: $(READY) ## under a minute: the core, a worker's parts without a worker, memory and Valkey
	$(BIN)/python -m pytest -m quick -n 4 --dist worksteal $(ARGS)

# Only where the store is a part of it; that processes die elsewhere is the same with any store.
test-postgres: $(READY) ## the tests of processes that die beside a step of the store, on PostgreSQL
	TESTS_STORE=postgres $(BIN)/python -m pytest -n $(JOBS) --dist worksteal \
	  tests/worker/test_windows.py tests/worker/messages/test_parking_windows.py \
	  -k "acquire or release or attach or take or sent"

test-cluster: $(READY) ## the tests of workers, with their permits in a Redis Cluster
	TESTS_STORE=cluster $(BIN)/python -m pytest -m "not soak and not variants" -n $(JOBS) --dist worksteal tests/worker $(ARGS)

# In pairs, not as a product: what fails with one Python and what fails with one Celery rarely need each other.
test-all: ## test, test-variants and test-postgres on (3.11, Celery 5.5), (3.12, 5.6), (3.13, 5.7), where those Pythons are installed
	@set -eu; \
	for pair in 3.11:requirements/celery-5.5.txt 3.12:requirements/celery-5.6.txt 3.13:requirements/dev.txt; do \
	  version=$${pair%%:*}; lock=$${pair#*:}; found=; \
	  for python in python$$version "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version.*/bin/python3; do \
	    if "$$python" -c "import ensurepip" >/dev/null 2>&1; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then echo "test-all: no python$$version here: not tested with $$lock" >&2; continue; fi; \
	  $(MAKE) --no-print-directory test test-variants test-postgres PYTHON="$$found" LOCK="$$lock" VENV=".venv-$$version"; \
	done

lint: $(READY) ## ruff, mypy --strict, the import contracts, prose, spelling, Lua, SQL, and the types that users see
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.prose
	$(BIN)/python -m tests.lua
	@$(MAKE) --no-print-directory lint-checks LOCK=requirements/checks.txt VENV=.venv-checks

# luacheck, which tests.lua runs, is Debian's package lua-check; all others are wheels.
lint-checks: $(READY)
	$(BIN)/codespell
	$(BIN)/sqlfluff lint --disable-progress-bar celery_semaphore/stores/postgresql
	$(BIN)/mypy --config-file tests/typing/with_celery_types.ini tests/typing/usage.py
	$(BIN)/mypy --config-file tests/typing/without_celery_types.ini tests/typing/usage.py
	$(BIN)/basedpyright --pythonpath $(BIN)/python --level error tests/typing/usage.py

format: $(READY) ## what ruff can mend by itself
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# In a virtual environment of its own: Sphinx and its extensions are of no use to the tests.
docs: ## the documentation as a site, in docs/_build/html
	@$(MAKE) --no-print-directory docs-html LOCK=requirements/docs.txt VENV=.venv-docs

docs-html: $(READY)
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html $(ARGS)

board: $(READY) ## Grafana's board and Prometheus's alarms anew, from the catalogue of metrics
	$(BIN)/python -m ops

node: $(READY) ## the scripts and examples of words of the client for Node.js anew, from the Python store
	$(BIN)/python -m clients

bench: $(READY) ## ratios against peers and against the floor
	$(BIN)/python -m benchmarks $(ARGS)

# mutmut has a virtual environment of its own: see tests/mutants/__main__.py.
mutants: $(READY) ## break the library in many ways; the tests must notice each
	@$(MAKE) --no-print-directory .venv-mutants/.ready LOCK=requirements/mutants.txt VENV=.venv-mutants
	.venv-mutants/bin/python -m pytest -q tests/mutants/test_generated.py
	$(BIN)/python -m tests.mutants $(ARGS)

wheel: $(READY) ## sdist and wheel in dist, and the wheel in an empty environment, which the package index fills
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m pytest -m release tests/release $(ARGS)

soak: $(READY) ## minutes of load and random kills
	$(BIN)/python -m pytest -m soak --timeout=3600 $(ARGS)

LOCKED = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --quiet \
  --custom-compile-command "make lock"
COMPILE = $(LOCKED) --all-extras pyproject.toml

lock: ## the lock files anew (needs uv)
	$(COMPILE) --group dev --upgrade -o requirements/dev.txt
	$(COMPILE) --group checks --group build -c requirements/dev.txt --upgrade -o requirements/checks.txt
	$(COMPILE) --group mutants --group build -c requirements/dev.txt --upgrade -o requirements/mutants.txt
	$(COMPILE) --group docs --group build -c requirements/dev.txt --upgrade -o requirements/docs.txt
	echo "celery==5.6.*" | $(COMPILE) --group dev - --upgrade -o requirements/celery-5.6.txt
	echo ministack | $(LOCKED) - --upgrade -o requirements/emulator.txt
	printf "celery==5.5.*\ndjango==4.2.*; python_version < '3.13'\n" | $(COMPILE) --group dev - --upgrade -o requirements/celery-5.5.txt

clean: ## everything that was made
	rm -rf .venv .venv-* build dist docs/_build *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
