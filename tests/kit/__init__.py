"""The test kit: a scripted model server on loopback, and checks on what it was sent.

    from kit import Call, ModelServer, Step

    with ModelServer([Step(calls=[Call("bash", {"command": "ls"})]), Step("done")]) as server:
        ...                         # point a client at server.openai_url or server.anthropic_url
    server.requests[0].body         # what it was sent; .raw, .headers, .usage, .reply

| module | what |
|---|---|
| `script` | `Step`, `Call`, and the script that yields one step a request |
| `faults` | what can go wrong with a reply |
| `server` | `ModelServer`: the model on a port of loopback, and the record of requests |
| `model` | the scripted model: it decides what a request gets |
| `request` | `Request`: one request and the reply it got |
| `apis/` | one module per API: a step -> a body, or a stream of events |
| `usage` | token counts and the prompt cache |
| `wordings` | how each provider rejects a prompt that is too long |
| `rules` | the other requests that real providers reject |
| `playback`, `loopback` | the wire: latency and faults; uvicorn in a thread |
| `websocket` | `WebSocketServer`: the model on OpenAI's WebSocket (needs aiohttp) |
| `wire` | HTTP as bytes: a server that says what it is told to, and a client |
| `transport` | `Transport`: an asyncio transport without a socket |
| `recording` | redaction of headers, dumps |
| `forkserver` | `ForkServer`: the command lines of a host that is imported once |
| `client` | the smallest client of each API, for tests that look at bytes |
| `checks` | assertions on requests, for all host tests |
| `fixtures` | the pytest fixture `model_server` |
| `cli` | `python -m tests.kit SCRIPT` |
"""

from .faults import (
    Fault,
    Gzip,
    Malformed,
    Overflow,
    Reset,
    Stall,
    Status,
    StreamError,
    Truncate,
)
from .recording import redact
from .request import Reply, Request
from .script import Call, Script, ScriptExhausted, Step
from .server import ModelServer
from .usage import CacheRules, PromptCache, Usage
from .wordings import WORDINGS, Wording

__all__ = [
    "WORDINGS",
    "CacheRules",
    "Call",
    "Fault",
    "Gzip",
    "Malformed",
    "ModelServer",
    "Overflow",
    "PromptCache",
    "Reply",
    "Request",
    "Reset",
    "Script",
    "ScriptExhausted",
    "Stall",
    "Status",
    "Step",
    "StreamError",
    "Truncate",
    "Usage",
    "Wording",
    "redact",
]
