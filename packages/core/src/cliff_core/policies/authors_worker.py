"""Runs in the authors' environment: their engine, asked in lines of JSON. It imports nothing of ours.

{"open": {"dialect", "threshold", "body"}}      a session begins; `body` is a request without its messages
{"append": [message, …]}                        the next request: all messages so far
-> {"version"}                                  once, at the start
-> {"parts": [[from, to] | message, …], "compacted": bool}
                                                what is sent: ranges of the messages, and new ones
-> {"error": text}
"""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO


def main() -> None:
    out = sys.stdout
    sys.stdout = sys.stderr  # nothing else may come between the lines
    try:
        import importlib.metadata
        import logging

        from cliffcompaction.config import Config  # type: ignore[import-not-found]
        from cliffcompaction.dialects import (  # type: ignore[import-not-found]
            anthropic,
            openai_chat,
            openai_responses,
        )
        from cliffcompaction.engine import Engine  # type: ignore[import-not-found]

        logging.disable(logging.CRITICAL)
        say(out, {"version": importlib.metadata.version("cliffcompaction")})
    except Exception as error:
        say(out, {"error": repr(error)})
        return
    dialects = {"anthropic": anthropic, "chat": openai_chat, "responses": openai_responses}
    engine: Any = None
    dialect: Any = None
    body: dict[str, Any] = {}
    messages: list[Any] = []
    for line in sys.stdin:
        asked = json.loads(line)
        if "open" in asked:
            opened = asked["open"]
            engine = Engine(Config(threshold_tokens=opened["threshold"]))
            dialect = dialects[opened["dialect"]].DIALECT
            body, messages = opened["body"], []
            continue
        messages += asked["append"]
        sent, compacted = messages, False
        try:
            context = engine.prepare({**body, dialect.messages_key: list(messages)}, dialect)
            if context.modified:
                sent, compacted = context.substituted, context.compacted
        except Exception:  # as their proxy: what cannot be prepared goes through as it is
            pass
        say(out, {"parts": parts(messages, sent), "compacted": compacted})


def parts(messages: list[Any], sent: list[Any]) -> list[Any]:
    """`sent` as ranges of `messages` and messages of its own."""
    places = {id(message): index for index, message in enumerate(messages)}
    found: list[Any] = []
    for message in sent:
        place = places.get(id(message))
        if place is None:
            found.append(message)
        elif found and isinstance(found[-1], list) and found[-1][1] == place:
            found[-1][1] = place + 1
        else:
            found.append([place, place + 1])
    return found


def say(out: TextIO, data: Any) -> None:
    out.write(json.dumps(data) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
