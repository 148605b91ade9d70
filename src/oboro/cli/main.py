"""`oboro`: the list of commands, and what happens when one fails.

Exit codes
    0  done
    1  something failed: a ledger that cannot be used, a certificate that does not verify
    2  the command line itself was wrong
    3  the budget is exhausted: nothing was spent
    4  the input was refused: nothing was spent
None of them depends on a private value.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from oboro._version import __version__
from oboro.cli import (
    audit,
    certificate,
    demo,
    dynamics,
    helping,
    histogram,
    ledger,
    plans,
    query,
    reproduce,
    secure,
    spelling,
    synth,
    table,
)
from oboro.errors import OboroError
from oboro.files import sparing
from oboro.language import chosen, said

app = typer.Typer(
    name="oboro",
    help="Publish statistics about people without publishing people: exact differential privacy with a ledger.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong command line, 3 budget exhausted, 4 input refused.",
    no_args_is_help=False,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
PUBLISH, PAY, TRUST = "Publish", "Plan and pay", "Check and learn"
app.add_typer(table.app, name="table", rich_help_panel=PUBLISH)
app.command(
    "query",
    rich_help_panel=PUBLISH,
    epilog="Example: oboro query people.toml mean income --by region --eps 0.1 -o published.csv",
)(query.query)
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
app.command("demo", rich_help_panel=TRUST)(demo.demo)
app.command("check", rich_help_panel=TRUST, epilog="Example: oboro check people.toml")(query.check)
app.add_typer(certificate.app, name="certificate", rich_help_panel=TRUST)
app.command("audit", rich_help_panel=TRUST, epilog="Example: oboro audit plan.toml -o audit.html")(
    audit.audit
)
app.command("reproduce", rich_help_panel=TRUST, epilog="Example: oboro reproduce kii-table1")(
    reproduce.reproduce
)

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
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"oboro {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(said(START))


def main() -> None:
    """Runs the command line; errors become a few lines and an exit code, never a traceback."""
    try:
        command = spelling.whole_command(chosen())
        helping.in_own_language(command)
        with sparing():  # no command writes over a file that it reads
            command()
    except OboroError as error:
        _complain(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo(said("stopped"), err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # a folder that is a file, a disk that is full: what the system says is public
        _complain(
            OboroError("the system refused", given=f"{error.filename or 'a file'}: {error.strerror or error}")
        )
        sys.exit(1)
    except Exception as error:
        if os.environ.get("OBORO_TRACEBACK"):
            raise
        # The text of a foreign error may quote a value, so only its kind is shown.
        bug = f"InternalError: {type(error).__name__}. This is a bug in oboro; OBORO_TRACEBACK=1 shows where."
        typer.echo(said(bug), err=True)
        sys.exit(1)


def _complain(error: OboroError) -> None:
    if "--json" in sys.argv:
        import json

        typer.echo(json.dumps(spelling.record(error), ensure_ascii=False), err=True)
        return
    name = f"{type(error).__name__}: "
    if sys.stderr.isatty():
        name = typer.style(name, fg=typer.colors.RED, bold=True)
    typer.echo(name + spelling.complaint(error), err=True)
