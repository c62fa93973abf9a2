# Everything here works on a fresh clone, with nothing but make and Python 3.11 or newer.
#   make test PYTHON=python3.13              another interpreter
#   make test ARGS="tests/test_x.py -k sum"  arguments for pytest (demo, mutate and bench take them too)

PYTHON ?= python3
ARGS   ?=
VENV       := .venv
BENCH_VENV := .venv-bench
COMPILE_VENV := .venv-bench-compile
BIN        := $(VENV)/bin
BENCH_BIN  := $(BENCH_VENV)/bin
COMPILE_BIN := $(COMPILE_VENV)/bin

PYVER := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint format types contracts check fuzz mutate mutate-compiler bench bench-functions bench-compile clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-demo ## train a network on handwritten digits, write everyo-demo/
	$(BIN)/everyo demo $(ARGS)

test: $(VENV)/.installed-dev ## run the test suite
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

lint: $(VENV)/.installed-dev ## check style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: $(VENV)/.installed-dev ## mend style and formatting
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(VENV)/.installed-dev ## check the types
	$(BIN)/mypy

contracts: $(VENV)/.installed-dev ## check that imports point down the layers only
	$(BIN)/lint-imports

check: lint types contracts test ## lint, types, contracts and tests

fuzz: $(VENV)/.installed-dev ## 2,000 random programs compiled, a million points of each elementary function
	EVERYO_FUZZ=2000 EVERYO_ELEMENTARY_POINTS=1000000 $(BIN)/python -m pytest -n auto --dist worksteal \
		tests/test_compile_programs.py tests/test_elementary.py $(ARGS)

mutate: $(VENV)/.installed-dev ## plant a fault in each derivative rule; the suite must notice
	$(BIN)/python tools/mutate.py $(ARGS)

mutate-compiler: $(VENV)/.installed-dev ## plant a fault in each pass and rule of the compiler
	$(BIN)/python tools/mutate_compiler.py $(ARGS)

bench: $(BENCH_VENV)/.installed ## compare the speed with PyTorch, autograd and MyGrad
	$(BENCH_BIN)/python -m benchmarks.eager $(ARGS)

bench-functions: $(BENCH_VENV)/.installed ## compare functions of a million elements with NumPy and SciPy
	$(BENCH_BIN)/python -m benchmarks.functions $(ARGS)

bench-compile: $(COMPILE_VENV)/.installed ## compare compiled functions with JAX, PyTorch and C++
	$(COMPILE_BIN)/python -m benchmarks.compiled $(ARGS)

clean: ## remove the environments, caches and outputs
	rm -rf $(VENV) $(BENCH_VENV) $(COMPILE_VENV) .venv-ci everyo-demo build dist .hypothesis .import_linter_cache .mypy_cache \
		.pytest_cache .ruff_cache
	find everyo tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# An environment is made once per Python version. The hidden files are touched only after a step has
# succeeded, so an interrupted one is done again; a newer pyproject.toml installs again.
%/.python-$(PYVER):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "EveryO needs Python 3.11 or newer, but PYTHON=$(PYTHON) is: $$($(PYTHON) --version 2>&1)"; \
		echo "Name a newer one: make $(firstword $(MAKECMDGOALS)) PYTHON=/path/to/python3"; \
		exit 1; }
	@echo "Making $* with Python $(PYVER)"
	@$(PYTHON) -m venv --clear $*
	@touch $@

$(VENV)/.installed-demo: $(VENV)/.python-$(PYVER) pyproject.toml
	@echo "Installing EveryO and what the demo needs into $(VENV) (once; it can take some minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[train,cli]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.python-$(PYVER) pyproject.toml
	@echo "Installing EveryO and its development tools into $(VENV) (once; it can take some minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed-demo

$(COMPILE_VENV)/.installed: $(COMPILE_VENV)/.python-$(PYVER) pyproject.toml benchmarks/compiled/requirements.txt
	@echo "Installing EveryO and the libraries it is compared with into $(COMPILE_VENV) (once; PyTorch is large)"
	@$(COMPILE_BIN)/python -m pip install --quiet --disable-pip-version-check \
		--requirement benchmarks/compiled/requirements.txt --editable '.[compile]'
	@touch $@

$(BENCH_VENV)/.installed: $(BENCH_VENV)/.python-$(PYVER) pyproject.toml benchmarks/requirements.txt
	@echo "Installing EveryO and the libraries it is compared with into $(BENCH_VENV) (once; PyTorch is large)"
	@$(BENCH_BIN)/python -m pip install --quiet --disable-pip-version-check \
		--requirement benchmarks/requirements.txt --editable '.[compile]'
	@touch $@
