"""A bar on a terminal is gone before anything is printed, and what is printed goes where it was sent."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pty = pytest.importorskip("pty")  # no such terminals on Windows

PROGRAM = """
from oboro.cli import terminal
from oboro.progress import progress
terminal.PATIENCE = -1.0
with terminal.progress_bar():
    progress("choosing tables", 0.94)
    terminal.echo("first")
    progress("choosing tables", 0.97)
    terminal.echo("second", err=True)
    terminal.echo("third")
"""


def watched(output: int | None) -> tuple[str, str]:
    """What a terminal shows of the program, and what standard output takes if that is elsewhere."""
    near, far = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.DEVNULL,
        stdout=far if output is None else output,
        stderr=far,
        env={**os.environ, "TERM": "xterm", "OBORO_LANGUAGE": "en"},
    )
    os.close(far)
    seen = b""
    while True:
        try:
            part = os.read(near, 1 << 16)
        except OSError:  # how Linux says that nobody writes any more
            break
        if not part:
            break
        seen += part
    os.close(near)
    printed = running.communicate()[0] or b""
    assert running.returncode == 0, seen
    return seen.decode(), printed.decode()


def test_results_do_not_stick_to_the_bar() -> None:
    seen, _ = watched(None)
    assert "94%" in seen
    assert "97%" in seen  # it comes back while there is more to do
    for word in ("first", "second"):
        before, _, after = seen.partition(word)
        assert before.endswith("\x1b[2K")  # the line of the bar was wiped
        assert after.startswith("\r\n")
    assert seen.endswith("third\r\n")


def test_results_go_into_a_pipe_while_a_bar_is_shown() -> None:
    seen, printed = watched(subprocess.PIPE)
    assert "94%" in seen
    assert "first" not in seen
    assert printed == "first\nthird\n"
