"""`oboro`: the list of commands, and what happens when one fails.

Exit codes
    0  done
    1  something failed: a ledger that cannot be used, a certificate that does not verify; nothing was spent by this command
    2  the command line itself was wrong: nothing was spent
    3  the budget is exhausted: nothing was spent
    4  the input was refused: nothing was spent
    5  paid for, and stored in the ledger, but something after that failed: `oboro ledger fetch` gives it back, free
    6  paid for, and nothing was released, or nobody can tell: what it cost is spent; the message says where to look
    130, 143, 129  stopped by Ctrl-C, SIGTERM or SIGHUP before anything was paid for; afterwards it is 5 or 6
None of them depends on a private value.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

from oboro._version import __version__
from oboro.cli import (
    checks,
    demo,
    dynamics,
    histogram,
    ledger,
    plans,
    query,
    secure,
    series,
    service,
    sql,
    synth,
    table,
    terminal,
)
from oboro.cli import checks as certificate
from oboro.cli import checks as reproduce
from oboro.cli.options import option
from oboro.cli.terminal import Unprintable, echo, trace
from oboro.errors import OboroError, PaidError
from oboro.files import sparing
from oboro.language import chosen, plain, said, without_password
from oboro.payment import Payment, failed, payments

# What `--help` says, in the reader's language. The words of commands and options stay as they are typed.

_TITLES = {
    "ARGUMENTS_PANEL_TITLE": "Arguments",
    "OPTIONS_PANEL_TITLE": "Options",
    "COMMANDS_PANEL_TITLE": "Commands",
    "ERRORS_PANEL_TITLE": "Error",
    "DEFAULT_STRING": "[default: {}]",
    "REQUIRED_LONG_STRING": "[required]",
    "ENVVAR_STRING": "[env var: {}]",
    "RICH_HELP": "Try [blue]'{command_path} {help_option}'[/] for help.",
}


def in_own_language(command: Any) -> None:
    """Translates the help of a command and of all below it, and what stands around it."""
    other = chosen() != "en"
    if other and not getattr(command, "translated", False):
        _translate(command)
        command.translated = True
    asked = "--help" in sys.argv or (other and len(sys.argv) <= 2)
    if asked or "typer.rich_utils" in sys.modules:  # it takes a while to load: not where nobody will see it
        _set_frame()


def _set_frame() -> None:
    """What stands around the help and around an error. Nothing in it is cut short: names of options keep their room, and long
    words, as which Japanese counts, go on in the next line."""
    from rich.table import Table
    from typer import rich_utils

    class Whole(Table):
        def add_row(self, *cells: Any, **style: Any) -> None:
            super().add_row(*cells, **style)
            for column in self.columns[:-1]:
                column.no_wrap = True

    for name, text in _TITLES.items():
        if hasattr(rich_utils, name):
            setattr(rich_utils, name, said(text))
    made = getattr(rich_utils, "_make_rich_text", None)
    if made is not None and made.__module__ == rich_utils.__name__:

        def folded(**parts: Any) -> Any:
            text = made(**parts)
            text.overflow = "fold"
            return text

        rich_utils._make_rich_text = folded
        vars(rich_utils)["Table"] = Whole


def _translate(command: Any) -> None:
    command.help = "\n\n".join(said(part.strip()) for part in (command.help or "").split("\n\n"))
    command.epilog = said(command.epilog or "")
    if getattr(command, "rich_help_panel", None):
        command.rich_help_panel = said(command.rich_help_panel)
    for one in command.params:
        if getattr(one, "help", None):
            one.help = said(one.help)
    _translate_usage(command)
    _translate_help_option(command)
    for inner in getattr(command, "commands", {}).values():
        _translate(inner)


def _translate_usage(command: Any) -> None:
    """The line that says how a command is typed."""
    made = command.get_usage
    command.get_usage = lambda context: made(context).replace("Usage:", said("Usage:"), 1)


def _translate_help_option(command: Any) -> None:
    """The option that every command has is made when it is asked for."""
    made = command.get_help_option

    def translated(context: Any) -> Any:
        option = made(context)
        if option is not None and option.help:
            option.help = said(option.help)
        return option

    command.get_help_option = translated


app = typer.Typer(
    name="oboro",
    help="Publish statistics about people without publishing people: exact differential privacy with a ledger.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong command line, 3 budget exhausted, 4 input refused, 5 paid and stored but not delivered, 6 paid and lost.",
    no_args_is_help=False,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
PUBLISH, PAY, SERVE, TRUST = "Publish", "Plan and pay", "Let others ask", "Check and learn"
series.add_to(table.app)
app.add_typer(table.app, name="table", rich_help_panel=PUBLISH)
app.command(
    "query",
    rich_help_panel=PUBLISH,
    epilog="Example: oboro query people.toml mean income --by region --eps 0.1 -o published.csv",
)(query.query)
app.command(
    "sql",
    rich_help_panel=PUBLISH,
    epilog='Example: oboro sql people.toml "SELECT region, AVG(age) FROM people GROUP BY region" --eps 0.1',
)(sql.sql)
app.add_typer(histogram.app, name="histogram", rich_help_panel=PUBLISH)
app.add_typer(synth.app, name="synth", rich_help_panel=PUBLISH)
app.add_typer(dynamics.app, name="dynamics", rich_help_panel=PUBLISH)
app.add_typer(secure.app, name="secure", rich_help_panel=PUBLISH)
app.add_typer(ledger.app, name="ledger", rich_help_panel=PAY)
app.command("forecast", rich_help_panel=PAY, epilog="Example: oboro forecast plan.toml")(plans.forecast)
app.command(
    "run",
    rich_help_panel=PAY,
    epilog="Example: oboro run plan.toml people.csv --ledger people.ledger -o published.csv",
)(plans.run)
app.command("studio", rich_help_panel=SERVE, epilog="Example: oboro studio people.toml")(service.studio)
app.command("serve", rich_help_panel=SERVE, epilog="Example: oboro serve service.toml")(service.serve)
app.add_typer(service.analyst, name="analyst", rich_help_panel=SERVE)
app.add_typer(service.token, name="token", rich_help_panel=SERVE)
app.command("demo", rich_help_panel=TRUST)(demo.demo)
app.command("check", rich_help_panel=TRUST, epilog="Example: oboro check people.toml")(query.check)
app.add_typer(certificate.app, name="certificate", rich_help_panel=TRUST)
app.command("audit", rich_help_panel=TRUST, epilog="Example: oboro audit plan.toml -o audit.html")(
    checks.audit
)
app.command("reproduce", rich_help_panel=TRUST, epilog="Example: oboro reproduce kii-table1")(
    reproduce.reproduce
)

# what typer raises for a wrong command line, whichever click it brings
_Misspelt: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

START = """oboro publishes statistics about people without publishing people.

  oboro demo                              a generated city, published as a map, in this folder
  oboro ledger create city.ledger ...     decide who is protected and how much may be spent
  oboro table forecast ...                see the error before anything is spent
  oboro table release ...                 spend, publish, certify
  oboro table map ...                     show it
  oboro query people.toml mean age ...    ask a question about a file of people
  oboro --help                            everything else"""


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, option("--version", "Print the version and stop.")] = False,
) -> None:
    if version:
        echo(f"oboro {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        echo(said(START))


def main() -> None:
    """Runs the command line; errors become a few lines and an exit code, never a traceback."""
    _fill_gaps()
    terminal.hold(None)
    command = terminal.whole_command(chosen())
    in_own_language(command)
    if any(name.endswith("OBORO_COMPLETE") for name in os.environ):
        command()  # the shell asks what could be typed
    with sparing(), payments() as made, _stoppable(made):  # no command writes over a file that it reads
        code = _ended(lambda: _run(command), made)
    sys.exit(code)


class Stopped(KeyboardInterrupt):
    """Somebody ends the program, by Ctrl-C or from outside."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


_STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def _stoppable(made: list[Payment]) -> Iterator[None]:
    """SIGTERM and SIGHUP stop a command as Ctrl-C does: with a word. Once something is paid, nothing cuts that word short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: object) -> None:
        if made:
            _ignore_stops()
        raise Stopped(number)

    usual = (signal.SIG_DFL, signal.default_int_handler)  # what is ignored, as under nohup, stays so
    before = {one: signal.getsignal(one) for one in _STOPS}
    for one in _STOPS:
        if before[one] in usual:
            signal.signal(one, stop)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _ignore_stops() -> None:
    if threading.current_thread() is threading.main_thread():
        for one in _STOPS:
            signal.signal(one, signal.SIG_IGN)


def _fill_gaps() -> None:
    """A standard stream that is missing: else the next file that is opened, perhaps a ledger, is what is printed into."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _run(command: Any) -> None:
    """The command itself. Not by its own `main`, which would end the program where something may be paid for."""
    with command.make_context("oboro", sys.argv[1:]) as context:
        command.invoke(context)


def _ended(run: Callable[[], None], made: list[Payment]) -> int:
    """The exit code of a run, after a few words on what went wrong."""
    try:
        run()
        return 0
    except typer.Exit as end:
        return int(end.exit_code)
    except _Misspelt as error:
        return _misspelt(error)
    except Unprintable as error:
        return _unprinted(error, made)
    except BrokenPipeError as error:
        # help is printed by Typer itself; elsewhere it may be a connection that broke
        return (_unprinted if "--help" in sys.argv else _failed)(error, made)
    except (OboroError, OSError, KeyboardInterrupt) as error:
        return _failed(error, made)
    except Exception as error:
        if os.environ.get("OBORO_TRACEBACK") and not made:
            sys.excepthook = trace
            raise
        return _failed(error, made)


def _failed(error: BaseException, made: list[Payment]) -> int:
    """What is said of an error. After a payment, nothing is said that could be read as if nothing had been spent."""
    if made:
        _ignore_stops()
    if made and os.environ.get("OBORO_TRACEBACK"):
        trace(type(error), error, error.__traceback__)
    if made and made[-1].delivered and "--json" not in sys.argv and isinstance(error, Exception):
        echo(
            said("the release was written; not all that there is to say about it could be printed"), err=True
        )
        return 0
    if made and not isinstance(error, PaidError):
        error = failed(made[-1], _in_words(error))
    if isinstance(error, KeyboardInterrupt):
        echo(said("stopped"), err=True)
        return 128 + getattr(error, "number", signal.SIGINT)
    told = _in_words(error)
    if not isinstance(told, OboroError):
        # The text of a foreign error may quote a value, so only its kind is shown.
        bug = f"InternalError: {type(told).__name__}. This is a bug in oboro; OBORO_TRACEBACK=1 shows where."
        echo(said(bug), err=True)
        return 1
    if "--json" in sys.argv:
        echo(json.dumps(terminal.record(told), ensure_ascii=False), err=True)
    else:
        echo(terminal.complaint(told), err=True, lead=f"{type(told).__name__}: ")
    return told.exit_code


def _in_words(error: BaseException) -> BaseException:
    """A folder that is a file, a disk that is full: what the system says is public."""
    if not isinstance(error, OSError):
        return error
    return OboroError("the system refused", given=f"{error.filename or 'a file'}: {error.strerror or error}")


def _unprinted(error: OSError, made: list[Payment]) -> int:
    """Nobody reads any more, or the disk behind the screen is full. A release whose file was written is not failed by that."""
    if sys.stdout is not None:
        with suppress(
            OSError, ValueError
        ):  # what is left in the buffer must not fail once more, at the very end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not made and error.errno == errno.EPIPE:
        return 1
    return _failed(OSError(error.errno, error.strerror, "standard output"), made)


def _misspelt(error: Any) -> int:
    """The command line itself was wrong. It is quoted, and may hold anything."""
    error.message = without_password(plain(error.message, lines=True))
    told = said(error.format_message())
    error.format_message = lambda: told
    with suppress(OSError, ValueError):  # nobody hears it
        try:
            from typer.rich_utils import rich_format_error

            _set_frame()
            rich_format_error(error)
        except ImportError:
            error.show()
    return int(error.exit_code)
