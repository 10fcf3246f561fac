"""The scripted model server: a `ScriptedModel` on loopback, with a record of all requests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from . import recording, usage
from .apis import APIS
from .loopback import Loopback
from .model import ScriptedModel
from .playback import Plan, Playback, json_plan
from .request import Request
from .script import ScriptSource

MODELS = {
    "/chat/completions": "chat",
    "/messages": "anthropic",
    "/responses": "responses",
    "/responses/compact": "responses",
}
"""The paths that ask a model, with and without `/v1` before them."""

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class ModelServer(ScriptedModel):
    """Use it as a context manager. Options are those of `ScriptedModel`, and

    port           0 takes a free one
    record         a folder for the recording, written as the replies end
    """

    def __init__(
        self,
        script: ScriptSource = (),
        *,
        port: int = 0,
        record: str | Path | None = None,
        **options: Any,
    ) -> None:
        super().__init__(script, **options)
        self.on_reply: Callable[[Request], None] = lambda request: None
        """Called in the server's thread when a reply has ended."""
        self._record = Path(record) if record else None
        self._requests: list[Request] = []
        self._other: list[Request] = []
        self._ended = 0
        self._lock = threading.Condition()
        self._loopback = Loopback(port)

    @property
    def port(self) -> int:
        return self._loopback.port

    @property
    def url(self) -> str:
        """Without `/v1`: Anthropic's SDK and Claude Code want it so."""
        return f"http://127.0.0.1:{self.port}"

    anthropic_url = url

    @property
    def openai_url(self) -> str:
        """With `/v1`: OpenAI's SDK, litellm and Codex want it so."""
        return f"{self.url}/v1"

    def env(self) -> dict[str, str]:
        """Environment variables that point the usual clients here."""
        return {
            "OPENAI_BASE_URL": self.openai_url,
            "OPENAI_API_BASE": self.openai_url,
            "OPENAI_API_KEY": "test",
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "test",
        }

    def start(self) -> ModelServer:
        self._loopback.start(self._app())
        return self

    def stop(self) -> None:
        """Breaks off what is still being sent."""
        self._loopback.stop()

    def __enter__(self) -> ModelServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # What it was sent

    @property
    def requests(self) -> list[Request]:
        """The requests to a model so far, in order of arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def answered(self) -> list[Request]:
        """Those that a step answered in full."""
        return [request for request in self.requests if request.answered]

    @property
    def other(self) -> list[Request]:
        """Requests that ask no model: lists of models, token counts, unknown paths."""
        with self._lock:
            return list(self._other)

    def wait(self, count: int, timeout: float = 10.0, *, arrived: bool = False) -> list[Request]:
        """Waits until so many replies to model requests have ended; returns all requests.

        With `arrived`: until so many requests are here, answered or not.
        """

        def number() -> int:
            return len(self._requests) if arrived else self._ended

        with self._lock:
            if not self._lock.wait_for(lambda: number() >= count, timeout):
                what = "requests arrived" if arrived else "replies ended"
                raise TimeoutError(f"{number()} of {count} {what} in {timeout} s")
        return self.requests

    def dump(self, folder: str | Path) -> Path:
        """Writes `requests.jsonl`, and the exact bytes of each request to a model beside it."""
        return recording.dump(self.requests + self.other, Path(folder))

    def assert_finished(self) -> None:
        """No problems, and each step of the script was taken."""
        assert not self.problems, "\n".join(self.problems)
        assert not self.script.left, f"{self.script.left} steps of the script were not taken"

    # Routes

    def _app(self) -> Starlette:
        def route(path: str, handler: Handler, *methods: str, api: str = "other") -> Route:
            return Route(path, _Endpoint(self, handler, api), methods=methods)

        routes = [route("/api/hello", lambda _: json_plan(200, {}), "GET")]  # Claude Code's
        for start in ("/v1", ""):
            for path, api in MODELS.items():
                routes.append(route(start + path, self.answer, "POST", api=api))
            routes += [
                route(f"{start}/messages/count_tokens", self._count_tokens, "POST"),
                route(f"{start}/responses/input_tokens", self._count_tokens, "POST"),
                route(f"{start}/responses", self._websocket, "GET"),
                route(f"{start}/models", self._models, "GET"),
                route(f"{start}/models/{{id:path}}", self._models, "GET"),
            ]
        return Starlette(routes=[*routes, route("/{path:path}", self._unknown, *METHODS)])

    def _count_tokens(self, request: Request) -> Plan:
        api = APIS["anthropic" if "/messages" in request.path else "responses"]
        try:
            tokens = self.cache.tokens(usage.segments(request.body))
        except (ValueError, AttributeError) as error:
            return json_plan(400, api.error(400, f"invalid JSON: {error}"))
        kind = {} if "/messages" in request.path else {"object": "response.input_tokens"}
        return json_plan(200, {**kind, "input_tokens": tokens})

    def _models(self, request: Request) -> Plan:
        names = self.model_ids
        wanted = request.path.partition("/models/")[2]
        if wanted and wanted not in names:
            return self._unknown(request)
        if request.header("anthropic-version"):
            of_all: dict[str, Any] = {"type": "model", "created_at": "1970-01-01T00:00:00Z"}
            cards = [{**of_all, "id": name, "display_name": name} for name in names]
            ends: dict[str, Any] = {"first_id": names[0], "last_id": names[-1], "has_more": False}
        else:
            of_all = {"object": "model", "owned_by": "kit"}
            cards = [{"id": name, "created": 0, **of_all} for name in names]
            ends = {"object": "list"}
        if wanted:
            return json_plan(200, cards[names.index(wanted)])
        return json_plan(200, {"data": cards, **ends})

    def _websocket(self, request: Request) -> Plan:
        """Codex tries a WebSocket first; 426 makes it fall back to HTTP at once."""
        return json_plan(426, APIS["responses"].error(426, "WebSocket is not supported"))

    def _unknown(self, request: Request) -> Plan:
        api = APIS["anthropic" if request.header("anthropic-version") else "chat"]
        message = f"the test kit has no {request.method} {request.path}"
        return json_plan(404, api.error(404, message))

    # Called by the endpoints, in the server's thread

    def _arrived(self, request: Request) -> None:
        with self._lock:
            known = self._other if request.api == "other" else self._requests
            request.number = len(known) + 1
            known.append(request)
            self._lock.notify_all()

    def _done(self, request: Request) -> None:
        if self._record:
            recording.append(request, self._record)
        self.on_reply(request)
        if request.api != "other":
            with self._lock:
                self._ended += 1
                self._lock.notify_all()


Handler = Callable[[Request], Plan]


class _Endpoint:
    """An ASGI app that records a request and plays what a handler plans for it."""

    def __init__(self, server: ModelServer, handler: Handler, api: str) -> None:
        self.server = server
        self.handler = handler
        self.api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            raw = await HttpRequest(scope, receive).body()
        except ClientDisconnect:
            return
        headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in scope["headers"]]
        request = Request(
            number=0,
            api=self.api,
            method=scope["method"],
            path=scope["raw_path"].decode("latin-1"),
            query=scope["query_string"].decode("latin-1"),
            headers=[(name, recording.redacted(name, value)) for name, value in headers],
            raw=raw,
        )
        self.server._arrived(request)
        plan = self.handler(request)
        loopback = self.server._loopback
        playback = Playback(plan, request, self.server._done, loopback.stopping)
        await playback(receive, send, loopback.connection(scope))
