"""Runs the command. The kit is imported as `kit`, as scripts and tests import it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kit.cli import main

sys.exit(main())
