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
    │   └── NameTakenError     a release name that is spent, or belongs to another plan
    ├── PaidError              something failed after the plan was paid for: what it cost is spent
    │   └── StoredError        the release is stored in the ledger all the same, and can be had again at no cost
    └── CertificateError       a certificate that does not verify

None of them ever depends on a private value. Each carries its parts as attributes, so that a program
can show them in its own way:

    >>> ParameterError("eps must be positive", given="eps=0", needed="a number above 0", fix='eps="0.1"')
    ParameterError('eps must be positive')
"""

from __future__ import annotations

from oboro.language import left, plain, said


class OboroError(Exception):
    """What went wrong, what was given, what is needed, and the line that fixes it."""

    exit_code = 1

    def __init__(
        self, message: str, *, given: str | None = None, needed: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.given = given
        self.needed = needed
        self.fix = fix

    def __str__(self) -> str:
        """In the reader's language; the attributes stay English."""
        lines = [said(plain(self.message))]
        for label, part in (("given", self.given), ("needed", self.needed), ("fix", self.fix)):
            if part is not None:
                shown = said(plain(part))
                lines.append(f"  {left(said(label), 7)} " + shown.replace("\n", "\n" + " " * 10))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, str | None]:
        return {
            "error": type(self).__name__,
            "message": self.message,
            "given": self.given,
            "needed": self.needed,
            "fix": self.fix,
        }


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


class PaidError(OboroError):
    """Something failed after the plan was paid for. What it cost is spent."""

    exit_code = 6


class StoredError(PaidError):
    """Something failed after the release was stored. `oboro.release.fetch` gives it back, at no cost."""

    exit_code = 5


class CertificateError(OboroError):
    """A certificate that does not verify."""
