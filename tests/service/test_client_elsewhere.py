"""The client of a service needs nothing that only Linux has: it is imported and called without fork, file locks and users."""

from __future__ import annotations

import subprocess
import sys

# what Windows lacks is taken away before oboro is imported
ELSEWHERE = """
import os, sys
for name in ("fork", "forkpty", "register_at_fork", "getuid", "geteuid", "O_PATH", "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC",
             "fchmod", "killpg", "setsid", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_client_and_readers_are_there_without_what_windows_lacks() -> None:
    """A service that does not answer is told so; a forecast is made; what was taken away is really gone."""
    code = """
import oboro as ob
try:
    ob.connect("http://127.0.0.1:9", token="t" * 43)["people"]
except ob.OboroError as refused:
    print(type(refused).__name__, refused.message)
domain = ob.Domain([ob.Grid("row", "col", shape=(8, 8))])
print(ob.tables.plan(domain, unit=ob.Unit.cells(), eps=1).forecast())
print(hasattr(os, "fork"), ob.release.verify_certificate.__name__)
"""
    said = run(code)
    assert "Error" in said
    assert "expected error" in said
    assert said.endswith("False verify_certificate\n")
