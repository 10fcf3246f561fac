# The entry points. Each needs Python and pip only: scripts/ find or bring the rest (uv, a Python 3.12),
# and install into an environment in this folder what the target needs, once.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-3.12 test-3.13 test-wheel-3.11 lint bench \
    test-hosts test-mini-2.4.6 test-mini-2.0.0

IN_ENV := scripts/in-env 3.12 .venv

# Examples a property: 1000 in CI, 100 at a desk, 50 on the other Pythons (tests/conftest.py).
PROFILE := $(if $(filter true,$(CI)),ci,dev)

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1: \2/p' $(MAKEFILE_LIST)

demo: ## replay the recorded session of examples/, show the table, write the plot to demo.png
	$(IN_ENV) --package cliff-core --extra plot cliff replay examples/demo-session.traj.json \
	    --threshold 16000 --plot demo.png
	@echo "The plot is in $(CURDIR)/demo.png"

test: test-3.12 test-3.13 test-wheel-3.11 ## all tests on Python 3.12 and 3.13, those of the core's wheel on 3.11

test-3.12:
	HYPOTHESIS_PROFILE=$(PROFILE) $(IN_ENV) --group test pytest -n auto --dist worksteal --cov

test-3.13:
	HYPOTHESIS_PROFILE=quick scripts/optional 3.13 scripts/in-env 3.13 .venv-3.13 --group test pytest -n auto --dist worksteal

test-wheel-3.11:
	HYPOTHESIS_PROFILE=quick scripts/optional 3.11 scripts/test-wheel 3.11

lint: ## ruff (lint and format) and mypy
	$(IN_ENV) --group lint ruff check
	$(IN_ENV) --group lint ruff format --check
	$(IN_ENV) --group lint mypy

bench: ## the core's benchmarks, beside the authors' package (an environment of its own)
	scripts/in-env 3.12 .venv-bench --group bench python benchmarks/core.py

# A host is an environment of its own, from a lock file of its own: tests/hosts/HOST/VERSION/.
MINI := tests/hosts/mini_swe_agent
# The warnings are those of the hosts' own dependencies.
IN_HOST := pytest -n 2 --dist loadfile -W ignore

test-hosts: test-mini-2.4.6 test-mini-2.0.0 ## the adapters in the real hosts, against a scripted model server

test-mini-2.4.6:
	scripts/in-env 3.12 $(CURDIR)/.venv-mini-2.4.6 --project $(MINI)/2.4.6 $(IN_HOST) $(MINI)

# The oldest release: its runners, its classes, its prompts, and the long session in two shapes.
test-mini-2.0.0:
	scripts/in-env 3.12 $(CURDIR)/.venv-mini-2.0.0 --project $(MINI)/2.0.0 $(IN_HOST) $(MINI) \
	    -k "not overflow and not resume and not responses and not anthropic"
