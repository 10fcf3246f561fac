"""`type = "cliff"` in V0's configuration.

V0 knows its condensers by a table inside one function and by a closed union: an unknown type, or a mistake in the
options, becomes a warning and a run without any condenser. So this module puts itself before both places when it is
imported (the import hook does that right after `openhands.core.config`), and touches nothing but sections with our
type.
"""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from openhands.core.config import agent_config, condenser_config, utils
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from cliff_core import CliffConfig

TYPE = "cliff"


class CliffCondenserConfig(BaseModel):
    """A section of type `cliff`: the options of `CliffConfig`, over which `CLIFF_*` variables go.

    Raises pydantic's ValidationError for an unknown name or a value that cannot be used; it names the nearest one."""

    model_config = ConfigDict(extra="allow")

    type: Literal["cliff"]
    # Fields beside it are the options themselves; a default that is not written down cannot differ from the core's.

    @model_validator(mode="after")
    def _check(self) -> CliffCondenserConfig:
        self.options()
        return self

    def options(self) -> CliffConfig:
        """The configuration. Raises `ConfigError`."""
        return CliffConfig.from_env(file=self.model_extra)

    def model_post_init(self, context: Any) -> None:
        # Imports the agent's machinery, which stock configurations of other types do not need: only now.
        from cliff_openhands.v0 import condenser  # noqa: F401 - it registers itself


class MistakeError(SystemExit):
    """A section of type `cliff` cannot be used; ends the program with this text.

    No lesser exception gets through: where the sections are read, the host catches every `Exception`, and goes on
    without a condenser."""


def read(section: Mapping[str, Any], where: str) -> CliffCondenserConfig:
    """The section as a configuration. Raises `MistakeError` with the name `where` of the section."""
    try:
        return CliffCondenserConfig.model_validate(dict(section))
    except ValidationError as error:
        problems = "; ".join(problem["msg"].removeprefix("Value error, ") for problem in error.errors())
        raise MistakeError(f"error: [{where}] in the configuration, or a CLIFF_ variable: {problems}") from error


def is_ours(section: object) -> bool:
    return isinstance(section, Mapping) and section.get("type") == TYPE


def _install() -> None:
    stock = condenser_config.create_condenser_config

    def create_condenser_config(condenser_type: str, data: dict[str, Any]) -> Any:
        if condenser_type == TYPE:
            return read({**data, "type": TYPE}, "condenser")
        return stock(condenser_type, data)

    for module in (condenser_config, utils):
        module.create_condenser_config = create_condenser_config

    sections = agent_config.AgentConfig.from_toml_section.__func__

    def from_toml_section(cls: type[Any], data: dict[str, Any]) -> dict[str, Any]:
        """The host's, with our condensers added where the sections of agents name them."""
        ours = {
            name: read(section["condenser"], f"agent.{name}.condenser")
            for name, section in data.items()
            if isinstance(section, Mapping) and is_ours(section.get("condenser"))
        }
        rest = {
            name: {key: value for key, value in section.items() if key != "condenser"} if name in ours else section
            for name, section in data.items()
        }
        mapping: dict[str, Any] = sections(cls, rest)
        for name, condenser in ours.items():
            if name in mapping:
                mapping[name].condenser = condenser  # (the host assigns that of [condenser] in the same way)
        return mapping

    agent_config.AgentConfig.from_toml_section = classmethod(from_toml_section)


_install()
