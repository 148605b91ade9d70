"""The two parties of docs/secure.md: every command on the page, in its order, with P1 serving in a second process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "secure.md"
COMMAND = re.compile(r"^    (?:carrier|city)?\$ +(oboro .*)$", re.M)


@pytest.mark.long("documents")
def test_the_commands_of_the_page_work_in_their_order(tmp_path: Path) -> None:
    shown = COMMAND.findall(PAGE.read_text(encoding="utf-8"))
    commands = [line for line in shown if "compare" not in line and "printed" not in line]
    assert [line.split()[2] for line in commands] == [
        *("plan", "verify", "keys", "keys", "encrypt", "encrypt", "add", "create"),
        *("serve", "draw", "urns", "draw", "open"),
    ]
    port = _free_port()
    serving = None
    answers = []
    for line in commands:
        line = line.replace(":9000", f":{port}")
        if " serve " in line:
            serving = _start(line, tmp_path)
        else:
            answers.append(_run(line, tmp_path))
            if serving is not None and " draw " in line:
                assert serving.stdout is not None
                assert serving.stdout.readline().startswith("opened")
                os.killpg(serving.pid, signal.SIGTERM)  # it would serve the next
                serving.wait()
                serving = None
    drawn, opened = answers[-4], answers[-1]
    assert re.search(r"^ +1,[12]\d\d ", drawn, re.M), drawn  # 1,234 with noise from -29 to 29
    assert re.search(r"1,?[12]\d\d", opened), opened
    assert "eps = 2" in _run("oboro ledger show l.ledger", tmp_path)  # two draws at eps 1


def _run(line: str, folder: Path) -> str:
    done = subprocess.run(line, shell=True, cwd=folder, env=_environment(), capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"{line}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _start(line: str, folder: Path) -> subprocess.Popen[str]:
    """Begins to serve, and waits until it listens."""
    process = subprocess.Popen(
        line,
        shell=True,
        cwd=folder,
        env=_environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("listening")
    return process


def _environment() -> dict[str, str]:
    beside = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
