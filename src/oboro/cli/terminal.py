"""The one way to the terminal.

Whatever is printed passes here: no sign that a terminal would obey, no password of an address, and no letter that the
terminal cannot show stops a command. What comes from a file and must stay on its line goes through `plain` before
(`labelled`, `left`, `right` and `phrase` do so).
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from types import TracebackType

import typer

from oboro.language import plain

# between the name of a user and the last @, also where a slash of the address is missing; and options of a database
_PASSWORD = re.compile(r'(://[^\s":/@]*|postgres[\w+]*:?/*[^\s":/@]*):(?!//)[^\s"]*@', re.IGNORECASE)
_OPTION = re.compile(r'(\w*password)=[^&\s"\']*', re.IGNORECASE)


class Unprintable(OSError):
    """The terminal, or what stands for it, takes no more."""


def echo(text: str = "", *, err: bool = False, lead: str = "") -> None:
    """Prints lines; `lead` stands before them in red, on a terminal. What nobody hears of an error, the exit code says."""
    stream = sys.stderr if err else sys.stdout
    shown, lead = without_password(plain(text, lines=True)), plain(lead)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    shown = shown.encode(encoding, "backslashreplace").decode(encoding)
    try:
        if stream is None:  # a program that was started without one
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if lead and stream.isatty():
            lead = typer.style(lead, fg=typer.colors.RED, bold=True)
        typer.echo(lead + shown, err=err)
    except (OSError, ValueError) as error:  # ValueError: a stream that was closed
        if not err:
            raise Unprintable(getattr(error, "errno", None), getattr(error, "strerror", None)) from None


def is_watched() -> bool:
    """Whether what goes to standard error, such as a progress bar, is seen by somebody."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it was closed
        return False


def without_password(text: str) -> str:
    """A text in which an address of a database shows no password, even if the address was mistyped."""
    return _OPTION.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", text))


def trace(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """A traceback, for whoever asked for one with OBORO_TRACEBACK."""
    for part in traceback.format_exception(kind, error, where):
        ours = part.startswith(("  File ", "\n"))  # a place in a program, or words between two errors
        echo(part.rstrip("\n") if ours else plain(part.rstrip("\n")), err=True)
