from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cliff_core.traces import Session, read


@pytest.fixture
def sessions(tmp_path: Path) -> Any:
    """Reads a document, or lines if several values are given."""

    def reading(*values: Any) -> list[Session]:
        path = tmp_path / "file"
        path.write_text("".join(json.dumps(value) + "\n" for value in values))
        return list(read(path))

    return reading
