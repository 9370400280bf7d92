"""`python -m toolcards.acp -- <agent command>`."""

import sys

from toolcards.acp import main

sys.exit(main(sys.argv[1:]))
