"""OpenAI Responses items, as Codex and the API itself write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cliff_core.content import Content, Message, Opaque, Role, Thought, ToolCall, ToolResult
from cliff_core.dialects import Dialect, parts
from cliff_core.tokens import encrypted_tokens

Item = Mapping[str, Any]

_ROLES: dict[str, Role] = {"user": "user", "system": "system", "developer": "system"}

_SELF_CONTAINED = frozenset(
    {
        "message",
        "reasoning",
        "compaction",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "computer_call",
        "computer_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "mcp_call",
    }
)
"""Items that say everything themselves. Their `id` comes and goes: the provider gives one, and most
clients leave it out when they send the item back (with `store: false` the API may even reject it:
openai/codex#25976, openclaw/openclaw#84904). For the rest it can be all there is
(`item_reference`)."""


class ResponsesDialect:
    """A message is one input or output item; an item without a type is a message or a reference.

    An item of an unknown type that has no role counts as the model's: a run of the model's items is
    one step, and a reasoning item must not be parted from the call that follows it. A whole
    response object (`object: response`, as mini-swe-agent keeps them) is read as the items of its
    output."""

    name = "responses"

    def parse(self, message: Mapping[str, Any]) -> Message:
        if not parts.is_object(message):
            return Message("model", (parts.unknown(message),))
        kind = parts.kind_of(message)
        if not kind:
            if "role" in message:
                kind = "message"
            elif message.get("object") == "response" and isinstance(message.get("output"), list):
                return self._response(message["output"])
            else:
                kind = "item_reference" if isinstance(message.get("id"), str) else ""
        if kind == "message":
            return _message(message)
        known = _ITEMS.get(kind)
        if known is not None:
            role, contents = known
            return Message(role, tuple(contents(message)))
        if kind == "tool_search_output":
            # The provider's own search is part of the model's step.
            ran_here = message.get("execution") == "client"
            return Message("tool" if ran_here else "model", tuple(_found_tools(message)))
        if kind.endswith("_output"):
            return Message("tool", tuple(_output(message)))
        if kind.endswith("_call"):
            return Message("model", tuple(_unknown_call(message)))
        role = _ROLES.get(parts.string(message.get("role")), "model")
        return Message(role, (parts.unknown(message, kind),))

    def _response(self, output: Sequence[Any]) -> Message:
        contents: list[Content] = []
        for item in output:
            if parts.is_object(item) and item.get("object") != "response":
                contents.extend(self.parse(item).contents)
        return Message("model", tuple(contents))

    def canonical(self, message: Mapping[str, Any]) -> Any:
        plain = parts.unmarked(message)
        if not parts.is_object(plain):
            return plain
        kind = parts.kind_of(plain)
        if not kind and "role" in plain:
            kind = "message"
            plain = {**plain, "type": kind}
        if kind == "reasoning" and not (plain.get("encrypted_content") or plain.get("content")):
            kind = ""  # kept by the provider, under its id
        drop = [key for key, value in plain.items() if _absent(key, value, kind)]
        if drop:
            plain = {key: value for key, value in plain.items() if key not in drop}
        if kind == "message":
            content = _same_content(plain)
            return plain if content is plain.get("content") else {**plain, "content": content}
        text = parts.lone_text(plain.get("output"), parts.TEXT_TYPES)
        return plain if text is None else {**plain, "output": text}

    def block_index(self, head: Sequence[Message]) -> int:
        return parts.after_head(head)

    def block_message(self, text: str) -> dict[str, Any]:
        part = {"type": "input_text", "text": text}
        return {"type": "message", "role": "user", "content": [part]}

    def merge_block(self, message: Mapping[str, Any], text: str) -> dict[str, Any] | None:
        return parts.merged(message, text, {"type": "input_text", "text": text})


# --- comparing ------------------------------------------------------------------------------------


def _absent(key: str, value: object, kind: str) -> bool:
    """Whether a key says no more than its absence: clients leave out what the provider filled
    in."""
    if value is None:
        return True
    if key == "status":
        return value == "completed"
    return key == "id" and kind in _SELF_CONTAINED


def _same_content(message: Item) -> object:
    """A message's content as a list of parts without empty annotations (the same list if it is
    that)."""
    content = message.get("content")
    if isinstance(content, str):
        kind = "output_text" if message.get("role") == "assistant" else "input_text"
        return [{"type": kind, "text": content}]
    if not isinstance(content, list):
        return content
    same: list[Any] | None = None
    for index, part in enumerate(content):
        if type(part) is not dict or len(part) == 2:
            continue
        filled = {
            key: value
            for key, value in part.items()
            if not (value is None or (value == [] and key in ("annotations", "logprobs")))
        }
        if len(filled) < len(part):
            same = list(content) if same is None else same
            same[index] = filled
    return content if same is None else same


# --- messages -------------------------------------------------------------------------------------


def _message(item: Item) -> Message:
    role, content = item.get("role"), item.get("content")
    if role == "assistant":
        return Message("model", tuple(_written(content)))
    if role == "user":
        contents: list[Content] = []
        for part in parts.listed(content):
            text = parts.text_of(part)
            if text is None:
                contents.append(_attached(part, pin=True))
            else:
                contents.extend(parts.person(text))
        return Message("user", tuple(contents))
    if role in ("system", "developer"):
        return parts.notes(role, content)
    return Message("user", (parts.unknown(item, parts.string(role)),))


def _written(content: object) -> list[Content]:
    contents: list[Content] = []
    for part in parts.listed(content):
        text = parts.text_of(part)
        if text is None and parts.is_object(part) and parts.kind_of(part) == "refusal":
            text = parts.string(part.get("refusal"))
        if text is None:
            contents.append(_attached(part, pin=False))
        elif text:
            contents.append(Thought(text))
    return contents


def _attached(part: object, pin: bool) -> Opaque:
    """A part that is no text. What a person attached is pinned, unless it is of an unknown type."""
    if parts.is_object(part):
        kind = parts.kind_of(part)
        if kind in ("input_image", "computer_screenshot"):
            return parts.image(part.get("image_url"), pin)
        if kind == "input_file":
            return parts.document(part.get("file_data"), "", pin)
        if kind == "input_audio":
            inner = part.get("input_audio")
            return parts.audio(inner.get("data") if parts.is_object(inner) else inner, pin)
    return parts.unknown(part)


def _reasoning(item: Item) -> list[Content]:
    """Reasoning: what is shown of it as text, what is encrypted as tokens.

    `_reasoning_tokens` is a private key of a trace reader: how many tokens the provider reported.
    Text of the reasoning itself is counted instead of its encrypted copy; a summary is not the
    reasoning."""
    contents: list[Content] = [Thought(text) for text in _texts(item.get("summary"), "summary_text") if text]
    shown = [text for text in _texts(item.get("content"), "reasoning_text") if text]
    contents.extend(map(Thought, shown))
    if not shown:
        reported = item.get("_reasoning_tokens")
        if not isinstance(reported, int) or isinstance(reported, bool) or reported < 0:
            reported = None
        hidden = len(parts.string(item.get("encrypted_content")))
        if hidden or reported:
            contents.append(Thought("", encrypted_tokens(hidden, reported)))
    return contents


def _texts(content: object, kind: str) -> list[str]:
    texts = []
    for part in parts.listed(content):
        if parts.is_object(part) and parts.kind_of(part) == kind:
            texts.append(parts.string(part.get("text")))
        else:
            texts.append(parts.text_of(part) or "")
    return texts


def _compaction(item: Item) -> list[Content]:
    tokens = encrypted_tokens(len(parts.string(item.get("encrypted_content"))))
    return [Opaque("compaction", tokens, pin=True)]


# --- calls ----------------------------------------------------------------------------------------


def _id(item: Item) -> str:
    """What a call and its result share. Hosted calls have no `call_id`, and Codex drops their `id`:
    without any, the result in the same item must not go to another call."""
    return parts.string(item.get("call_id")) or parts.string(item.get("id")) or parts.kind_of(item)


def _function(item: Item) -> list[Content]:
    return [ToolCall(_name(item), parts.arguments(item.get("arguments")), _call_id(item))]


def _custom(item: Item) -> list[Content]:
    return [ToolCall(_name(item), parts.arguments(item.get("input")), _call_id(item))]


def _call_id(item: Item) -> str:
    return parts.string(item.get("call_id"))


def _name(item: Item) -> str:
    return parts.string(item.get("name")) or parts.kind_of(item)


def _object(value: object, without: tuple[str, ...] = ()) -> Mapping[str, Any] | str:
    """An item's own object as arguments, without what is not set."""
    if not parts.is_object(value):
        return parts.arguments(value)
    return {
        key: inner
        for key, inner in value.items()
        if key not in without and inner is not None and inner != {} and inner != []
    }


def _local_shell(item: Item) -> list[Content]:
    return [ToolCall("local_shell_call", _object(item.get("action"), ("type",)), _id(item))]


def _shell(item: Item) -> list[Content]:
    where = item.get("environment")
    hosted = parts.is_object(where) and parts.kind_of(where).startswith("container")
    return [ToolCall("shell_call", _object(item.get("action")), _id(item), hosted)]


def _apply_patch(item: Item) -> list[Content]:
    return [ToolCall("apply_patch_call", _object(item.get("operation")), _id(item))]


def _computer(item: Item) -> list[Content]:
    action = item.get("action")
    arguments = _object(action) if action is not None else {"actions": item.get("actions")}
    return [ToolCall("computer_call", arguments, _id(item))]


def _tool_search(item: Item) -> list[Content]:
    hosted = item.get("execution") != "client"
    arguments = parts.arguments(item.get("arguments"))
    return [ToolCall("tool_search_call", arguments, _search_id(item), hosted)]


def _search_id(item: Item) -> str:
    # Call and output of the provider's own search have no `call_id`, and an `id` each.
    return parts.string(item.get("call_id")) or "tool_search_call"


def _program(item: Item) -> list[Content]:
    # It runs at the provider, but waits for the calls it makes: no cut before its output.
    return [ToolCall("program", {"code": parts.string(item.get("code"))}, _id(item))]


def _approval(item: Item) -> list[Content]:
    # Open until someone answers it: the answer names the request, which must still be there.
    return [ToolCall(_name(item), parts.arguments(item.get("arguments")), _id(item))]


def _unknown_call(item: Item) -> list[Content]:
    """A call of an unknown type; only those that a client answers have a `call_id`."""
    given = next((key for key in ("arguments", "input", "action") if item.get(key) is not None), "")
    known = (given, "type", "id", "call_id", "status", "name")
    rest = {key: value for key, value in item.items() if key not in known and value is not None}
    kind = parts.kind_of(item)
    hosted = not isinstance(item.get("call_id"), str)
    call = ToolCall(_name(item), parts.arguments(item.get(given)), _id(item), hosted)
    return [call, parts.unknown(rest, kind)] if rest else [call]


def _hosted(
    item: Item,
    arguments: Mapping[str, Any] | str,
    texts: Sequence[str],
    opaque: Sequence[Opaque] = (),
    failed: bool = False,
) -> list[Content]:
    """A call that ran at the provider, with what it returned where the item has that."""
    call = ToolCall(_name(item), arguments, _id(item), hosted=True)
    failed = failed or _failed(item)
    if texts or opaque or failed:
        return [call, *parts.result(texts, call.id, failed, opaque)]
    return [call]


def _failed(item: Item) -> bool:
    return item.get("status") in ("incomplete", "failed")


def _web_search(item: Item) -> list[Content]:
    action = item.get("action")
    sources = parts.listed(action.get("sources")) if parts.is_object(action) else ()
    urls = [parts.string(source.get("url")) for source in sources if parts.is_object(source)]
    return _hosted(item, _object(action, ("sources",)), [url for url in urls if url])


def _file_search(item: Item) -> list[Content]:
    texts = [
        text
        for result in parts.listed(item.get("results"))
        if parts.is_object(result)
        for key in ("filename", "text")
        if (text := parts.string(result.get(key)))
    ]
    return _hosted(item, {"queries": item.get("queries")}, texts)


def _code_interpreter(item: Item) -> list[Content]:
    texts: list[str] = []
    opaque: list[Opaque] = []
    for output in parts.listed(item.get("outputs")):
        if parts.is_object(output) and isinstance(output.get("logs"), str):
            texts.append(output["logs"])
        elif parts.is_object(output) and parts.kind_of(output) == "image":
            opaque.append(parts.image(output.get("url"), pin=False))
        else:
            opaque.append(parts.unknown(output))
    return _hosted(item, {"code": parts.string(item.get("code"))}, texts, opaque)


def _image_generation(item: Item) -> list[Content]:
    prompt = parts.string(item.get("revised_prompt"))
    data = parts.string(item.get("result"))
    opaque = (parts.image(data, pin=False),) if data else ()
    return _hosted(item, {"prompt": prompt} if prompt else {}, (), opaque)


def _mcp(item: Item) -> list[Content]:
    error = item.get("error")
    texts = [text for value in (item.get("output"), error) if (text := _error_text(value))]
    return _hosted(item, parts.arguments(item.get("arguments")), texts, failed=bool(error))


def _error_text(value: object) -> str:
    """Output or error of an MCP call: a text, an object with a message, or one with content."""
    if isinstance(value, str):
        return value
    if parts.is_object(value):
        message = parts.string(value.get("message"))
        inner = parts.listed(value.get("content"))
        return message or "\n".join(text for part in inner if (text := parts.text_of(part)))
    return ""


# --- results --------------------------------------------------------------------------------------


def _output(item: Item) -> list[Content]:
    """What a client returned: a text (often JSON), a list of parts, or one part (a screenshot)."""
    texts: list[str] = []
    opaque: list[Opaque] = []
    failed = _failed(item)
    for part in parts.listed(item.get("output")):
        text = parts.text_of(part)
        if text is None and parts.is_object(part) and isinstance(part.get("content"), str):
            # Codex once sent a failure as an object.
            text = part["content"]
            failed |= part.get("success") is False
        if text is not None:
            texts.append(text)
        elif parts.is_object(part) and "outcome" in part:  # of `shell_call`
            texts.extend(text for key in ("stdout", "stderr") if (text := parts.string(part.get(key))))
            outcome = part["outcome"]
            failed |= parts.is_object(outcome) and (
                parts.kind_of(outcome) == "timeout" or outcome.get("exit_code") not in (0, None)
            )
        else:
            opaque.append(_attached(part, pin=False))
    call_id = parts.string(item.get("call_id")) or parts.string(item.get("id"))
    return parts.result(texts, call_id, True if failed else None, opaque)


def _found_tools(item: Item) -> list[Content]:
    """Tools that were loaded by a search: without this item the model does not see them."""
    tools = Opaque("tool_reference", parts.estimate(item.get("tools")), pin=True)
    return [ToolResult("", _search_id(item), _failed(item), (tools,))]


def _program_output(item: Item) -> list[Content]:
    return parts.result([parts.string(item.get("result"))], item.get("call_id"), _failed(item))


def _approved(item: Item) -> list[Content]:
    reason = parts.string(item.get("reason"))
    refused = item.get("approve") is False
    return parts.result([reason], item.get("approval_request_id"), refused)


# --- which item is what ---------------------------------------------------------------------------


def _settings(item: Item) -> list[Content]:
    return [parts.system(item)]


def _opaque(item: Item) -> list[Content]:
    return [parts.unknown(item)]


def _reference(item: Item) -> list[Content]:
    return [Opaque("item_reference")]  # the provider has the item; its size is not known here


def _trigger(item: Item) -> list[Content]:
    return [Opaque("compaction_trigger")]


_ITEMS: dict[str, tuple[Role, Callable[[Item], list[Content]]]] = {
    "reasoning": ("model", _reasoning),
    "function_call": ("model", _function),
    "custom_tool_call": ("model", _custom),
    "local_shell_call": ("model", _local_shell),
    "shell_call": ("model", _shell),
    "apply_patch_call": ("model", _apply_patch),
    "computer_call": ("model", _computer),
    "tool_search_call": ("model", _tool_search),
    "web_search_call": ("model", _web_search),
    "file_search_call": ("model", _file_search),
    "code_interpreter_call": ("model", _code_interpreter),
    "image_generation_call": ("model", _image_generation),
    "mcp_call": ("model", _mcp),
    "mcp_list_tools": ("model", _opaque),
    "mcp_approval_request": ("model", _approval),
    "program": ("model", _program),
    "program_output": ("model", _program_output),
    "item_reference": ("model", _reference),
    "compaction": ("model", _compaction),
    "compaction_summary": ("model", _compaction),  # its name in Codex before
    "compaction_trigger": ("trigger", _trigger),
    "mcp_approval_response": ("tool", _approved),
    "additional_tools": ("system", _settings),
    "configuration_update": ("system", _settings),
}

DIALECT: Dialect = ResponsesDialect()
