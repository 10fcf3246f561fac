"""Hypothesis strategies. A session, its configuration and its mishaps are a few bytes each, decoded by
`histories` and `driver`: a draw costs little, and zeros stand for what is plain, so that examples shrink well."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hypothesis import strategies as st

from cliff_core import CliffConfig
from properties.driver import CONTROL_BYTES, Host, Run
from properties.histories import HEAD_BYTES, STEP_BYTES, Plan, Written, decode, write

CONFIG_BYTES = 12

_THRESHOLDS = {
    "paper": (1_500, 300, 800, 2_500, 5_000, 10_000, "auto"),
    # T_min is at least 2 353.
    "default": (3_000, 1, 4_000, 6_000, 10_000, 20_000, "auto"),
}
_RATIOS = (None, 1, 12.5, 60, 1_000)
_OTHERS: dict[str, tuple[object, ...]] = {
    "keep_turns": (3, 2, 1, 2, 5),
    "result_max_chars": (500, 500, 40, 0),
    "call_max_chars": (150, 150, 40, 0),
    "thought_max_chars": (300, 300, 25, 0),
    "min_gain": (0.25, 0.6, 0.0, 0.5, 0.9),
    "directives_max_chars": (6_000, 6_000, 150, 0),
    "path_index_chars": (3_000, 3_000, 50, 0),
    "error_chars": (250, 250, 30, 0),
}
_BOTH = ("keep_turns", "result_max_chars", "call_max_chars", "thought_max_chars")


def config(code: bytes, preset: str | None = None) -> CliffConfig:
    """Even first bytes: preset default. Sizes other than the preset's make more cliffs and cuts in short histories;
    what makes `paper` Algorithm 1 stays."""
    preset = preset or ("paper" if code[0] % 2 else "default")
    thresholds = _THRESHOLDS[preset]
    options: dict[str, object] = {"threshold_tokens": thresholds[code[1] % len(thresholds)]}
    options["merge_block"] = code[2] % 4 == 3
    options["cache_price_ratio"] = _RATIOS[code[2] // 4 % len(_RATIOS)]
    for place, (name, values) in enumerate(_OTHERS.items(), 3):
        if preset == "default" or name in _BOTH:
            options[name] = values[code[place] % len(values)]
    return CliffConfig.preset(preset, **options)


@dataclass(frozen=True)
class Case:
    """A session in no format yet."""

    head: bytes
    steps: tuple[bytes, ...]
    options: bytes
    controls: tuple[bytes, ...] = ()
    awkward: bool = True
    preset: str | None = None

    @cached_property
    def plan(self) -> Plan:
        return decode(self.head, self.steps, awkward=self.awkward)

    @cached_property
    def config(self) -> CliffConfig:
        return config(self.options, self.preset)

    @property
    def fixed(self) -> int:
        return (0, 0, 100, 700)[self.options[-1] % 4]

    def written(self, dialect: str) -> Written:
        return write(self.plan, dialect)

    def host(self, dialect: str) -> Host:
        return Host(self.written(dialect), self.config, self.controls, self.fixed)

    def run(self, dialect: str) -> Run:
        return self.host(dialect).play()

    def story(self, dialect: str) -> str:
        """What happens, for people who read a failure."""
        lines = [repr(self.config), f"fixed={self.fixed} controls={[c.hex() for c in self.controls]}"]
        lines += [repr(event)[:200] for event in (*self.plan.head, "---", *self.plan.events)]
        lines += [f"{n}: {str(m)[:160]}" for n, m in enumerate(self.written(dialect).messages)]
        return "\n".join(lines)


def _bytes(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


_step = _bytes(STEP_BYTES)
_steps = st.one_of(
    st.lists(_step, max_size=6),
    st.lists(_step, min_size=5, max_size=14),
    st.lists(_step, min_size=12, max_size=30),
)
_controls = st.lists(_bytes(CONTROL_BYTES), min_size=1, max_size=8)


def cases(*, mishaps: bool = True, awkward: bool = True, preset: str | None = None) -> st.SearchStrategy[Case]:
    """`mishaps`: rejections, late reports, restarts, edits, … `awkward`: histories that no API would take."""
    return st.builds(
        Case,
        head=_bytes(HEAD_BYTES),
        steps=_steps.map(tuple),
        options=_bytes(CONFIG_BYTES),
        controls=_controls.map(tuple) if mishaps else st.just(()),
        awkward=st.just(awkward),
        preset=st.just(preset),
    )
