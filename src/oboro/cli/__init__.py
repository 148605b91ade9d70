"""The command line: a thin translation of the same words. Heavy modules load inside commands."""

from oboro.cli.main import main

__all__ = ["main"]


def __dir__() -> list[str]:
    return __all__
