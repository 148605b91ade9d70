"""Runs mutants, each in a process of its own, and says what became of them.

    python tests/mutants/runner.py                              all of them
    python tests/mutants/runner.py --layer noise                those of one layer
    python tests/mutants/runner.py "laplace scale off"          one, with what its test said

Everything is imported once; then the process forks for each mutant, so that a planted fault cannot outlive it.
A fault counts as caught only if its test ran, reached the fault, and failed on an assertion, or on a plan that refused
itself because its noise did not keep its promise. A fault that makes the program fall over shows nothing about the test.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).parent.parent.parent
LONGEST = 1200  # seconds for one mutant, should it hang; a busy machine is no reason
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={ROOT}"]
sys.path[:0] = [str(ROOT / "tests")]

from mutants.planting import Mutant, plant  # noqa: E402
from mutants.registry import KNOWN  # noqa: E402
from oboro.errors import GuaranteeError  # noqa: E402


class Watch:
    """A pytest plugin that notes how each test ended."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        if call.excinfo is None:
            if call.when == "call":
                self.ends.append("passed")
        elif call.when == "call" and _is_assertion(call.excinfo.value):
            self.ends.append("failed")
        elif isinstance(call.excinfo.value, pytest.skip.Exception):
            self.ends.append("skipped")
        else:
            self.ends.append(f"error: {call.excinfo.typename}")


def _is_assertion(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):  # several counter-examples of one property
        return all(_is_assertion(part) for part in error.exceptions)
    unkept = isinstance(error, GuaranteeError) and "does not keep its promise" in str(error)
    return unkept or isinstance(error, AssertionError | pytest.fail.Exception)


def verdict(exit_code: int, ends: Sequence[str], calls: int) -> str:
    """What happened, in a word or two; "caught" for one thing only."""
    if exit_code not in (0, 1) or not ends:
        return "no such test"
    if "skipped" in ends:
        return "skipped"
    if calls == 0:
        return "not reached"
    if any(end.startswith("error") for end in ends):
        return "fell over"
    return "caught" if "failed" in ends else "survived"


def run_here(mutant: Mutant, folder: Path) -> dict[str, Any]:
    """Plants the fault in this process and runs its test."""
    watch, started = Watch(), time.process_time()
    try:
        reached = plant(mutant)
    except (AttributeError, ImportError) as error:
        print(error)
        return {"name": mutant.name, "verdict": "no such place", "ends": [], "seconds": 0.0}
    where = [f"--basetemp={folder / 'tmp'}", str(ROOT / mutant.caught_by)]
    code = int(pytest.main([*OPTIONS, *where], plugins=[watch]))
    return {
        "name": mutant.name,
        "verdict": verdict(code, watch.ends, reached.calls),
        "ends": watch.ends,
        "seconds": round(time.process_time() - started, 2),
    }


def run_apart(mutant: Mutant) -> dict[str, Any]:
    """The same in a child, which cannot spoil anything for the next."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        child = os.fork()
        if child == 0:
            _as_a_child(mutant, folder)
        os.waitpid(child, 0)
        said, found = folder / "said", folder / "found"
        result = {"name": mutant.name, "verdict": "died", "ends": [], "seconds": 0.0}
        if found.exists():
            result = json.loads(found.read_text())
        return {**result, "said": said.read_text(encoding="utf-8", errors="replace")[-4000:]}


def _as_a_child(mutant: Mutant, folder: Path) -> None:
    try:
        signal.alarm(LONGEST)
        out = os.open(folder / "said", os.O_CREAT | os.O_WRONLY, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        result = run_here(mutant, folder)
        sys.stdout.flush()
        (folder / "found").write_text(json.dumps(result))
    finally:
        os._exit(0)


def import_everything(mutants: Sequence[Mutant]) -> None:
    """Imports the tests, and with them the program. Runs nothing, so that no thread is there at a fork."""
    # the same examples every time, and none kept: what refutes a mutant is no example for anybody else
    hypothesis.settings.register_profile("mutants", database=None, derandomize=True)
    hypothesis.settings.load_profile("mutants")
    files = sorted({str(ROOT / mutant.caught_by.partition("::")[0]) for mutant in mutants})
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        pytest.main([*OPTIONS, "--collect-only", *files])
    gc.collect()
    gc.freeze()  # children share what is there, and do not copy it by looking through it


def main() -> None:
    parser = argparse.ArgumentParser(description="Run planted faults against the tests that must catch them.")
    parser.add_argument("names", nargs="*", help="names of mutants; none means all")
    parser.add_argument("--layer", help="those of one layer")
    parser.add_argument("--serve", action="store_true", help="names come in line by line, JSON goes out")
    given = parser.parse_args()
    if given.serve:
        import_everything(list(KNOWN.values()))
        for name in sys.stdin:
            print(json.dumps(run_apart(KNOWN[name.rstrip("\n")])), flush=True)
        return
    chosen = [m for m in KNOWN.values() if given.layer in (None, m.layer)]
    chosen = [m for m in chosen if not given.names or m.name in given.names]
    import_everything(chosen)
    for mutant in chosen:
        result = run_apart(mutant)
        print(result["said"] if len(given.names) == 1 else "", end="")
        print("{verdict:12} {seconds:6.2f} s  {name}".format(**result), flush=True)
    gc.unfreeze()


if __name__ == "__main__":
    main()
