"""`python -m oboro` is the command line."""

from oboro.cli import main

if __name__ == "__main__":
    main()
