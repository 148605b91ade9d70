"""Every error that oboro raises.

    OboroError
    ├── InputError             what public facts decide: refused before anything is reserved
    │   ├── ParameterError     a number or word that cannot be used (eps <= 0, an unknown name)
    │   ├── DomainError        the domain does not describe what is asked of it
    │   │   └── BoundsError    a column without bounds
    │   ├── UnitError          the unit does not fit
    │   ├── GuaranteeError     a guarantee that cannot be converted, composed or accounted
    │   └── DataError          data that cannot be opened, or lacks a column
    ├── BudgetError            the budget does not cover the plan
    ├── LedgerError            the ledger cannot be used
    │   ├── TamperError        its chain does not verify
    │   ├── NameTakenError     a release name that is spent, or belongs to another plan
    │   └── AccountError       an account that may not pay: no grant, or no approval
    ├── PaidError              something failed after the plan was paid for: what it cost is spent
    │   └── StoredError        the release is stored in the ledger all the same, and can be had again at no cost
    └── CertificateError       a certificate that does not verify

None of them ever depends on a private value. Each carries its parts as attributes, and names the `argument` that it is
about, so that a program can show them in its own way:

>>> import oboro as ob
>>> from oboro.errors import ParameterError, setting, told
>>> error = ParameterError("eps must be positive", given=told(eps="0"), fix=setting(eps="0.1"))
>>> error.argument, error.fix
('eps', 'eps="0.1"')
"""

from __future__ import annotations

import re
from typing import Any

from oboro.language import Lines, left, plain, said, without_password

Settings = tuple[tuple[str, str, object], ...]  # fragment of a text, argument, value


class Setting(str):
    """Arguments with their values, among other words: `eps="0.1", delta="1e-6"`.

    Its text is Python. Whoever is spoken to in other words reads `settings`: each fragment of the text, with the argument and
    the value that it stands for.
    """

    __slots__ = ("settings",)
    settings: Settings

    def __new__(cls, text: str, settings: Settings = ()) -> Setting:
        made = super().__new__(cls, text)
        made.settings = settings
        return made

    def __add__(self, other: str) -> Setting:
        return Setting(str(self) + str(other), (*self.settings, *getattr(other, "settings", ())))

    def __radd__(self, other: str) -> Setting:
        return Setting(str(other) + str(self), self.settings)


def setting(**values: object) -> Setting:
    """What to hand over: `setting(eps="0.1")` is the line `eps="0.1"`."""
    return _setting({name: (_written(value), value) for name, value in values.items()})


def told(**texts: str) -> Setting:
    """What was handed over, or a piece of Python, as it is: `told(eps="0")` is `eps=0`."""
    return _setting({name: (text, text.strip("\"'")) for name, text in texts.items()})


def question(word: str, column: str) -> Setting:
    """Another question to ask: `question("median", "day")` is the line `people.median("day", eps="0.1")`."""
    line = f'people.{word}({_written(column)}, eps="0.1")'
    return Setting(line, ((line, "question", f"{word} {column}"),))


def asked(name: str, value: str | tuple[int, int]) -> Setting:
    """A part of a table to ask for: `asked("town", "a")` is the line `{'town': 'a'}`, and `town=a` where it is typed."""
    import shlex

    line = _written({name: value})
    shown = value if isinstance(value, str) else f"{value[0]}..{value[1]}"
    return Setting(line, ((line, "question", shlex.quote(f"{name}={shown}")),))


def _setting(values: dict[str, tuple[str, object]]) -> Setting:
    settings = tuple((f"{name}={text}", name, value) for name, (text, value) in values.items())
    return Setting(", ".join(fragment for fragment, _, _ in settings), settings)


class Declaration(str):
    """A column as it is declared: `ob.Integer("age", 0, 120)`. Its `record` is the same as a table of a TOML file."""

    __slots__ = ("record",)
    record: dict[str, object]

    @property
    def toml(self) -> Lines:
        """The same as a `[[columns]]` table."""
        import json

        written = {key: json.dumps(value, ensure_ascii=False) for key, value in self.record.items()}
        return Lines("\n".join(["[[columns]]", *(f"{key} = {plain(text)}" for key, text in written.items())]))


def declaration(kind: str, **record: Any) -> Declaration:
    """`declaration("integer", name="age", low=0, high=120)` is the line `ob.Integer("age", 0, 120)`."""
    values = [
        f"{name}={_written(value)}"
        if name in ("step", "shape", "level", "levels", "region", "missing", "table")
        else _written(value)
        for name, value in record.items()
        if name != "names"
    ]
    names = [_written(name) for name in record.get("names", ())]
    made = Declaration(f"ob.{kind.capitalize()}({', '.join([*names, *values])})")
    made.record = {"kind": kind, **record}
    return made


def _written(value: object) -> str:
    """A value as a line of Python has it."""
    if isinstance(value, str):
        return f'"{value}"'
    if value is ...:
        return "..."
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_plainly(key)}: {_written(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if not type(value).__module__.startswith("oboro."):
        return _plainly(value)
    inner = re.sub(r"(?<=\()(?:Pure|Approx|ZCDP|Renyi)(?=\()", r"ob.\g<0>", repr(value))  # of a condition
    return f"ob.{inner}"


def _plainly(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # a whole number of more digits than Python writes
        return "..."


class OboroError(Exception):
    """What went wrong, what was given, what is needed, and the line that fixes it.

    >>> try:
    ...     ob.Pure(-1)
    ... except ob.OboroError as error:
    ...     print(error)
    eps must not be negative
      given   eps=-1
      needed  0 or more
      fix     eps="0.1"
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        given: str | None = None,
        needed: str | None = None,
        fix: str | None = None,
        argument: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.given = given
        self.needed = needed
        self.fix = fix
        self.argument = argument or _only(given) or _only(fix)

    def __str__(self) -> str:
        """In the reader's language; the attributes stay English."""
        lines = [said(plain(self.message))]
        for label, part in (("given", self.given), ("needed", self.needed), ("fix", self.fix)):
            if part is not None:
                shown = said(plain(part))
                lines.append(f"  {left(said(label), 7)} " + shown.replace("\n", "\n" + " " * 10))
        return without_password("\n".join(lines))

    def to_dict(self) -> dict[str, str | None]:
        return {
            "error": type(self).__name__,
            "message": self.message,
            "given": self.given,
            "needed": self.needed,
            "fix": self.fix,
            "argument": self.argument,
        }


def _only(part: str | None) -> str | None:
    """The argument that a part names, if it names one."""
    names = {name for _, name, _ in getattr(part, "settings", ())}
    return names.pop() if len(names) == 1 else None


class InputError(OboroError, ValueError):
    """Input that is refused for reasons that anyone may know."""

    exit_code = 4


class ParameterError(InputError):
    """A number or word that cannot be used."""


class DomainError(InputError):
    """The domain does not describe what is asked of it."""


class BoundsError(DomainError):
    """A column without bounds."""


class UnitError(InputError):
    """The unit does not fit what is asked of it."""


class GuaranteeError(InputError):
    """A guarantee that cannot be converted, composed or accounted."""


class DataError(InputError):
    """Data that cannot be opened, or lacks a column."""


class BudgetError(OboroError):
    """The budget does not cover the plan. Nothing was spent."""

    exit_code = 3


class LedgerError(OboroError):
    """The ledger cannot be used."""


class TamperError(LedgerError):
    """The chain of the ledger does not verify."""


class NameTakenError(LedgerError):
    """A release name that is spent, or belongs to another plan."""

    exit_code = 4


class AccountError(LedgerError):
    """An account that may not pay: it has no grant, or nobody approved."""

    exit_code = 3


class PaidError(OboroError):
    """Something failed after the plan was paid for. What it cost is spent. `stored`: whether the ledger has the release; None: perhaps."""

    exit_code = 6
    stored: bool | None = False


class StoredError(PaidError):
    """Something failed after the release was stored. `oboro.release.fetch` gives it back, at no cost."""

    exit_code = 5
    stored = True


class CertificateError(OboroError):
    """A certificate that does not verify."""
