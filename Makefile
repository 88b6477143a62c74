# The project's commands. Everything they need is put under $(VENV); nothing happens twice.
# PYTHON chooses the interpreter of a new virtual environment, WORKERS how many tests run at a time, ARGS
# are options of the demonstration: make demo ARGS="--management http://HOST:15672 --user NAME ...". BROKER=4 is
# the RabbitMQ that it starts: 3 is Debian 12's, 4 Debian 13's, newest that of Debian unstable. TESTS="tests/snmp" selects
# tests, STRICT=1 lets an unsteady one be an error.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
ifndef AT_ONCE
.NOTPARALLEL:
endif

VENV ?= .venv
PYTHON ?= python3
UV ?= uv
# Two more than CI has processors: half of their time, tests wait for brokers.
WORKERS ?= 6
SEED ?= 20080206
TIMES ?= 20
MINUTES ?= 60
NEWER_PYTHONS ?= python3.12 python3.13 python3.14
PREFIX ?= /opt/amqp-gateway
BUILD ?= build
REQUIREMENTS ?= requirements.txt

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start many hundred processes, each of which would otherwise compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=
BIN := $(VENV)/bin
# What is imported is compiled then; all of it would take a third of the installation's time.
# Takes a step that needs the network: up to three times, and says every 10 s that it goes on, without a child of its own
# that would outlive it.
PATIENTLY := patiently() { ( exec 9<> <(:); s=0; while ! read -r -t 10 -u 9; do s=$$((s + 10)); echo "  $$s s so far" >&2; done ) & \
    said=$$!; trap "kill $$said 2>/dev/null || true" EXIT; \
    for pause in 10 30; do "$$@" && return; echo "trying once more in $$pause s: $$*" >&2; sleep $$pause; done; "$$@"; }; patiently
# A lock file names all that is needed: --no-deps. Before release 23.3, pip takes the newest of coverage for
# coverage[toml] although coverage is pinned, and refuses it because it has no hash.
PIP_INSTALL := $(PATIENTLY) $(BIN)/python -m pip install --quiet --no-compile
DEMO_BROKER := $(if $(BROKER),--broker $(BROKER))
SPHINX := $(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --builder html

.PHONY: help venv demo demo-check test steady prove bench lint format types docs pictures dist prefix install deb figures lock checked debian-packages compiler clean

help:  ## what each command does
	@sed -n 's/^\([a-z-]*\):.*## */\1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(VENV)/.runtime  ## a RabbitMQ of its own, read through SNMP, until Ctrl-C
	@$(BIN)/amqp-gateway demo $(DEMO_BROKER) $(ARGS)

demo-check: $(VENV)/.analytics  ## the demo by itself: compared with broker and workload, exit 0 or what differs; build/demo has what is seen
	@$(if $(BROKER),,XDG_CACHE_HOME=$(abspath $(BUILD))/cache )$(BIN)/python -m tests.demo_check --keep $(BUILD)/demo $(DEMO_BROKER)

test: $(if $(TESTS),$(VENV)/.development debian-packages,checked)  ## lint, types, contracts, documentation, all tests; TESTS="..." only those; STRICT=1
	@$(BIN)/python -m pytest -n $(WORKERS) --randomly-seed=$(SEED) --second-run=$(if $(STRICT),strict,lenient) $(TESTS)

steady: $(VENV)/.development debian-packages  ## how often tests fail beside load: TESTS="..." or SINCE=COMMIT, TIMES=20, MINUTES=60
	@$(BIN)/python -m tests.steady --times $(TIMES) --minutes $(MINUTES) $(if $(SINCE),--since $(SINCE)) $(TESTS)

# Other interpreters get environments of their own beside the first; one that is named but does not run is passed over.
prove: export PROVE := 1
prove: checked  ## the tests with large counts and new seeds, on newer Pythons too; writes docs/results/
	@failed=0; results=$$(mktemp -d); trap 'rm -rf "$$results"' EXIT; \
	run() { "$$1/python" -m pytest -n $(WORKERS) --timeout 7200 --second-run=strict \
	    --junitxml="$$results/$$("$$1/python" -c 'import platform; print(platform.python_version())').xml" || failed=1; }; \
	run $(BIN); \
	for newer in $(NEWER_PYTHONS); do \
	  "$$newer" -c pass 2>/dev/null || continue; \
	  $(MAKE) --no-print-directory venv PYTHON="$$newer" VENV=$(VENV)/"$$newer" || { failed=1; continue; }; \
	  run $(VENV)/"$$newer"/bin; \
	done; \
	$(BIN)/python -m tests.results_page docs/results "$$results"/*.xml; exit $$failed

# What the tests come after. Debian's packages are fetched while pip works.
checked:
	@$(MAKE) --no-print-directory --jobs=2 AT_ONCE=yes lint docs debian-packages

# BENCH=snmp measures that section only; JSON=file gets the rows, and keeps those of other sections.
bench: $(VENV)/.development debian-packages  ## speed beside others: writes docs/benchmarks.md; BENCH=name for one, JSON=file
	@$(BIN)/python -m tests.bench $(BENCH) $(if $(JSON),--json $(JSON)) $(if $(OBSERVE),--observe $(OBSERVE))

lint: $(VENV)/.development types  ## format, rules, types, import contracts, dependencies, container files
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-logo >$(VENV)/lint-imports.txt || { cat $(VENV)/lint-imports.txt; exit 1; }
	@$(BIN)/deptry .
	@$(BIN)/hadolint docker/Dockerfile
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker/compose.yaml

types: $(VENV)/.development
	@$(BIN)/mypy

format: $(VENV)/.development  ## rewrite the code in the project's form
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

docs: $(VENV)/.development  ## the documentation as HTML in docs/_build/html; warnings are errors
	@$(SPHINX) docs docs/_build/html

# With the machine's own Python: the virtual environment may just be in the making.
debian-packages: compiler
	@$(PYTHON) -m gateway.demo.install --tests

# The tests' AMQP 1.0 client is compiled when it is installed.
compiler:
	@test -e $(VENV)/.development || $(PYTHON) -m gateway.demo.install --compiler

pictures: demo-check  ## the documentation's pictures, taken of a running demonstration
	@cp $(BUILD)/demo/*.png docs/_static/

# Of the same sources and compiler these are the same octets, whenever and wherever they are made.
dist: $(VENV)/.runtime  ## wheel and source distribution, in dist/
	@$(PYTHON) -m gateway.demo.install --build
	@rm -rf dist
	@$(BIN)/python -m hatchling build --target sdist --directory dist
	@$(BIN)/python -m hatchling build --target wheel --directory dist

install: prefix dist  ## the gateway in a virtual environment of its own at PREFIX; REQUIREMENTS=requirements-spark.txt with Spark
	@$(BIN)/python -m venv --without-pip $(PREFIX)
	@echo "installing the gateway into $(PREFIX)"
	@$(PATIENTLY) $(BIN)/python -m pip --python $(PREFIX)/bin/python install --quiet --require-hashes --no-deps -r $(REQUIREMENTS)
	@$(BIN)/python -m pip --python $(PREFIX)/bin/python install --quiet --no-deps --force-reinstall dist/*.whl
	@bash docker/debian/shared_files.sh $(PREFIX)/bin/amqp-gateway $(PREFIX)/share
	@echo "installed in $(PREFIX); next: $(PREFIX)/bin/amqp-gateway quickstart http://HOST:15672"

# First, so that nothing is built in vain.
prefix:
	@test ! -e $(PREFIX) || test -e $(PREFIX)/pyvenv.cfg || { echo "$(PREFIX) is there, and no virtual environment: make install PREFIX=FOLDER"; exit 1; }
	@if test -e $(PREFIX); then test -w $(PREFIX); else mkdir -p $(PREFIX) 2>/dev/null && rmdir $(PREFIX); fi \
	|| { echo "$(PREFIX) cannot be written: make install PREFIX=FOLDER"; exit 1; }

deb: dist  ## a Debian package for this release, in dist/: the gateway and its Python libraries in /opt/amqp-gateway
	@echo "building a Debian package"
	@export PATH="$(abspath $(BIN)):$$PATH"; $(PATIENTLY) bash docker/debian/build.sh dist/*.whl $(REQUIREMENTS) dist

figures: $(VENV)/.development  ## how large the code is, and how far a record travels through it
	@$(BIN)/python -m tests.structure

lock:  ## resolve the requirements anew, with hashes
	@compile() { $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-header --no-annotate "$$@"; }; \
	compile --upgrade --extra spark --group dev pyproject.toml -o requirements-dev.txt; \
	compile --upgrade -c requirements-dev.txt pyproject.toml -o requirements.txt; \
	compile --upgrade -c requirements-dev.txt --extra spark pyproject.toml -o requirements-spark.txt; \
	compile --upgrade -c requirements-dev.txt --group build -o requirements-build.txt

venv: $(VENV)/.development  ## the virtual environment for development

clean:  ## remove what the commands above made
	rm -rf $(VENV) $(BUILD) dist docs/_build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.made requirements.txt requirements-build.txt pyproject.toml
	@echo "installing the gateway into $(VENV)"
	@$(PIP_INSTALL) --require-hashes --no-deps -r requirements.txt -r requirements-build.txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# PySpark comes as a source distribution, over which an older pip warns at length: hence quieter still.
$(VENV)/.analytics: $(VENV)/.runtime requirements-spark.txt
	@echo "installing the extra [spark] into $(VENV)"
	@$(PIP_INSTALL) --quiet --require-hashes --no-deps -r requirements-spark.txt
	@touch $@

$(VENV)/.development: $(VENV)/.made requirements-dev.txt pyproject.toml | compiler
	@echo "installing the gateway and its development tools into $(VENV)"
	@$(PIP_INSTALL) --require-hashes --no-deps -r requirements-dev.txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.runtime $(VENV)/.analytics
