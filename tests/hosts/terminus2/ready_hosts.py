"""What the command lines are forks of: both hosts with our agents, to which the scripted models are declared, and
terminal-bench with a folder for a container."""

import harbor.cli.main  # noqa: F401
import host_settings
import local_compose
import terminal_bench.cli.tb.main  # noqa: F401

import cliff_terminus2.harbor
import cliff_terminus2.terminal_bench  # noqa: F401

local_compose.use()
host_settings.declare()
