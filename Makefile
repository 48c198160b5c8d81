# Two commands do everything on a machine with Python >= 3.11 and make:  make demo,  make test

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-all mutate lint format bench lock clean

help:            ## list the targets
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: .*## */\t/' | expand -t 12

$(BIN)/ddpatch: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ddpatch needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/.test: $(BIN)/ddpatch requirements-test.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-test.lock
	@touch $@

demo: $(BIN)/ddpatch    ## the main job, end to end, on a real SGLang
	$(BIN)/python -m demo

test: $(VENV)/.test    ## all tests that CI runs
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: $(VENV)/.test    ## every test
	$(BIN)/python -m pytest -n 2

mutate: $(VENV)/.test    ## mutation tests of the modules that must not be wrong
	$(BIN)/mutmut run
	$(BIN)/mutmut results

lint: $(VENV)/.test    ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.test    ## format and sort
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test    ## ratios against peers, one run each
	$(BIN)/python -m benchmarks.snapshot
	$(BIN)/python -m benchmarks.inventory
	$(BIN)/python -m benchmarks.apply

lock: $(VENV)/.test    ## resolve the dependencies anew
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/python -m piptools compile --quiet --strip-extras --no-emit-index-url --no-emit-find-links --no-annotate --output-file requirements.lock pyproject.toml
	$(BIN)/python -m piptools compile --quiet --strip-extras --no-emit-index-url --no-emit-find-links --no-annotate --extra test --extra ddtree --output-file requirements-test.lock pyproject.toml

clean:           ## remove what make has made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
