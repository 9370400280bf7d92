"""`python -m toolcards <command>` is the `toolcards` command."""

from toolcards.cli import main

main()
