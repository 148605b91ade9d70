"""After the reservation nothing says that nothing was spent, whatever fails; and what cannot be printed fails no release."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from doors_world import OTHERS, WRITING, Result, commands, reservations, typed

import oboro as ob
from oboro import files, secure
from oboro.errors import LedgerError, ParameterError
from oboro.language import said
from oboro.payment import NOTHING_RECORDED
from oboro.release import release

RELEASING = [
    "histogram release",
    "table release",
    "query",
    "sql",
    "run",
    "synth release",
    "dynamics release",
    "secure draw",
]
UNSPENT = ("nothing was spent", "nothing is spent", "Nothing was recorded", "nothing more is spent")
STORED, LOST = 5, 6


class Failing(io.StringIO):
    """A screen that takes so many writes, and then no more."""

    def __init__(self, error: Exception, after: int = 0) -> None:
        super().__init__()
        self.error, self.left = error, after

    def write(self, text: str) -> int:
        if text and self.left <= 0:  # nothing is written to see what kind of stream it is
            raise self.error
        self.left -= bool(text)
        return super().write(text)


def line_of(command: str, *more: str) -> list[str]:
    line, option, suffix, _ = WRITING[command]
    return [*line.split(), option, f"out{suffix}", *more]


@pytest.fixture(params=RELEASING)
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def paid_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test does to one command, that command has paid, and once."""
    if "command" not in request.fixturenames:
        yield
        return
    folder = request.getfixturevalue("folder")
    before = reservations(folder)
    yield
    assert sum(reservations(folder).values()) == sum(before.values()) + 1


def tells(result: Result, *codes: int) -> None:
    """That the exit code is one of these, and that nothing sounds as if nothing had been spent."""
    assert result.code in codes, result
    for sentence in UNSPENT:
        for language in ("en", "ja"):
            assert said(sentence, language=language) not in result.text


def test_every_command_that_pays_is_tried() -> None:
    assert {name for name, one in commands().items() if "dry_run" in {p.name for p in one.params}} == set(
        RELEASING
    )


# -- nobody reads what is printed -----------------------------------------------------------------------------------

BROKEN = {
    "a full disk": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "a reader that went away": lambda: BrokenPipeError(errno.EPIPE, "Broken pipe"),
    "a closed stream": lambda: ValueError("I/O operation on closed file."),
}


@pytest.mark.parametrize("why", BROKEN)
@pytest.mark.few(6, "releases that cannot be shown")
def test_what_cannot_be_printed_does_not_fail_a_release_that_was_written(
    folder: Path, command: str, why: str
) -> None:
    result = typed(folder, line_of(command), out=Failing(BROKEN[why](), after=len(why) % 3))
    tells(result, 0)
    assert (folder / f"out{WRITING[command][2]}").stat().st_size > 0
    assert "was written" in result.err


def test_without_any_terminal_a_release_is_made(folder: Path, command: str) -> None:
    assert typed(folder, line_of(command), out=None, err=None).code == 0
    assert (folder / f"out{WRITING[command][2]}").stat().st_size > 0


def test_a_screen_for_errors_that_takes_nothing_does_not_fail_a_release(folder: Path, command: str) -> None:
    result = typed(folder, line_of(command), err=Failing(OSError(errno.ENOSPC, "No space left on device")))
    tells(result, 0)
    assert result.out


def test_json_that_nobody_got_is_stored(folder: Path, command: str) -> None:
    result = typed(folder, line_of(command, "--json"), out=Failing(BROKEN["a full disk"]()))
    tells(result, STORED)
    assert json.loads(result.err)["error"] == "StoredError"


@pytest.mark.parametrize("out", [None, "closed", "full"])
def test_a_release_that_was_only_to_be_printed_can_be_fetched(folder: Path, out: str | None) -> None:
    screen = (
        None if out is None else Failing(BROKEN["a closed stream" if out == "closed" else "a full disk"]())
    )
    before = reservations(folder)
    result = typed(folder, [*WRITING["run"][0].split()], out=screen)
    tells(result, STORED)
    assert sum(reservations(folder).values()) == sum(before.values()) + 1
    assert_fetched(folder, result)


def assert_fetched(folder: Path, result: Result) -> None:
    """The line that the message shows gives the release back, and costs nothing."""
    before = reservations(folder)
    (line,) = (line for line in result.err.splitlines() if "oboro ledger fetch" in line)
    words = line.partition("oboro ")[2].replace("FILE", "again.csv").split()
    fetched = typed(folder, words)
    assert fetched.code == 0, fetched
    assert (folder / "again.csv").stat().st_size > 0
    assert reservations(folder) == before


def test_a_service_goes_on_when_nobody_reads_its_lines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = []

    def serve(*_: object, tell: Callable[[str], None], **__: object) -> None:
        for number in range(3):
            tell("refused: the other party stopped\nopened 7")
            served.append(number)

    monkeypatch.setattr(secure, "serve", serve)
    line = OTHERS["secure serve"].replace("nowhere:99999", "127.0.0.1:0").split()
    assert typed(folder, line, out=Failing(BROKEN["a reader that went away"](), after=1)).code == 0
    shown = typed(folder, line)
    assert len(served) == 6
    assert not any(text.startswith("opened") for text in shown.out.splitlines())


# -- what fails in our own program ----------------------------------------------------------------------------------


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def after(real: Callable[..., Any], error: BaseException) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        real(*args, **kwargs)
        raise error

    return fail


ERRORS: dict[str, Callable[[], BaseException]] = {
    "a refusal": lambda: ParameterError("eps is too small", given="eps=0"),
    "a full disk": lambda: LedgerError(f"the disk is full. {NOTHING_RECORDED}", given="people.ledger"),
    "no room": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "no memory": MemoryError,
    "a bug": lambda: KeyError("secret value 4711"),
    "Ctrl-C": KeyboardInterrupt,
}


EVERYWHERE = [  # every error in one command, and two errors in every command; the rest among the long tests
    pytest.param(
        command,
        error,
        marks=()
        if command == "run" or error in ("a refusal", "Ctrl-C")
        else pytest.mark.long("failures after a payment"),
    )
    for command in RELEASING
    for error in ERRORS
]


@pytest.mark.parametrize(("command", "error"), EVERYWHERE)
@pytest.mark.few(6, "releases that cannot be shown")
def test_what_fails_before_the_release_is_stored_was_paid_for(
    folder: Path, command: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ob.Ledger, "commit", raising(ERRORS[error]()))
    result = typed(folder, line_of(command))
    tells(result, LOST)
    assert "spent" in result.err
    assert "4711" not in result.text


@pytest.mark.parametrize(("command", "error"), EVERYWHERE)
@pytest.mark.few(6, "releases that cannot be shown")
def test_what_fails_once_it_is_stored_says_how_to_fetch_it(
    folder: Path, command: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "certify", raising(ERRORS[error]()))
    result = typed(folder, line_of(command))
    tells(result, STORED)
    assert "oboro ledger fetch" in result.err
    assert "4711" not in result.text


@pytest.mark.parametrize("error", ERRORS)
def test_what_fails_just_after_it_was_stored_is_looked_for(
    folder: Path, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ob.Ledger, "commit", after(ob.Ledger.commit, ERRORS[error]()))
    result = typed(folder, line_of("run"))
    tells(result, STORED)
    assert "paid for again" not in result.err
    assert_fetched(folder, result)


@pytest.mark.parametrize("error", ["a refusal", "Ctrl-C"])
def test_what_may_be_stored_is_to_be_looked_for_first(
    folder: Path, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the connection is lost just after the release was recorded."""
    monkeypatch.setattr(ob.Ledger, "commit", after(ob.Ledger.commit, ERRORS[error]()))
    monkeypatch.setattr(
        ob.Ledger, "find_entry", raising(LedgerError("the connection to the ledger was lost"))
    )
    result = typed(folder, line_of("run"))
    monkeypatch.undo()
    tells(result, LOST)
    assert "may be stored" in result.err
    assert "paid for again" not in result.err
    assert_fetched(folder, result)


@pytest.mark.parametrize(("command", "error"), EVERYWHERE)
@pytest.mark.few(6, "releases that cannot be shown")
def test_a_file_that_cannot_be_written_after_all(
    folder: Path, command: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.os, "fsync", raising(ERRORS[error]()))
    result = typed(folder, line_of(command))
    monkeypatch.undo()
    tells(result, STORED)
    assert not (folder / f"out{WRITING[command][2]}").exists()
    if command != "synth release":  # the next test
        assert_fetched(folder, result)


def test_what_was_not_written_is_fetched_in_the_form_that_it_would_have_had(folder: Path) -> None:
    """A model that draws records; and an answer that is still encrypted, for the other party to open."""
    for command, again in (("synth release", "again.oboro"), ("secure draw", "again.enc")):
        words = line_of(command, "--name", "once")
        assert typed(folder, words).code == 0
        ledger = words[words.index("--ledger") + 1]
        fetched = typed(folder, ["ledger", "fetch", ledger, "--name", "once", "-o", again])
        assert fetched.code == 0, fetched
        assert parts(folder / again) == parts(folder / words[words.index("-o") + 1])
        shown = typed(folder, ["ledger", "fetch", ledger, "--name", "once"])
        assert shown.code == 0, shown
        (line,) = [one for one in shown.out.splitlines() if "oboro ledger fetch" in one]
        pasted = shlex.split(line.partition("oboro ")[2])
        assert typed(folder, pasted).code == 0
        assert parts(folder / pasted[-1]) == parts(folder / again)
    opened = typed(folder, ["secure", "open", "again.enc", "--plan", "noise.toml", "--key", "alice.secret"])
    assert opened.code == 0, opened
    assert opened.out.strip().lstrip("-").isdigit()


def parts(path: Path) -> list[Any]:
    """What a file holds, without when it was written and the order in which a certificate names things."""
    if path.suffix != ".oboro":
        return [path.read_bytes()]
    with zipfile.ZipFile(path) as file:
        held = [file.read(name) for name in file.namelist()]
        return [held[0], json.loads(held[1])]


def test_ctrl_c_just_after_the_reservation_says_that_it_may_be_paid(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what every reservation goes through, that of a plan which was asked before too
    monkeypatch.setattr(ob.Ledger, "_pay", after(ob.Ledger._pay, KeyboardInterrupt()))
    result = typed(folder, line_of(command))
    tells(result, LOST)
    assert "may have been paid for" in result.err


def test_words_that_cannot_be_made_do_not_fail_a_release_that_was_written(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a command says about a written release: here what remains, which it asks the ledger for."""
    monkeypatch.setattr(ob.Ledger, "remaining", property(raising(ParameterError("eps is too small"))))
    if command in ("secure draw", "synth release", "query", "sql"):
        monkeypatch.setattr(ob.Ledger, "remaining", property(raising(MemoryError())))
    result = typed(folder, line_of(command))
    tells(result, 0)
    assert "was written" in result.err


@pytest.mark.parametrize("demo", ["demo", "dynamics demo"])
@pytest.mark.long("demos that fail")
def test_a_demo_that_fails_has_paid_from_its_own_ledger(tmp_path: Path, demo: str) -> None:
    result = typed(
        tmp_path, demo.split(), out=Failing(BROKEN["a full disk"](), after=3 if demo == "demo" else 1)
    )
    tells(result, STORED)


# -- for real -------------------------------------------------------------------------------------------------------

REAL = {  # what the shell does with `"$@"`, and the exit codes without and with a file
    '"$@" >/dev/full': (STORED, 0),
    '"$@" >&-': (STORED, 0),
    '"$@" >&- 2>&-': (STORED, 0),
    '"$@" 2>/dev/full >/dev/null': (0, 0),
    '"$@" 2>&- >/dev/null': (0, 0),
    '"$@" <&- >/dev/null': (0, 0),
    '{ "$@"; echo $? >code; } | true; exit $(cat code)': (STORED, 0),
    'ulimit -f 0; "$@" -o big.csv': (None, 1),
}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    "how",
    [
        how
        if "full" in how or "true" in how
        else pytest.param(how, marks=pytest.mark.long("real terminals that fail"))
        for how in REAL
    ],
)
@pytest.mark.long("real terminals that fail")
def test_a_real_terminal_that_fails(folder: Path, how: str) -> None:
    before = reservations(folder)
    oboro = [sys.executable, "-m", "oboro", *WRITING["run"][0].split()]
    paid = 0
    for code, more in zip(REAL[how], ([], ["-o", "real.csv"]), strict=True):
        if code is None:
            continue
        ended = subprocess.run(
            ["sh", "-c", how, "sh", *oboro, *more], cwd=folder, capture_output=True, text=True, check=False
        )
        assert ended.returncode == code, (how, more, ended)
        assert "Traceback" not in ended.stderr
        paid += code != 1
        assert not more or code == 1 or (folder / "real.csv").stat().st_size > 0
    assert sum(reservations(folder).values()) == sum(before.values()) + paid


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.long("failures after a payment")
def test_a_real_signal_after_the_reservation(folder: Path, name: str) -> None:
    """And two more of them while the message is made."""
    before = reservations(folder)
    code = (
        "import os, signal, sys\n"
        "from oboro.ledger import Ledger\n"
        "from oboro.cli import main, terminal\n"
        "told = terminal.complaint\n"
        f"def stop(*_, **__): os.kill(os.getpid(), signal.{name})\n"
        "def again(error): stop(); os.kill(os.getpid(), signal.SIGINT); return told(error)\n"
        "Ledger.commit, terminal.complaint = stop, again\n"
        # whoever runs the tests in the background may have signals ignored, and a command leaves that as it is
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"if signal.{name} != signal.SIGINT: signal.signal(signal.{name}, signal.SIG_DFL)\n"
        "sys.argv[0] = 'oboro'\n"
        "main()\n"
    )
    words = line_of("run")
    ended = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    tells(Result(ended.returncode, ended.stdout, ended.stderr), LOST)
    assert "Traceback" not in ended.stderr
    assert sum(reservations(folder).values()) == sum(before.values()) + 1
