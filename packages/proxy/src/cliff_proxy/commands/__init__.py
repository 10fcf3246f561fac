"""The proxy's commands of `cliff`, one Typer app a module, and what they share."""
