"""The app server's own application where neither Docker nor a browser can be had. Replaced are four things:

- whether the server itself runs in a container: in one it asks `host.docker.internal` for its sandboxes, which are
  processes on this machine here;
- the state of such a process: one that waits for requests counts as starting for ever;
- how long the server waits for one to start: half a minute, in which a busy machine has not imported it;
- the browser tools, which every conversation gets, and which need Chromium.
"""

from typing import Any

import psutil
from openhands.app_server.app_conversation import live_status_app_conversation_service as conversations
from openhands.app_server.sandbox import process_sandbox_service as sandboxes
from openhands.app_server.sandbox.sandbox_models import SandboxStatus
from openhands.app_server.utils import docker_utils

docker_utils.is_running_in_docker = lambda: False


def status(_: Any, process: Any) -> SandboxStatus:
    return SandboxStatus.RUNNING if psutil.pid_exists(process.pid) else SandboxStatus.MISSING


sandboxes.ProcessSandboxService._get_process_status = status
sandboxes.ProcessSandboxService._wait_for_server_ready.__defaults__ = (600,)


def without_browser(stock: Any) -> Any:
    return lambda **options: stock(**{**options, "enable_browser": False})


conversations.get_default_tools = without_browser(conversations.get_default_tools)
conversations.register_builtins_agents = without_browser(conversations.register_builtins_agents)

from openhands.app_server.app import app  # noqa: E402, F401
