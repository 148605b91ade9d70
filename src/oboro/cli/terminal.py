"""The one way to the terminal.

Whatever is printed passes here: no sign that a terminal would obey, no password of an address in an error, and no letter that
the terminal cannot show stops a command. What comes from a file and must stay on its line goes through `plain` before
(`labelled`, `aligned`, `left`, `right` and `phrase` do so).
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer

from oboro.errors import Declaration, InputError, OboroError, Settings
from oboro.language import Lines, chosen, left, plain, said, without_password

if TYPE_CHECKING:
    from oboro.ledger import Ledger
    from oboro.privacy import Unit
    from oboro.records import Facts


class Unprintable(OSError):
    """The terminal, or what stands for it, takes no more."""


def echo(text: str = "", *, err: bool = False, lead: str = "") -> None:
    """Prints lines; `lead` stands before them in red, on a terminal. What nobody hears of an error, the exit code says."""
    _clear_bars()  # what is printed stands on lines of its own
    stream = sys.stderr if err else sys.stdout
    shown, lead = plain(text, lines=True), plain(lead)
    if err:  # what is released is never changed
        shown = without_password(shown)
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


Watch = Callable[[str, float, float], None]  # what is being done; how much of it is; of how much
PATIENCE = 1.0  # seconds without a bar
_bars: list[Any] = []  # those that may stand on the screen


@contextmanager
def progress() -> Iterator[Watch | None]:
    """A progress bar on anything over a second: on standard error, and only where somebody watches."""
    if not is_watched():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    started = time.monotonic()
    # results go where they are sent, also while a bar is shown: standard output is not led to it
    bar = Progress(console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
    task = bar.add_task("")

    def watch(stage: str, done: float, total: float) -> None:
        if time.monotonic() - started >= PATIENCE:
            bar.start()
            bar.update(task, description=stage, completed=done, total=total)

    _bars.append(bar)
    try:
        yield watch
    finally:
        _clear_bars()
        _bars.remove(bar)


def _clear_bars() -> None:
    """Takes every bar off the screen; one that has more to say comes back."""
    for bar in _bars:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def progress_bar() -> Iterator[None]:
    """Shows what is reported by `oboro.progress` while this lasts."""
    from oboro.progress import watched

    with progress() as show, ExitStack() as stack:
        if show is not None:
            stack.enter_context(watched(lambda stage, share: show(said(stage), share, 1)))
        yield


def trace(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """A traceback, for whoever asked for one with OBORO_TRACEBACK."""
    for part in traceback.format_exception(kind, error, where):
        ours = part.startswith(("  File ", "\n"))  # a place in a program, or words between two errors
        echo(part.rstrip("\n") if ours else plain(part.rstrip("\n")), err=True)


# The same words as they are typed: an error that shows a line of Python shows an option or lines of TOML here.
#
# Below the command line an error says `setting(eps="0.1")` or `declaration("integer", ...)`, which are lines of Python and know
# what they stand for. Here the running command decides: an argument that is one of its options becomes that option, a
# column becomes a `[[columns]]` table, a unit and a budget become what `--unit` and `oboro ledger create` take.

_TOML = ("missing", "low", "high", "step", "region", "level", "kind", "values", "first", "last", "sigma", "n")
_held: list[Ledger] = []  # the ledger that the running command opened: what is proposed is about its data
_declared: list[Path] = []  # the file that it read, which may state who is protected


def hold(ledger: Ledger | None, declared: Path | None = None) -> None:
    """Remembers the ledger of the command that runs, and the file that declares its data, or forgets those of the last."""
    _held[:] = [] if ledger is None else [ledger]
    _declared[:] = [] if declared is None else [declared]


def typed(part: str, options: Mapping[str, str] | None = None, *, shown: str | None = None) -> str:
    """A part of an error, or a note, in the words of the command that runs; `options` are its arguments.

    `shown` is the same part in the reader's language.
    """
    if isinstance(part, Declaration):
        return part.toml
    known = running_options() if options is None else options
    settings: Settings = getattr(part, "settings", ())
    if "instalment" in known and any(name == "instalment" for _, name, _ in settings):
        return plain(" ".join(_instalment(name, value) for _, name, value in settings))
    if settings and part == settings[0][0] and settings[0][1] == "guarantee" and known:
        return _price(settings[0][2], known)
    if any(hasattr(value, "unconditional") for _, _, value in settings):
        assumed = known.get("assume_min_eigenvalue")
        if assumed is not None and _typed_as(assumed) is not None and "assumption" in part:
            return f"without {assumed}"
        return _new_ledger({name: value for _, name, value in settings})
    if len(settings) == 1 and part == settings[0][0] and _is_of_a_file(settings[0][2], known):
        return as_table(settings[0][2])
    words = {fragment: plain(_option(fragment, name, value, known)) for fragment, name, value in settings}
    if words and part == ", ".join(words):
        fragment, name, _ = settings[0]
        if len(words) == 1 and name in _TOML and name not in known:  # a line of the file that declares it
            return plain(fragment.replace("=", " = ", 1))
        options_alone = all(word.startswith("--") for word in words.values())
        return (" " if options_alone else ", ").join(words.values())
    text = part if shown is None else shown
    for fragment, word in words.items():
        text = text.replace(plain(fragment), word, 1)
    return _named(text, known)


def complaint(error: OboroError) -> str:
    """The whole error, in the reader's language and as it is typed."""
    lines = [typed(error.message, shown=said(plain(error.message)))]
    for label, part in (("given", error.given), ("needed", error.needed), ("fix", error.fix)):
        if part is not None:
            shown = typed(part, shown=said(plain(part)))
            shown = (
                said(shown)
                if shown.startswith("without ") or ", without --" in shown or shown == IN_A_FILE
                else shown
            )
            lines.append(f"  {left(said(label), 7)} " + shown.replace("\n", "\n" + " " * 10))
    if note := _note(error):
        lines.append(f"  {left(said('note'), 7)} {said(note)}")
    return "\n".join(line.rstrip() for line in "\n".join(lines).split("\n"))


def _note(error: OboroError) -> str | None:
    """What goes with a second ledger for data that have one: else the budget would be gone around without a word."""
    if not _held or error.fix is None or not typed(error.fix).startswith("oboro ledger create "):
        return None
    return "with a second ledger these people may lose what both budgets allow together"


def record(error: OboroError) -> dict[str, str | None]:
    """The same for programs: in English."""
    parts = {"message": error.message, "given": error.given, "needed": error.needed, "fix": error.fix}
    known = running_options()
    argument = known.get(error.argument or "", error.argument) or _first_option(error.given, known)
    told = {name: None if part is None else without_password(typed(part)) for name, part in parts.items()}
    note = _note(error)
    return {**error.to_dict(), **told, "argument": argument, **({} if note is None else {"note": note})}


def _first_option(given: str | None, known: Mapping[str, str]) -> str | None:
    """The option that was given, where an error of the command line itself quotes it as it was typed."""
    word = (given or "").partition(" ")[0]
    word = "--output" if word == "-o" else word
    return word if word in known.values() else None


def running_options() -> dict[str, str]:
    """The options of the command that was typed, by the names of their arguments."""
    command = whole_command(chosen())
    for word in sys.argv[1:]:
        inner = getattr(command, "commands", {})
        if word not in inner:
            break
        command = inner[word]
    return {
        one.name: next((opt for opt in one.opts if opt.startswith("--")), one.opts[0])
        for one in command.params
        if getattr(one, "opts", [""])[0].startswith("-")
    }


@lru_cache
def whole_command(language: str) -> Any:
    """All commands, as they are understood: made once for each language, for it takes a while."""
    import typer

    from oboro.cli.main import app

    return typer.main.get_command(app)


def _option(fragment: str, name: str, value: object, known: Mapping[str, str]) -> str:
    """One argument and its value as the command takes it, or as Python if it takes none such."""
    if hasattr(value, "adjacency"):
        return _unit_place(value, known)
    if name == "adjacency":
        return f"--unit ...,{value}"
    if name == "question":
        return str(value)
    if name == "quantiles" and isinstance(value, list):
        return f'"quantile COLUMN {" ".join(map(str, value))}"'
    option = known.get(name) or known.get(name.removesuffix("s")) or (name if name.startswith("-") else None)
    if option is None:
        return fragment
    if value is None or value == "None":
        return f"without {option}"
    if value is True:  # a switch
        return option
    if name == "where" and isinstance(value, dict):
        return " ".join(f"{option} {_quoted(f'{column}={_values(one)}')}" for column, one in value.items())
    return f"{option} {_value(name, value)}"


def _value(name: str, value: object) -> str:
    if name == "edges":
        return _edges(value)
    if isinstance(value, dict):
        return " ".join(f"{column}={one}" for column, one in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if value is ...:
        return "NUMBER"
    text = "NUMBERS" if value == name else str(value)
    return shlex.quote(text)


def _values(value: object) -> str:
    """A condition on a column as --where takes it: a value, several, a range; nothing for what is missing."""
    if value is None or value is ...:
        return "" if value is None else "..."
    if isinstance(value, tuple):
        return "..".join(map(_values, value))
    return ",".join(map(_values, value)) if isinstance(value, list) else str(value)


def _quoted(text: str) -> str:
    """As a shell takes it; letters of any language need no quotes."""
    return text if re.fullmatch(r"[\w@%+=:,./-]+", text) else shlex.quote(text)


def _edges(value: object) -> str:
    """Edges are given as FIRST:LAST:WIDTH of a column."""
    if isinstance(value, range):
        return f"COLUMN={value[0]}:{value[-1]}:{value.step}"
    if isinstance(value, dict):
        return f"{next(iter(value))}=FIRST:LAST:WIDTH"
    return f"COLUMN={value[0]}:{value[-1]}:WIDTH" if isinstance(value, list) else str(value)


def _named(text: str, known: Mapping[str, str]) -> str:
    """A sentence whose arguments of several words are called by their options."""

    # signs of other letters stand before and after a word as spaces do
    words = re.compile(r"(?<![\w.=-])[a-z]+(?:_[a-z]+)+(?![\w=(\[-]|\.\w)", re.ASCII)
    return words.sub(lambda found: known.get(found[0], found[0]), text)


def _is_of_a_file(value: object, known: Mapping[str, str]) -> bool:
    """Whether it is a unit that is to be stated in the file that was read: no option takes it, and the ledger accounts for it."""
    from oboro.privacy.unit import accounts_for

    if not hasattr(value, "adjacency"):
        return False
    if "unit" in known:
        return not can_be_typed(value)
    return accounts_for(_held[0].unit, value) if _held else "ledger" not in known  # type: ignore[arg-type]


def as_table(unit: Any) -> Lines:
    """A unit as a file states it."""
    facts = {name: value for name, value in unit.to_dict().items() if value != "add/remove"}
    lines = (f"{name} = {plain(json.dumps(value, ensure_ascii=False))}" for name, value in facts.items())
    return Lines("\n".join(["[unit]", *lines]))


def _unit_place(unit: Any, known: Mapping[str, str]) -> str:
    """A unit as this command takes it, or as the ledger is created that it would need."""
    if "unit" in known:
        return f"--unit {shlex.quote(unit_text(unit))}"
    if _is_of_a_file(unit, known):
        return f"the unit of the file: {unit_text(unit)}"
    return _new_ledger({"unit": unit})


def unit_text(unit: Any) -> str:
    """A unit as `--unit` takes it."""
    parts = {
        "person": [unit.column, unit.max_rows],
        "cells": [unit.max_cells, unit.max_per_cell],
        "signal": [unit.distance, unit.norm or "inf"],
    }.get(unit.kind, [])
    replace = ",replace" if unit.adjacency == "replace" and unit.kind != "signal" else ""
    return ":".join([unit.kind, *(str(part) for part in parts)]) + replace


def can_be_typed(unit: Any) -> bool:
    """Whether `--unit` takes it for what it is: not with a colon, a comma or a line end in the name of its column."""
    from oboro.cli.options import read_unit

    text = unit_text(unit)
    try:
        return plain(text) == text and bool(read_unit(text) == unit)
    except InputError:
        return False


def _protecting(unit: Unit) -> str | None:
    """A unit as `oboro ledger create` takes it: by the file that states it, or typed. None where neither can be."""
    typable = can_be_typed(unit)
    known = bool(_held) and _held[0].unit == unit and typable  # nothing new is proposed
    file = str(_declared[0]) if _declared else ""
    if file and not known and file == plain(file) and _states(_declared[0], unit):
        return f"--domain {shlex.quote(file)}"
    return f"--unit {shlex.quote(unit_text(unit))}" if typable else None


def _states(declared: Path, unit: Unit) -> bool:
    from oboro.domain import read_toml
    from oboro.privacy import unit_from

    try:
        return bool(unit_from(read_toml(declared).get("unit")) == unit)
    except InputError:  # it states nobody
        return False


IN_A_FILE = "a ledger that is created with --domain, and a file whose [unit] names the column: --unit takes no such name"


def _new_ledger(values: Facts) -> str:
    """A budget, and perhaps a unit, as `oboro ledger create` takes them."""
    held = _held[0] if _held else None
    budget = next((value for value in values.values() if hasattr(value, "unconditional")), None)
    unit = values.get("unit", None if held is None else held.unit)
    dataset = "TEXT" if held is None else shlex.quote(held.dataset)
    price = "--eps NUMBER" if held is None else budget_text(held.budget)
    protects = "--unit UNIT" if unit is None else _protecting(unit)
    if protects is None:
        return IN_A_FILE
    return plain(
        f"oboro ledger create new.ledger --dataset {dataset} {protects} "
        f"{price if budget is None else budget_text(budget)}"
    )


def _price(guarantee: Any, known: Mapping[str, str]) -> str:
    """A guarantee as the running command takes it: options to set, and those of what was typed that it goes without."""
    facts = {name: str(value) for name, value in guarantee.unconditional.to_dict().items() if name != "kind"}
    if not facts.keys() <= known.keys():
        if known.keys() & {"eps", "rho"}:  # a command that takes the other one, and no delta
            return f"a plan with {guarantee}"
        lines = [f"{name} = {json.dumps(value)}" for name, value in guarantee.unconditional.to_dict().items()]
        return Lines("\n".join(["[guarantee]", *lines]))
    words = {name: _typed_as(option) for name, option in known.items() if name in ("eps", "delta", "rho")}
    changed = [f"{known[name]} {value}" for name, value in facts.items() if words.get(name) != value]
    without = [
        f"without {known[name]}" for name, word in words.items() if word is not None and name not in facts
    ]
    return ", ".join([*([" ".join(changed)] if changed else []), *without])


def _typed_as(option: str) -> str | None:
    """What was typed for an option; None where it was not."""
    for i, word in enumerate(sys.argv):
        if word == option:
            return sys.argv[i + 1] if i + 1 < len(sys.argv) else ""
        if word.startswith(option + "="):
            return word.partition("=")[2]
    return None


def _instalment(name: str, value: Any) -> str:
    """A period, or what it opens, as `oboro ledger create` takes it."""
    if name != "instalment":
        return f"--{name} {value}"
    facts = value.unconditional.to_dict()
    amount = facts.get("eps", facts.get("rho"))
    return f"--instalment {amount}" + (f" --instalment-delta {facts['delta']}" if "delta" in facts else "")


def budget_text(budget: Any) -> str:
    """A budget as `oboro ledger create` takes it."""
    facts = budget.unconditional.to_dict()
    flags = [f"--{name} {value}" for name, value in facts.items() if name != "kind"]
    return " ".join([*flags, *(f"--assume {shlex.quote(one)}" for one in budget.assumptions)])
