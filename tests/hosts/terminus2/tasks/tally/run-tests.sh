#!/bin/bash
# terminal-bench's tests; it reads their results off the screen.
python3 -m pytest -rA -p no:cacheprovider "$(cd "$(dirname "$0")" && pwd)/test_outputs.py"
