"""`python -m oboro` is the command line."""

from oboro.cli import main

main()
