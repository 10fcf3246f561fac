# The entry points. Each needs Python and pip only: scripts/ find or bring the rest (uv, a Python 3.12),
# and install into an environment in this folder what the target needs, once.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-3.12 test-3.13 test-wheel-3.11 coverage lint bench bench-defaults authors \
    test-hosts test-clients

IN_ENV := scripts/in-env 3.12 .venv

# Examples a property: 1000 in CI, 100 at a desk, 50 on the other Pythons (tests/conftest.py).
export HYPOTHESIS_PROFILE := $(if $(filter true,$(CI)),ci,dev)

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1: \2/p' $(MAKEFILE_LIST)

demo: ## replay the recorded session of examples/, show the table, write the plot to demo.png
	$(IN_ENV) --package cliff-core --extra plot cliff replay examples/demo-session.traj.json \
	    --threshold 16000 --plot demo.png
	@echo "The plot is in $(CURDIR)/demo.png"

test: test-3.12 test-3.13 test-wheel-3.11 ## all tests on Python 3.12 and 3.13, those of the wheels of core and proxy on 3.11

test-3.12: authors
	$(IN_ENV) --group test pytest -n auto --dist worksteal

# Without the invariants on long recorded sessions: a fifth of the time, and nothing there depends on the Python.
test-3.13:
	HYPOTHESIS_PROFILE=quick scripts/optional 3.13 scripts/in-env 3.13 .venv-3.13 --group test pytest -n auto --dist worksteal \
	    --ignore tests/properties/test_recorded.py

test-wheel-3.11:
	HYPOTHESIS_PROFILE=quick scripts/optional 3.11 scripts/test-wheel 3.11

coverage: ## the tests on Python 3.12 with coverage, which takes twice the time
	HYPOTHESIS_PROFILE=dev $(IN_ENV) --group test pytest -n auto --dist worksteal --cov

lint: ## ruff (lint and format) and mypy
	$(IN_ENV) --group lint ruff check
	$(IN_ENV) --group lint ruff format --check
	$(IN_ENV) --group lint mypy

bench: ## the core's and the proxy's benchmarks, beside the authors' package (an environment of its own)
	scripts/in-env 3.12 .venv-bench --group bench python benchmarks/core.py
	scripts/in-env 3.12 .venv-bench --group bench python benchmarks/proxy.py

bench-defaults: authors ## each default alone: support and cost on ../shared/traces, beside the authors'
	CLIFF_AUTHORS_PYTHON=$(CURDIR)/.venv-bench/bin/python $(IN_ENV) --package cliff-core python benchmarks/defaults.py

# The authors' package, which tests and benchmarks run as a policy.
authors:
	scripts/in-env 3.12 .venv-bench --group bench python -c "import cliffcompaction"

# A host is an environment of its own, from a lock file of its own: tests/hosts/HOST/VERSION/.
MINI := tests/hosts/mini_swe_agent
OPENHANDS := tests/hosts/openhands
TERMINUS2 := tests/hosts/terminus2
# The warnings are those of the hosts' own dependencies.
IN_HOST := pytest -W ignore
OPENHANDS_V1 := cli-1.16.0 ai-1.11.0 sdk-1.58.2
HOST_TESTS := test-terminus2 test-openhands-v0-1.6.0 $(OPENHANDS_V1:%=test-openhands-%) \
    test-mini-2.4.6 test-mini-2.0.0

.PHONY: $(HOST_TESTS)

# They wait for imports and terminals more than they compute: two at a time, each one's output in one piece.
test-hosts: ## the adapters in the real hosts, against a scripted model server
	$(MAKE) --jobs=2 --output-sync=target --keep-going $(HOST_TESTS)

# terminal-bench and Harbor in one environment; needs tmux.
test-terminus2:
	scripts/in-env 3.12 $(CURDIR)/.venv-terminus2 --project $(TERMINUS2)/terminal-bench-0.2.18-harbor-0.26.0 \
	    $(IN_HOST) -n 2 --dist loadfile $(TERMINUS2)

test-openhands-v0-1.6.0:
	scripts/in-env 3.12 $(CURDIR)/.venv-openhands-v0-1.6.0 --project $(OPENHANDS)/v0-1.6.0 \
	    $(IN_HOST) $(OPENHANDS)/v0-1.6.0

# One process an environment: importing OpenHands takes 10 s and more.
$(OPENHANDS_V1:%=test-openhands-%): test-openhands-%:
	scripts/in-env 3.12 $(CURDIR)/.venv-openhands-$* --project $(OPENHANDS)/$* \
	    $(IN_HOST) $(OPENHANDS)/v1 $(OPENHANDS)/surfaces

test-mini-2.4.6:
	scripts/in-env 3.12 $(CURDIR)/.venv-mini-2.4.6 --project $(MINI)/2.4.6 $(IN_HOST) -n 2 --dist loadfile $(MINI)

# The oldest release: its runners, its classes, its prompts, and the long session in two shapes.
test-mini-2.0.0:
	scripts/in-env 3.12 $(CURDIR)/.venv-mini-2.0.0 --project $(MINI)/2.0.0 $(IN_HOST) -n 2 --dist loadfile $(MINI) \
	    -k "not overflow and not resume and not responses and not anthropic"

# The clients come from npm, some 800 MB, into a folder of their own.
CLIENTS := .clients

test-clients: $(CLIENTS)/node_modules/.package-lock.json ## Claude Code and Codex, as npm has them, through `cliff run`
	NPM_CLIENTS=$(abspath $(CLIENTS))/node_modules/.bin $(IN_ENV) --group test \
	    pytest -n 2 --dist loadscope -W ignore tests/clients

$(CLIENTS)/node_modules/.package-lock.json: tests/clients/package.json tests/clients/package-lock.json
	mkdir -p $(CLIENTS)
	cp tests/clients/package.json tests/clients/package-lock.json $(CLIENTS)
	cd $(CLIENTS) && npm ci --no-audit --no-fund
	touch $@
