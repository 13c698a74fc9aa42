# make demo · test · test-slow · check · conformance: each sets up what it needs, once, under .venv.
#   PYTHON=python3.13   another interpreter (then `make clean` first)
#   WORKERS=0           tests one after another

PYTHON  ?= python3
WORKERS ?= auto

VENV := .venv
BIN  := $(VENV)/bin

# -qq hides pip's remarks about the indexes it was given; errors still show.
# --no-compile: compiling all of torch takes longer than compiling the part that gets imported.
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-input --disable-pip-version-check \
               --no-compile -c constraints.txt

# Most processes here are short and import torch: what that compiles is kept, whatever a shell says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check check-types check-rest conformance clean

help:
	@echo 'make demo    triage one kernel on this machine, GPU or not'
	@echo 'make test    run the tests, without the slow ones and those that need a GPU'
	@echo 'make test-slow   run the slow ones: fuzzes, crash sweeps, further attacks and benches, conformance'
	@echo 'make check   lint, types, import rules, knowledge and generated files'
	@echo 'make conformance   what official suites and clients of MCP say about the server; needs npm'
	@echo 'make clean   remove the environment, the caches and the builds'

demo: $(VENV)/.installed
	@$(BIN)/kb triage row_softmax || test $$? -eq 1  # 1: advised to stop here, which shows the loop too

# One file stays in one process (loadfile), so what a file shares, like its built wheel, is made once.
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: $(VENV)/.installed-dev
	@$(PYTEST)
	@echo 'not run: make test-slow; $(BIN)/python -m pytest -m gpu (needs a GPU)'

test-slow: $(VENV)/.installed-dev
	@$(PYTEST) -m 'slow and not gpu'

# mypy takes the longest by far, so the others run beside it.
check: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -j 2 --output-sync=target check-types check-rest

check-types: $(VENV)/.installed-dev
	$(BIN)/mypy

check-rest: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/kb check
	$(BIN)/kb lab quickref --check
	$(BIN)/kb lab guide --check

# Node and the suites come from npm, once, below build/; versions: tests/conformance/package.json.
conformance: $(VENV)/.installed-dev
	@$(BIN)/python tests/conformance/run.py

clean:
	rm -rf $(VENV) .kb build dist engine/kernelkb/_data
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find benchmarks engine kernels mcp_server tests -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp is written last and removed first: an environment without it is half made, and is made
# again from nothing; one with an old stamp is complete, and only catches up.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c '' || { \
	    echo 'make: no usable $(PYTHON); install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "make: KernelKB needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V 2>&1); name a newer one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo 'make: $(PYTHON) cannot make environments; install its venv package (Debian, Ubuntu: sudo apt install python3-venv)' >&2; exit 1; }
	@echo 'setting up $(VENV), once: about a minute' >&2
	@{ test -f $@ && $(BIN)/python -c ''; } || $(PYTHON) -m venv --clear $(VENV)
	@rm -f $@ $(VENV)/.installed-dev
	@$(PIP_INSTALL) -e '.[torch]'
	@$(BIN)/python -m compileall -q engine mcp_server
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(PIP_INSTALL) -e '.[torch,dev]'
	@touch $@
