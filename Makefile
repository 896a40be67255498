# One command each: `make demo` shows the main job, `make test` passes every test, `make check` lints and types.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO ?= demo

.PHONY: help install demo test test-fast test-vllm test-systemd check format accuracy clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*##/\t/' | expand -t 16

# uv installs in seconds what pip takes a minute for; it comes from PyPI into the venv itself, so nothing else is needed.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable . --group dev
	@touch $@

install: $(VENV)/installed  ## make the virtual environment

demo: install  ## sample pages in several languages through the daemon, then the outputs and an SQL query
	PATH="$(CURDIR)/$(BIN):$$PATH" sh bench/demo.sh $(DEMO)

check: install  ## formatting, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: install  ## format and mend what can be mended by machine
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: install  ## every test of the base install
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not systemd"

test-fast: install  ## without those that read real pages or run the daemon for a while
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow and not systemd"

test-vllm:  ## the real vLLM on a CPU with a tiny model that reads, in an environment of its own (3.5 GB)
	PYTHON=$(PYTHON) sh tests/vllm_cpu/run.sh

test-systemd: install  ## inboxd under a real systemd, in a throw-away machine (as root)
	sh tests/systemd/run.sh

accuracy: install  ## character error rates on the samples, and how right the verdicts are, into docs/accuracy.md
	$(BIN)/python bench/accuracy.py

clean:  ## remove what make made
	rm -rf $(VENV) .venv-vllm $(DEMO)
