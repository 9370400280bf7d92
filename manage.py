#!/usr/bin/env python
"""Django's command line, for this site."""

import sys

from toolcards.cli import main

if __name__ == "__main__":
    sys.exit(main())
