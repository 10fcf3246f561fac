"""The core's own commands of `cliff`, one Typer app a module, and what commands share."""
