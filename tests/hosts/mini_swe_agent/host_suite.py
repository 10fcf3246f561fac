"""A plugin for pytest: mini-swe-agent's own test-suite, with our classes in place of the host's.

The tests are in the host's repository, not in its releases. With a clone of it (tag v2.4.6), in the environment
`.venv-mini-2.4.6` that `make test-hosts` makes:

    CLIFF_PRESET=paper CLIFF_THRESHOLD_TOKENS=1 CLIFF_KEEP_TURNS=1 PYTHONPATH=…/tests/hosts/mini_swe_agent \\
        …/.venv-mini-2.4.6/bin/python -m pytest -p host_suite tests

So every request past the second has a cliff. Wherever a module of the host holds one of its model classes, it holds
ours instead.
"""

import sys
from importlib import import_module
from typing import Any


def pytest_configure(config: Any) -> None:
    from minisweagent.models import _MODEL_CLASS_MAPPING, test_models

    from cliff_mini_swe_agent import HostError, wrap

    ours = {}
    for path in (
        *_MODEL_CLASS_MAPPING.values(),
        *(
            f"{test_models.__name__}.{name}"
            for name in dir(test_models)
            if name.startswith("Deterministic") and name.endswith("Model")
        ),
    ):
        try:
            wrapped = wrap(path)
        except HostError:  # portkey-ai is missing
            continue
        ours[wrapped.__mro__[2]] = wrapped
    for runner in ("mini", "benchmarks.swebench", "benchmarks.swebench_single", "benchmarks.programbench"):
        import_module(f"minisweagent.run.{runner}")
    for name, module in list(sys.modules.items()):
        if name.startswith("minisweagent"):
            for attribute, value in list(vars(module).items()):
                if isinstance(value, type) and value in ours:
                    setattr(module, attribute, ours[value])
