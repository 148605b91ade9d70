"""One's own function with one's own smooth sensitivity: in a process of its own, in silence, for a limited time."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oboro.statistics.own import call_apart

PATIENCE = 300  # seconds for functions that answer: on a busy machine, too


def test_numbers_come_back_exactly() -> None:
    assert call_apart(lambda x: x, 0.1, 1, PATIENCE) == (0.1,)
    assert call_apart(lambda x: np.asarray([[x, 2.0], [3.0, math.pi]]), 1.0, 4, PATIENCE) == (
        1.0,
        2.0,
        3.0,
        math.pi,
    )


@pytest.mark.parametrize(
    "wild",
    [
        lambda x: 1 / 0,
        lambda x: math.nan,
        lambda x: math.inf,
        lambda x: "nonsense",
        lambda x: None,
        lambda x: [1.0, 2.0],
        lambda x: {"a": 1},
        lambda x: sys.exit(3),
        lambda x: os._exit(1),
        lambda x: os.kill(os.getpid(), 9),
        lambda x: 10**400,
        lambda x: True if x else object(),
    ],
)
def test_failure_and_nonsense_are_all_alike(wild: Any) -> None:
    assert call_apart(wild, 0, 1, PATIENCE) is None


def test_a_function_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    def hangs(x: Any) -> float:
        subprocess.Popen(sleep)
        started.touch()
        while True:
            pass

    sleep = ["sleep", f"99{os.getpid()}"]  # no other process of this machine has the same name
    started = tmp_path / "started"
    seconds = 0.5
    while not started.exists():  # a busy machine may need more than one attempt
        assert call_apart(hangs, 0, 1, seconds) is None
        seconds *= 2

    def running() -> bool:
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        return " ".join(sleep) in listed.splitlines()

    for _ in range(600):  # it is told to end before the call returns; when it ends is up to the system
        if not running():
            break
        time.sleep(0.1)
    assert not running()


def test_nothing_is_printed_logged_or_kept(capfd: Any, caplog: Any, tmp_path: Any) -> None:
    seen: list[int] = []
    with open(tmp_path / "log", "w") as file:

        def talks(x: Any) -> float:
            print("secret")
            print("secret", file=sys.stderr)
            os.write(1, b"secret")
            logging.getLogger("x").error("secret")
            seen.append(1)
            file.write("secret")
            file.flush()
            return len(seen)

        assert [call_apart(talks, 0, 1, PATIENCE) for _ in range(2)] == [
            None,
            None,
        ]  # the file is closed to it
        assert [call_apart(lambda x: seen.append(1) or len(seen), 0, 1, PATIENCE) for _ in range(2)] == [
            (1.0,),
            (1.0,),
        ]
    assert seen == []
    assert "secret" not in "".join(capfd.readouterr()) + caplog.text + (tmp_path / "log").read_text()
