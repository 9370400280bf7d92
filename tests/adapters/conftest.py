"""Lets the tests of adapters share `playing`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
