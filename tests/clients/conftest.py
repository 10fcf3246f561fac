"""Tests with the real clients: `make test-clients` installs them from npm and says where. Elsewhere there is nothing to
collect here."""

import os
import sys
from pathlib import Path

if "NPM_CLIENTS" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
else:
    sys.path.insert(0, str(Path(__file__).parent))
