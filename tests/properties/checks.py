"""The invariants of DESIGN.md section 3, as assertions on a run (`driver.Run`)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from cliff_core import Compactor, View, dialect
from cliff_core.block import BlockWriter, Draft
from cliff_core.turns import group
from kit import rules
from properties.driver import Host, Run, Sent, cold
from properties.oracle import (
    Acting,
    Grown,
    Part,
    Place,
    Sources,
    acting,
    characters,
    goal,
    least,
    must_stay,
    open_cuts,
    pairs,
    parse_block,
    pieces,
    result_text,
    threshold,
    wire,
)


def exact(run: Run) -> bool:
    return run.config.preset_name == "paper"


# --- 1 verbatim, 2 no compaction of a compaction --------------------------------------------------------------


def first_of_each_block(run: Run) -> list[Sent]:
    """The views among which each block is seen once."""
    seen: set[str] = set()
    found = []
    for sent in run.sent:
        if sent.view.block is not None and sent.view.block not in seen:
            seen.add(sent.view.block)
            found.append(sent)
    return found


def check_verbatim(run: Run) -> None:
    for sent in first_of_each_block(run):
        block = parse_block(sent.view.block or "", run.config)
        cut = sent.view.cut
        after_head = Sources(sent.history[sent.view.head : cut])
        for number, parts in block.turns.items():
            sources = _of_turn(sent, number)
            for part in parts:
                if part.tag == "call":
                    strange = sources.signs(part.text)
                    assert strange is None, f"turn {number}: {strange!r} is in no call"
                    assert len(part.text) <= run.config.call_max_chars
                    continue
                holds = sources.holds_lines if part.tag == "result" else sources.holds
                for piece in pieces(part):
                    assert holds(piece), f"turn {number}: not verbatim: {piece[:200]!r}"
                if part.tag == "thought":
                    assert len(part.text) <= run.config.thought_max_chars
                    assert sources.begins(part.text, part.more), f"turn {number}: not the beginning: {part.text[:80]!r}"
                elif part.tag == "result":
                    limit = run.config.result_max_chars
                    assert len(part.text) <= limit or part.error, "a long result was not dropped"
        for part in (*block.notes, *block.directives):
            assert after_head.holds(part.text), f"{part.tag} is not verbatim: {part.text[:200]!r}"
        for name in block.names:
            assert after_head.argues(name), f"no such name in a call: {name!r}"


def _of_turn(sent: Sent, number: int) -> Sources:
    """The texts of a turn, and of the results of its calls that came later."""
    start, end = _bounds(sent, number)
    late = {place[0] for place, call in _pairs(sent).items() if call and start <= call[0] < end <= place[0]}
    return Sources([*sent.history[start:end], *(sent.history[index] for index in sorted(late))])


def _bounds(sent: Sent, number: int) -> tuple[int, int]:
    starts = (*sent.shape.starts, len(sent.history))
    return starts[number - 1], starts[number]


def _pairs(sent: Sent) -> dict[Place, Place | None]:
    return pairs(sent.natives, sent.shape.starts, (index for index, _ in sent.words))


def check_own_places(run: Run) -> None:
    """Each result stands under its own call: whole if it is short, else what is left of it, and its size."""
    for sent in first_of_each_block(run):
        found = _pairs(sent)
        by_call: dict[Place | None, list[Place]] = {}
        for place, call in found.items():
            by_call.setdefault(call, []).append(place)
        for number, parts in parse_block(sent.view.block or "", run.config).turns.items():
            start, end = _bounds(sent, number)
            if any(one.hosted for one in sent.natives[start:end]):
                continue  # calls and results of the provider stand between
            expected: list[tuple[str, Place]] = []
            for index in range(start, end):
                for part, (kind, _) in enumerate(sent.natives[index].parts if index not in sent.view.pinned else ()):
                    if kind == "call":
                        expected.append(("call", (index, part)))
                        expected += [("result", place) for place in sorted(by_call.get((index, part), ()))]
                    elif found[(index, part)] is None:
                        expected.append(("result", (index, part)))
            shown = [part for part in parts if part.tag in ("call", "result")]
            assert [part.tag for part in shown] == [kind for kind, _ in expected]
            for one, (kind, place) in zip(shown, expected, strict=True):
                if kind == "result":
                    _check_result(run, one, result_text(run.name, sent.history[place[0]], place[1]))


def _check_result(run: Run, part: Part, whole: str | None) -> None:
    if whole is None:
        return
    limit, both = run.config.result_max_chars, 2 * run.config.error_chars
    if len(whole) <= limit or (part.error and len(whole) <= both):
        assert (part.text, part.gone) == (whole, 0)
    elif part.error:
        ends = [whole[: both // 2], whole[-both // 2 :]]
        assert (pieces(part), part.gone) == (ends, len(whole) - both)
    else:
        assert (part.text, part.gone) == ("", len(whole))


def check_only_originals(run: Run) -> None:
    """A block shows the turns between the previous cut and its own, each with its excerpts, and no others."""
    for sent in first_of_each_block(run):
        if sent.view.cliff is None:
            continue
        block = parse_block(sent.view.block or "", run.config)
        since = sent.before.view.cut if sent.before and sent.before.view.block is not None else sent.view.head
        first = sent.shape.turn(since)
        last = sent.shape.turn(sent.view.cut - 1)
        if since >= sent.view.cut:
            first = last + 1
        dropped = sent.view.cliff.dropped
        assert dropped.turns == max(0, last - first + 1)
        begin = first
        compaction = _newest_compaction(run, sent)
        if compaction is not None:
            begin = max(first, sent.shape.turn(compaction))
        expected = list(range(begin, last + 1))
        shown = expected[dropped.excerpts :]
        assert dropped.excerpts <= len(expected)
        assert set(block.turns) <= set(shown), (sorted(block.turns), shown)
        for number in set(shown) - set(block.turns):
            assert not _has_excerpts(run, sent, number), f"turn {number} has no excerpts"
        if not run.config.pin_directives:  # they stand in the block of their own window
            for number in shown:
                start, end = _bounds(sent, number)
                said = [words for index, words in sent.words if start <= index < end]
                assert [part.text for part in block.turns.get(number, ()) if part.tag == "user"] == said


def _newest_compaction(run: Run, sent: Sent) -> int | None:
    if exact(run):
        return None
    for index in range(sent.view.cut - 1, sent.view.head - 1, -1):
        message = sent.history[index]
        blocks = message.get("content") if isinstance(message.get("content"), list) else []
        if message.get("type") == "compaction" or any(
            isinstance(b, dict) and b.get("type") == "compaction" for b in blocks
        ):
            return index
    return None


def _has_excerpts(run: Run, sent: Sent, number: int) -> bool:
    """Whether a turn must show something: a call, or a result of its own without one."""
    start, end = _bounds(sent, number)
    found = _pairs(sent)
    for index in range(start, end):
        if index in sent.view.pinned:
            continue
        for part, (kind, _) in enumerate(sent.natives[index].parts):
            if kind == "call" or found[(index, part)] is None:
                return True
    return False


# --- 3 untouched ----------------------------------------------------------------------------------------------


def check_untouched(run: Run) -> None:
    for sent in run.sent:
        view, history = sent.view, sent.history
        assert view.size == len(history)
        assert view.head == (sent.shape.head if sent.shape.starts else len(history))
        if view.block is None:
            _same_objects(view.messages, history)
            assert (view.cut, view.pinned, view.cliff) == (view.head, (), None)
            continue
        assert view.cut == len(history) or view.cut in sent.shape.starts
        assert len(set(view.pinned)) == len(view.pinned)
        assert all(view.head <= index < view.cut for index in view.pinned)
        if not sent.forced:
            assert view.cut < sent.point, "no turn is live"
        live = history[view.cut :]
        _same_objects(view.messages[len(view.messages) - len(live) :], live)
        _check_before_live(run, sent, view.messages[: len(view.messages) - len(live)])
        if not sent.forced:
            check_newest_directive(run, sent)


def _check_before_live(run: Run, sent: Sent, messages: list[Any]) -> None:
    """Head, block and pinned messages: the head in its order, the block behind its user messages."""
    view, history = sent.view, sent.history
    head = history[: view.head]
    users = [index for index, one in enumerate(sent.natives[: view.head]) if one.role == "user"]
    own = {id(message) for message in (*head, *(history[index] for index in view.pinned))}
    strange = [index for index, message in enumerate(messages) if id(message) not in own]
    assert len(strange) == 1, "one message is not the host's own: the block"
    at = strange[0]
    compaction = _newest_compaction(run, sent)
    if compaction in view.pinned:
        _check_behind_compaction(sent, messages, at, compaction)
        return
    kept = messages[:at] + messages[at + 1 :]
    merged = len(messages) == len(head) + len(view.pinned)
    if merged:
        assert run.config.merge_block
        assert at == max(users)
        _check_merged(head[at], messages[at], view.block or "")
        head = head[:at] + head[at + 1 :]
    else:
        assert texts_of(messages[at]) == [view.block]
        assert messages[at]["role"] == "user"
        front = (
            at if users else max((i for i, one in enumerate(sent.natives[:at]) if one.role == "system"), default=-1) + 1
        )
        _same_objects(messages[:front], head[:front])
        assert front > max(users, default=-1), "the block stands before the task"
        assert all(one.role == "system" for one in sent.natives[front : view.head]) or not users
    ids = [id(message) for message in kept]
    assert len(set(ids)) == len(kept) == len(head) + len(view.pinned)
    places = [ids.index(id(message)) for message in head]
    assert places == sorted(places), "the head is not in its order"


def _check_behind_compaction(sent: Sent, messages: list[Any], at: int, compaction: int) -> None:
    """The provider ignores what stands before its compaction: the block stands behind it, and all else as well, but
    for the head and what is pinned of the same turn."""
    view, history = sent.view, sent.history
    assert texts_of(messages[at]) == [view.block]
    turn = sent.shape.turn(compaction)
    ahead = [index for index in view.pinned if sent.shape.turn(index) == turn]
    while sent.natives[ahead[-1]].role == "system":
        ahead.pop()
    _same_objects(messages[:at], [*history[: view.head], *(history[index] for index in ahead)])
    rest = [history[index] for index in view.pinned if index not in ahead]
    assert sorted(map(id, messages[at + 1 :])) == sorted(map(id, rest))


def texts_of(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def _same_objects(one: list[Any], other: list[Any]) -> None:
    assert len(one) == len(other)
    assert all(a is b for a, b in zip(one, other, strict=True)), "a message is not the host's own"


def _check_merged(before: dict[str, Any], after: dict[str, Any], block: str) -> None:
    assert {k: v for k, v in before.items() if k != "content"} == {k: v for k, v in after.items() if k != "content"}
    if isinstance(before["content"], str):
        assert after["content"].startswith(before["content"])
        assert after["content"].endswith(block)
    else:
        assert after["content"][:-1] == before["content"]
        assert after["content"][-1]["text"] == block


def check_pinned(run: Run) -> None:
    """What cannot become text and must stay does, with its calls, and nothing else: preset `default`."""
    for sent in first_of_each_block(run):
        view = sent.view
        must = {index for index in range(view.head, view.cut) if not exact(run) and must_stay(sent.history[index])}
        compaction = _newest_compaction(run, sent)
        must |= {compaction} - {None}
        pinned = set(view.pinned)
        assert must <= pinned, f"{sorted(must - pinned)} went away"
        turns = {sent.shape.turn(index) for index in must}
        links = {(sent.shape.turn(call[0]), sent.shape.turn(at[0])) for at, call in _pairs(sent).items() if call}
        for _ in range(len(turns) + len(links)):  # a late result ties its turn to that of its call
            turns |= {turn for link in links if turns & set(link) for turn in link}
        strange = {index for index in pinned if sent.shape.turn(index) not in turns}
        assert not strange, f"{sorted(strange)} need not stay"


def check_newest_directive(run: Run, sent: Sent) -> None:
    """The newest words of a person after the head: in a live or pinned message, or whole in the block."""
    if not run.config.pin_directives:
        return
    said = [(index, words) for index, words in sent.words if index >= sent.view.head]
    if not said or sent.view.block is None:
        return
    index, words = said[-1]
    if index >= sent.view.cut or index in sent.view.pinned:
        return
    directives = parse_block(sent.view.block, run.config).directives
    older = [w for i, w in said if i not in sent.view.pinned]
    assert directives, "no directives in the block"
    assert directives[-1].text == words, f"the newest directive is not whole: {words[:80]!r}"
    assert directives[-1].more == 0
    shown = [part.text for part in directives]
    for part, whole in zip(reversed(shown), reversed(older), strict=False):
        assert whole.startswith(part), "directives are not the newest ones in their order"


# --- 4 append-only --------------------------------------------------------------------------------------------


def check_append_only(run: Run) -> None:
    for before, after in pairwise(run.answered + run.sent[-1:]):
        if after is not before:
            check_continues(run, before, after)


def check_continues(run: Run, before: Sent, after: Sent) -> None:
    """`before` was answered, `after` is the next view: it appends, or tells the next cliff."""
    if after.point == before.size:  # what stands at the end of `after` is the beginning of that answer
        if after.forced:
            return
        told = after.view.cliff if after.view.cliff != before.view.cliff else None
    else:
        assert after.before is before
        told = after.view.cliff
    if told is not None:
        assert told.number == _number(before) + 1, "a cliff was not told, or told twice"
        return
    _check_prefix(run, before, after)
    assert (after.view.cut, after.view.block) == (before.view.cut, before.view.block)


def _check_prefix(run: Run, before: Sent, after: Sent) -> None:
    one, other = ([run.counts.stable(m) for m in sent.view.messages] for sent in (before, after))
    assert other[: len(one)] == one, f"the request of {after.size} does not continue the one before"


def check_same_segment(run: Run, before: Sent, after: Sent) -> None:
    """The same where views between the two may not have been asked for: `after.before` is a replay."""
    told = after.view.cliff if after.point > before.size else None
    between = after.before
    while told is None and between is not None and between.size > before.size:
        told = between.view.cliff
        between = between.before
    if told is None:
        _check_prefix(run, before, after)


def _number(sent: Sent | None) -> int:
    """Number of the last cliff told up to an answered view."""
    while sent is not None:
        if sent.view.cliff is not None:
            return sent.view.cliff.number
        sent = sent.before
    return 0


# --- 5 paired -------------------------------------------------------------------------------------------------


def check_paired(run: Run) -> None:
    for sent in run.sent:
        view = sent.view
        if view.block is None:
            continue
        kept = {*range(view.head), *view.pinned, *range(view.cut, len(sent.history))}
        for (index, part), call in _pairs(sent).items():
            if call is not None:
                assert (index in kept) == (call[0] in kept), (
                    f"result {index}.{part} and its call {call} are parted (cut {view.cut}, pinned {view.pinned})"
                )


def check_native(run: Run) -> None:
    """What the API itself would say of the views, for sessions that it takes as they are."""
    for sent in run.sent:
        if sent.view.block is not None and not native_problems(run.name, sent.history):
            problems = native_problems(run.name, sent.view.messages)
            assert not problems, problems


def native_problems(name: str, messages: list[Any]) -> list[str]:
    if name == "responses":
        return rules._responses(messages)
    return rules.pairing(name, messages) + (_system_places(messages) if name == "anthropic" else [])


def _system_places(messages: list[Any]) -> list[str]:
    """Anthropic: a system message follows a user message, and an assistant message or nothing follows it."""
    roles = [None, *(message["role"] for message in messages), None]
    return [
        f"messages.{at}: role 'system' must follow 'user' and precede 'assistant' or end the array"
        for at, (before, role, after) in enumerate(zip(roles, roles[1:], roles[2:], strict=False))
        if role == "system" and (before != "user" or after not in ("assistant", None))
    ]


# --- 6 deterministic ------------------------------------------------------------------------------------------


def same(one: View, other: View) -> None:
    for name in ("size", "estimate", "tokens", "threshold", "cliff", "head", "cut", "pinned", "block"):
        assert getattr(one, name) == getattr(other, name), name
    assert [wire(m) for m in one.messages] == [wire(m) for m in other.messages]


def check_deterministic(run: Run, most: int = 6) -> None:
    for sent in _some(run.sent[::-1], most):
        again = cold(run, sent)
        same(sent.view, again.view(sent.history, sent.fixed))
        assert again.facts == sent.facts
        same(sent.view, again.view(sent.history, sent.fixed))


def check_cold(run: Run) -> None:
    """Without facts but the fixed part: a new object at some points, and one that goes backwards."""
    backwards = Compactor(dialect(run.name), run.config, (), characters)
    for sent in _some(run.sent[::-1], 6):
        same(sent.view, Compactor(dialect(run.name), run.config, (), characters).view(sent.history, sent.fixed))
        same(sent.view, backwards.view(sent.history, sent.fixed))


def _some(sents: list[Sent], most: int) -> list[Sent]:
    """The first, and others at equal distances."""
    return sents[:: -(-len(sents) // most) or 1]


def check_changed(host: Host, code: int) -> None:
    """One message of the history becomes another: what was known of the old one must not show."""
    run = host.run
    whole = run.sent[-1]
    history = list(whole.history)
    late = [at[0] for at, call in _pairs(whole).items() if call and whole.shape.turn(call[0]) < whole.shape.turn(at[0])]
    index = late[code % len(late)] if late and code % 2 else code % len(history)
    history[index] = host.altered(history[index])
    words = [(i, w) for i, w in whole.words if i != index]
    for size in sorted({*(s for s in whole.shape.starts if s > index), len(history)})[-4:]:
        sent = host.ask(history[:size], words)
        same(sent.view, cold(run, sent).view(sent.history, sent.fixed))


# --- tokens ---------------------------------------------------------------------------------------------------


def check_tokens(run: Run) -> None:
    for sent in run.sent:
        view = sent.view
        facts = acting(sent.facts, sent.size)
        assert facts.fixed == sent.fixed
        estimate = sent.fixed + run.counts.view(sent.history, view)
        assert view.estimate == estimate
        assert view.tokens == facts.calibration.corrected(estimate)
        fixed = sent.fixed + sum(map(run.counts.message, sent.history[: view.head]))
        fixed += sum(run.counts.message(sent.history[index]) for index in view.pinned)
        grown = _grown(run, sent, facts)
        assert view.threshold == threshold(run.config, facts.calibration.corrected(fixed), facts.limit, grown)


def _grown(run: Run, sent: Sent, facts: Acting) -> Grown:
    """The turns before the point of a view."""
    corrected, head = facts.calibration.corrected, facts.fixed
    head += sum(map(run.counts.message, sent.history[: sent.view.head]))
    turns = sum(map(run.counts.message, sent.history[sent.view.head : sent.point]))
    return Grown(sum(start < sent.point for start in sent.shape.starts), corrected(head + turns) - corrected(head))


# --- 7 progress -----------------------------------------------------------------------------------------------


def check_progress(run: Run) -> None:
    for sent in run.sent:
        cliff = sent.view.cliff
        if cliff is None or cliff.reason == "forced":
            continue
        freed = cliff.tokens_before - cliff.tokens_after
        gain = least(run.config, _fixed(run, sent), cliff.threshold)
        assert cliff.tokens_before > cliff.threshold, "a cliff below the threshold"
        assert exact(run) or freed >= gain, f"a cliff frees {freed} of {gain}"
        assert cliff.live_turns >= 1
        if exact(run):
            assert not cliff.dropped.excerpts
    check_no_shuffle(run)
    check_decisions(run)


def check_no_shuffle(run: Run) -> None:
    """A cliff right after a cliff is explained by what grew, or by a turn that could not be cut before."""
    if exact(run) or not run.config.min_gain:
        return
    for sent in run.answered:
        one, other = sent.before and sent.before.view.cliff, sent.view.cliff
        if not one or not other or "forced" in (one.reason, other.reason) or not sent.plain:
            continue
        grown = other.tokens_before - one.tokens_after
        before, now = _fixed(run, sent.before), _fixed(run, sent)
        if one.tokens_after > goal(run.config, before, one.threshold):
            continue  # one turn fills the view: it can go only now
        if other.threshold < one.threshold or now < before:
            continue  # pinned messages went, which had raised it; or `auto` saw a session that grows less
        assert grown >= other.threshold - goal(run.config, now, other.threshold), f"two cliffs, {grown} tokens apart"


def check_decisions(run: Run, most: int = 6) -> None:
    """The decision of DESIGN.md section 4, made a second time (with the same blocks)."""
    asked = [sent for sent in run.sent if not sent.forced]
    for sent in asked:
        if _role(sent) == "trigger":
            old = sent.before.view if sent.before is not None else _whole(sent)
            assert sent.view.cliff is None, "a request to the provider itself is no checkpoint"
            assert (sent.view.cut, sent.view.block) == (old.cut, old.block)
    asked = [sent for sent in asked if _role(sent) != "trigger"]
    for sent in _some(asked[::-1], most):
        _check_decision(run, sent)


def _fixed(run: Run, sent: Sent) -> int:
    """F at the point of a view, with what was pinned before it."""
    facts = acting(sent.facts, sent.point)
    old = sent.before.view if sent.before is not None else _whole(sent)
    fixed = facts.fixed + sum(map(run.counts.message, sent.history[: sent.view.head]))
    return facts.calibration.corrected(fixed + sum(run.counts.message(sent.history[i]) for i in old.pinned))


def _role(sent: Sent) -> str:
    return sent.natives[sent.point - 1].role if sent.point else ""


def _check_decision(run: Run, sent: Sent) -> None:
    view, config = sent.view, run.config
    messages = [run.counts.parsed(message) for message in sent.history[: sent.point]]
    _, turns = group(messages)
    facts = acting(sent.facts, sent.point)
    corrected = facts.calibration.corrected
    old = sent.before.view if sent.before is not None else _whole(sent)
    fixed = facts.fixed + sum(map(run.counts.message, sent.history[: view.head]))
    limit = threshold(config, _fixed(run, sent), facts.limit, _grown(run, sent, facts))
    before = corrected(facts.fixed + run.counts.view(sent.history, old, sent.point))
    since = sum(turn.start < old.cut for turn in turns)
    end = sent.point
    starts = [start for start in sent.shape.starts if start < end]
    legal = open_cuts(sent.natives[:end], starts, (i for i, _ in sent.words if i < end))
    writer = BlockWriter(config, lambda text: run.count_many([text])[0])
    expected: tuple[int, int] | None = None  # turns cut away, excerpts dropped

    def after(draft: Draft, cut: int, dropped: int = 0) -> int:
        live = sum(turn.tokens for turn in turns[cut:])
        return corrected(fixed + draft.tokens(dropped) + live)

    if before > limit:
        most = goal(config, _fixed(run, sent), limit)
        drafts = []
        for keep in range(config.keep_turns, config.keep_turns - 1 if exact(run) else 0, -1):
            cut = max((p for p in legal if since < p <= len(turns) - keep), default=None)
            if cut is not None:
                drafts.append((cut, writer.draft(turns, since, cut)))
        fits = [(cut, 0) for cut, draft in drafts if exact(run) or after(draft, cut) <= most]
        if fits:
            expected = fits[0]
        elif drafts:
            cut, draft = drafts[-1]
            many = len(draft.excerpts)
            expected = (cut, next((n for n in range(1, many) if after(draft, cut, n) <= most), many))
        if expected is not None and not exact(run):
            cut, dropped = expected
            freed = before - after(writer.draft(turns, since, cut), cut, dropped)
            if freed < least(config, _fixed(run, sent), limit):
                expected = None
    if expected is None:
        assert view.cliff is None
        assert (view.cut, view.block) == (old.cut, old.block)
    else:
        cut, dropped = expected
        assert view.cliff is not None, f"{before} tokens of {limit}, and no cliff"
        assert view.cliff.threshold == limit
        assert view.cliff.live_turns == len(turns) - cut
        assert view.cliff.dropped.excerpts == dropped
        assert view.block == writer.draft(turns, since, cut).block(dropped).text


def check_overflows(run: Run) -> None:
    for views in run.overflows:
        for before, after in pairwise(views):
            if before is not None and after is not None:
                assert after.tokens < before.tokens, "a rejected view is followed by one that is not smaller"
                assert after.cliff is not None
                assert after.cliff.reason == "forced"


# --- 8 nothing lost -------------------------------------------------------------------------------------------


def _learned_since(before: Sent | None, sent: Sent) -> bool:
    """Whether something that acts on the decisions behind an earlier view was learned after it: a host went back to a
    shorter history, with other tools, and returned."""
    if before is None:
        return False
    earlier, later = ([f for f in one.facts if f["at"] < before.size] for one in (before, sent))
    return earlier != later


def check_records(run: Run) -> None:
    for sent in run.sent:
        cliff, view = sent.view.cliff, sent.view
        if cliff is None:
            continue
        before = sent.before
        assert cliff.number == _number(before) + 1
        assert cliff.cut == view.cut
        starts = [s for s in sent.shape.starts if s < sent.point]
        assert cliff.live_turns == len([s for s in starts if s >= view.cut])
        facts = acting(sent.facts, sent.point)
        corrected = facts.calibration.corrected
        assert cliff.tokens_after == corrected(facts.fixed + run.counts.view(sent.history, view, sent.point))
        if _learned_since(before, sent):
            continue  # what was decided before may be another now (6 over 4): nothing that was sent shows it
        old = before.view if before is not None else _whole(sent)
        tokens = run.counts.view(sent.history, old, sent.point)
        assert cliff.tokens_before == corrected(facts.fixed + tokens)
        _check_dropped(run, sent)
        assert set(cliff.as_dict()) == {
            "number", "cut", "live_turns", "tokens_before", "tokens_after", "threshold", "reason", "dropped",
        }  # fmt: skip
        if cliff.reason == "limit":
            assert facts.limit is not None
            assert cliff.threshold <= 0.95 * facts.limit


def _whole(sent: Sent) -> View:
    head = sent.view.head
    return View([], 0, 0, head=head, cut=head)


def _check_dropped(run: Run, sent: Sent) -> None:
    assert sent.view.cliff is not None
    dropped = sent.view.cliff.dropped
    parts = [p for ps in parse_block(sent.view.block or "", run.config).turns.values() for p in ps]
    gone = [part.gone for part in parts if part.tag == "result"]
    cut = sum(part.more for part in parts if part.tag == "thought")
    if not dropped.excerpts:
        assert dropped.results == sum(n > 0 for n in gone)
        assert dropped.characters == sum(gone) + cut
    else:
        assert dropped.results >= sum(n > 0 for n in gone)
        assert dropped.characters >= sum(gone) + cut
