"""The scripted model without its network: it decides what a request gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from . import rules, usage, wordings
from .apis import APIS, anthropic, responses
from .faults import Overflow, Status, StreamError
from .playback import Plan, json_plan, stream_plan
from .request import Request
from .script import Script, ScriptExhausted, ScriptSource, Step, as_step
from .sse import encode
from .usage import CacheRules, Count, PromptCache, Segment, Usage, quarter

SideFunction = Callable[[Request], "Step | str | None"]


class ScriptedModel:
    """A model that says what a script says.

    A request takes a step only if it is answered: one that is too long, or that a real provider
    would reject for its form, takes none. Everything that no test should pass over (a script that
    is exhausted or fails, a request of illegal form) is in `problems`.

    script         a list of steps, one for each request, or a function of the request
    context_limit  tokens of a prompt above which it is rejected; may be changed at any time
    wording        how, by name (`wordings`); the API's own if not given
    count          counts the tokens of a text
    cache          how prompts are cached
    strict         rejects requests of a form that the real providers reject (`rules`)
    alternating    rejects messages that do not alternate between user and assistant (Chat), as
                   some chat templates do
    repeat         a list starts again at its end
    side           may answer a request apart from the script (a client's title generation)
    latency        seconds before each reply, beside those of its step
    models         ids that `/v1/models` lists
    """

    def __init__(
        self,
        script: ScriptSource = (),
        *,
        context_limit: int | None = None,
        wording: str | None = None,
        count: Count = quarter,
        cache: CacheRules | None = None,
        strict: bool = True,
        alternating: bool = False,
        repeat: bool = False,
        side: SideFunction | None = None,
        latency: float = 0.0,
        models: Iterable[str] = ("scripted",),
    ) -> None:
        if wording is not None:
            wordings.lookup(wording)
        self.script = Script(script, repeat)
        self.context_limit = context_limit
        self.wording = wording
        self.count = count
        self.cache = PromptCache(count, cache)
        self.strict = strict
        self.alternating = alternating
        self.side = side
        self.latency = latency
        self.model_ids = list(models)
        self.problems: list[str] = []
        self._places = 0  # replies so far: they number the ids
        self._stored: dict[str, list[Any]] = {}  # Responses: the items behind a response's id
        self._signed: dict[str, str] = {}  # Anthropic: the thoughts behind signatures

    def answer(self, request: Request) -> Plan:
        """Decides what a request to a model gets."""
        try:
            plan = self._rejection(request)
            if plan:
                return plan
            prompt = usage.segments(request.body, request.messages)
            plan = self._too_long(request, self.cache.tokens(prompt))
            if plan:
                return plan
            if request.path.endswith("/compact"):
                return self._compact(request, prompt)
            return self._play(request, self._next(request), prompt)
        except ScriptExhausted as error:
            return self._problem(request, "exhausted", str(error))
        except Exception as error:  # a test must see it, whatever it is
            text = f"the script failed at request {request.number}: {error!r}"
            return self._problem(request, "script failed", text)

    def _rejection(self, request: Request) -> Plan | None:
        """What is wrong with the form of the request."""
        api = APIS[request.api]
        try:
            body = request.body
        except ValueError as error:
            request.rejected = "invalid"
            self.problems.append(f"request {request.number}: {error}")
            message = f"We could not parse the JSON body of your request. ({error})"
            return json_plan(400, api.error(400, message))
        earlier = body.get("previous_response_id")
        if request.api == "responses" and earlier:
            if earlier not in self._stored:
                request.rejected = "invalid"
                message = f"Previous response with id '{earlier}' not found."
                return json_plan(400, api.error(400, message, code="previous_response_not_found"))
            request.earlier = self._stored[earlier]
        if not self.strict:
            return None
        found = rules.problems(request.api, body, request.messages)
        if request.api == "anthropic":
            found += self._changed_thoughts(request)
        if self.alternating and request.api == "chat":
            found += rules.alternation(request.messages)
        if not found:
            return None
        request.rejected = "invalid"
        self.problems += [f"request {request.number}: {problem}" for problem in found]
        return json_plan(400, api.error(400, found[0]))

    def _changed_thoughts(self, request: Request) -> list[str]:
        """Signed thinking that comes back other than it was said."""
        found = []
        for place, message in enumerate(request.messages):
            content = message.get("content")
            for at, block in enumerate(content if isinstance(content, list) else []):
                said = self._signed.get(block.get("signature", ""))
                if said is not None and block.get("thinking") not in {said, ""}:
                    found.append(
                        f"messages.{place}.content.{at}: `thinking` or `redacted_thinking` blocks "
                        "in the latest assistant message cannot be modified. These blocks must "
                        "remain as they were in the original response."
                    )
        return found

    def _too_long(self, request: Request, tokens: int, forced: Overflow | None = None) -> Plan | None:
        name = (forced and forced.wording) or self.wording or wordings.DEFAULTS[request.api]
        wording = wordings.lookup(name)
        limit = self.context_limit
        if forced is not None and (limit is None or limit >= tokens):
            limit = max(tokens - 1, 0)
        if limit is None:
            return None
        output = APIS[request.api].max_tokens(request.body)
        whole = tokens + (output if wording.counts_output else 0)
        if whole <= limit and forced is None:
            return None
        request.rejected = "limit"
        body = wording.body(wordings.Numbers(tokens, limit, output))
        if wording.in_stream and request.stream:
            return stream_plan(APIS[request.api].error_events(body, self._places, 0, request))
        return json_plan(wording.status, body)

    def _next(self, request: Request) -> Step:
        answer = self.side(request) if self.side else None
        if answer is not None:
            return as_step(answer)
        if request.api == "responses" and responses.wants_compaction(request):
            return Step(raw=[responses.compaction_item(self._places, request)])
        return self.script.next(request)

    def _play(self, request: Request, step: Step, prompt: list[Segment]) -> Plan:
        """The step as a plan for the wire."""
        request.step = step
        api, fault, place = APIS[request.api], step.fault, self._places
        waits: dict[str, Any] = {"latency": self.latency + step.latency, "pause": step.pause}
        headers = list(step.headers)
        self._places += 1
        if isinstance(fault, Overflow):
            plan = self._too_long(request, self.cache.tokens(prompt), fault)
            assert plan is not None
            return replace(plan, **waits)
        if isinstance(fault, StreamError) and not request.stream:
            fault = Status(fault.status, message=fault.message)
        if isinstance(fault, Status):
            plan = self._status(request, fault)
            return replace(plan, headers=plan.headers + headers, **waits)
        request.usage = self._usage(request, step, prompt)
        events, whole = api.events(step, place, request.usage, request)
        self._remember(request, step, whole)
        if not request.stream:
            return json_plan(200, whole, headers=headers, fault=fault, **waits)
        if isinstance(fault, StreamError):
            after = min(fault.after, len(events) - 1)
            body = api.error(fault.status, fault.message, fault.type, fault.code)
            events = [*events[:after], *api.error_events(body, place, after, request)]
        return stream_plan(events, headers=headers, fault=fault, **waits)

    def _status(self, request: Request, fault: Status) -> Plan:
        message = fault.message or f"a scripted error {fault.code}"
        body = fault.body
        if body is None:
            body = APIS[request.api].error(fault.code, message)
        headers = list(fault.headers.items())
        if fault.retry_after is not None:
            headers.append(("retry-after", f"{fault.retry_after:g}"))
        return json_plan(fault.code, body, headers=headers)

    def _usage(self, request: Request, step: Step, prompt: list[Segment]) -> Usage:
        """The prompt as the cache sees it, the answer as counted, the step's own figures."""
        thought = self.count(step.thought)
        said = [step.text, *(text for call in step.calls for text in (call.name, call.text))]
        said += [encode(item).decode() for item in step.raw]
        output = thought + sum(map(self.count, said))
        counted = self.cache.use(prompt, request.model)
        return replace(counted, **{"output": output, "reasoning": thought, **step.usage})

    def _remember(self, request: Request, step: Step, whole: dict[str, Any]) -> None:
        """What later requests may refer to."""
        if request.api == "responses" and request.body.get("store", True):
            self._stored[whole["id"]] = request.messages + whole["output"]
        if request.api == "anthropic" and step.thought:
            self._signed[anthropic.sign(step.thought)] = step.thought

    def _compact(self, request: Request, prompt: list[Segment]) -> Plan:
        request.usage = self.cache.use(prompt, request.model)
        place, self._places = self._places, self._places + 1
        return json_plan(200, responses.compaction(place, request.usage, request))

    def _problem(self, request: Request, kind: str, message: str) -> Plan:
        request.rejected = kind
        self.problems.append(message)
        body = APIS[request.api].error(500, f"test kit: {message}", kind="script_error")
        return json_plan(500, body, headers=[("x-should-retry", "false")])
