"""`ob.connect`: questions to a service, as to a session. It needs nothing of what a server needs.

    people = ob.connect("https://stat.example", token=...)["people 2026"]
    people.where("age >= 20").mean("income", eps="0.1")

Questions travel, and answers come back. Here they are checked: that the dataset's key signed the certificate, that the content is
what was certified, and that it is the answer to what was asked, by the plan that this side makes of the same public facts.
"""

from __future__ import annotations

import copy
import http.client
import json
import os
import secrets
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from urllib.parse import quote, urlsplit

from oboro import errors
from oboro.domain import Domain
from oboro.errors import CertificateError, OboroError, PaidError, ParameterError, setting, told
from oboro.exact import Number, positive, rational, show
from oboro.kinds import names_of, shown, takes, text_of
from oboro.privacy import guarantee_from, unit_from
from oboro.records import Record
from oboro.release import Forecast, Plan, Release
from oboro.service import answers
from oboro.service.made_up import made_up
from oboro.service.questions import Facts, build_of, plan_of
from oboro.service.settings import Limits
from oboro.statistics.session import Answer, Description, described

if TYPE_CHECKING:
    from oboro.arrays import Table
    from oboro.statistics import Ball
    from oboro.tables.tree.workload import Workload

Result = TypeVar("Result")
Said = str | int | float | None  # eps, rho, delta, expected_n, weight
_TRIES = 4


class ServiceError(OboroError):
    """The service cannot be reached, or said something that is not understood."""


@takes(address=text_of, token=text_of)
def connect(
    address: str, *, token: str | None = None, ca: str | Path | None = None, timeout: float = 60.0
) -> Service:
    """A service, by its address; the token is that of $OBORO_TOKEN if none is given.

    `ca` is the file of an authority of one's own that signed the service's certificate of TLS, where the system knows none.

    >>> ob.connect("stat.example", token="")
    Traceback (most recent call last):
        ...
    oboro.errors.ParameterError: address is not the address of a service
      given   address=stat.example
      needed  https:// and a host; http:// on this machine alone
      fix     "https://stat.example"
    """
    parts = urlsplit(address)
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme not in ("https", "http") or not parts.hostname or (parts.scheme == "http" and not local):
        raise ParameterError(
            "address is not the address of a service",
            given=told(address=address),
            needed="https:// and a host; http:// on this machine alone",
            fix='"https://stat.example"',
        )
    given = token if token is not None else os.environ.get("OBORO_TOKEN", "")
    return Service(address.rstrip("/"), _Line(address.rstrip("/"), given, timeout, _trusting(ca)))


def _trusting(ca: str | Path | None) -> ssl.SSLContext:
    """TLS as the system has it, or with an authority of one's own; never without a check."""
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ValueError):
        raise ParameterError(
            "ca is not the file of an authority",
            given=told(ca=shown(ca)),
            needed="certificates in PEM",
            fix=setting(ca="authority.pem"),
        ) from None


@dataclass(frozen=True, eq=False)
class Service:
    """A service that was connected to. `service["people 2026"]` is one of its datasets."""

    address: str
    _line: _Line = field(repr=False)

    @property
    def datasets(self) -> list[str]:
        """The names of the datasets that you may ask about."""
        return [one["name"] for one in self._line.get("/v1/datasets")]

    def __getitem__(self, name: str) -> Remote:
        return Remote(self._line, self._line.get(f"/v1/datasets/{quote(name, safe='')}"))


class _Line:
    """One connection, kept open; requests take turns."""

    def __init__(self, address: str, token: str, timeout: float, trusting: ssl.SSLContext) -> None:
        self._address, self._token, self._timeout = urlsplit(address), token, timeout
        self._trusting = trusting
        self._lock = threading.Lock()
        self._open: http.client.HTTPConnection | None = None

    def get(self, path: str) -> Any:
        return self.send("GET", path)

    def post(self, path: str, body: object, key: str | None = None) -> Any:
        return self.send("POST", path, body, key)

    def send(
        self, verb: str, path: str, body: object = None, key: str | None = None, *, raw: bool = False
    ) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        content = None
        if body is not None:
            content, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        status, found = self._sent(
            verb, f"{self._address.path}{path}", content, headers, again=verb == "GET" or key is not None
        )
        if status >= 400:
            raise _error(status, found)
        if raw:
            return found
        try:
            return json.loads(found)
        except ValueError:
            raise ServiceError(
                "the service said something that is not understood", given=f"status {status}"
            ) from None

    def _sent(
        self, verb: str, path: str, content: bytes | None, headers: dict[str, str], *, again: bool
    ) -> tuple[int, bytes]:
        for attempt in range(_TRIES):
            try:
                with self._lock:
                    line = self._connection()
                    line.request(verb, path, content, headers)
                    answer = line.getresponse()
                    status, found = answer.status, answer.read()
                if status == 429 and attempt + 1 < _TRIES:
                    time.sleep(min(10.0, float(answer.headers.get("Retry-After") or 1)))
                    continue
                return status, found
            except ssl.SSLCertVerificationError as error:
                with self._lock:
                    self._drop()
                raise ServiceError(
                    "the service is not who it says",
                    given=f"{self._address.geturl()}: {error.verify_message}",
                    needed="a certificate of TLS that this machine trusts",
                    fix='ob.connect("https://stat.example", token=..., ca="authority.pem")',
                ) from None
            except (OSError, http.client.HTTPException) as error:
                with self._lock:
                    self._drop()
                if not again or attempt + 1 == _TRIES:
                    raise ServiceError(
                        "the service cannot be reached",
                        given=f"{self._address.geturl()}: {type(error).__name__}",
                        needed="a service that runs at this address",
                    ) from None
                time.sleep(0.05 * 4**attempt)
        raise AssertionError  # pragma: no cover

    def _connection(self) -> http.client.HTTPConnection:
        if self._open is None:
            host, port = self._address.hostname or "", self._address.port
            if self._address.scheme == "https":
                self._open = http.client.HTTPSConnection(
                    host, port, timeout=self._timeout, context=self._trusting
                )
            else:
                self._open = http.client.HTTPConnection(host, port, timeout=self._timeout)
        return self._open

    def _drop(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _error(status: int, content: bytes) -> OboroError:
    """What the service refused, as the error that it is."""
    try:
        record = json.loads(content)
        kind = getattr(errors, str(record.get("error")), OboroError)
        kind = kind if isinstance(kind, type) and issubclass(kind, OboroError) else OboroError
        parts = {name: record.get(name) for name in ("given", "needed", "fix", "argument")}
        return kind(str(record["message"]), **parts)
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServiceError("the service refused", given=f"status {status}")


class Asking(Generic[Result]):
    """Questions about one dataset of a service. `where` and `by` narrow them; the rest asks."""

    _condition: str | None = None
    _groups: tuple[str, ...] = ()

    def _answer(self, question: Record) -> Result:
        raise NotImplementedError  # pragma: no cover

    def where(self, condition: str) -> Self:
        """Only rows that meet a condition, such as "age >= 20 and region = 'north'"."""
        other = copy.copy(self)
        object.__setattr__(
            other,
            "_condition",
            condition if self._condition is None else f"({self._condition}) and ({condition})",
        )
        return other

    @takes(columns=names_of)
    def by(self, *columns: str) -> Self:
        """One answer for each value of a column, or for each combination of several."""
        other = copy.copy(self)
        object.__setattr__(other, "_groups", (*self._groups, *columns))
        return other

    def _ask(self, question: str, asked: Mapping[str, object], **parts: object) -> Result:
        said: Record = {"question": question, **parts}
        for name, value in asked.items():
            if name not in ("eps", "rho", "delta", "expected_n", "weight"):
                raise ParameterError(
                    f"{question} has no argument {name!r} here",
                    given=told(**{name: shown(value)}),
                    needed="eps, rho, expected_n: a service finds an answer by its question, not by a name",
                )
            said[name] = value if name == "expected_n" else _number(value)
        if self._condition is not None:
            said["where"] = self._condition
        if self._groups:
            said["by"] = list(self._groups)
        return self._answer({name: value for name, value in said.items() if value is not None})

    def count(self, **asked: Said) -> Result:
        """How many rows; with groups, how many in each."""
        return self._ask("count", asked)

    def persons(self, **asked: Said) -> Result:
        """How many persons, each counted once; with groups, how many in each."""
        return self._ask("persons", asked)

    def sum(self, columns: str | Sequence[str], *, ball: Ball | None = None, **asked: Said) -> Result:
        """The sum of a column, or of several at once."""
        return self._ask("sum", asked, columns=_names(columns), ball=_ball(ball))

    def mean(self, columns: str | Sequence[str], *, ball: Ball | None = None, **asked: Said) -> Result:
        """The mean of a column, or of several at once."""
        return self._ask("mean", asked, columns=_names(columns), ball=_ball(ball))

    def covariance(self, columns: Sequence[str], *, ball: Ball | None = None, **asked: Said) -> Result:
        """The covariances of all pairs of columns."""
        return self._ask("covariance", asked, columns=_names(columns), ball=_ball(ball))

    def variance(self, column: str, **asked: Said) -> Result:
        """The variance of a column."""
        return self._ask("variance", asked, columns=[column])

    def median(self, column: str, *, method: str | None = None, **asked: Said) -> Result:
        """The value that half of the rows lie below."""
        return self._ask("median", asked, columns=[column], method=method)

    def quantile(
        self, column: str, quantiles: Number | Sequence[Number], *, method: str | None = None, **asked: Said
    ) -> Result:
        """The values at one or more quantiles between 0 and 1."""
        listed = (
            list(quantiles)
            if isinstance(quantiles, Sequence) and not isinstance(quantiles, str)
            else [quantiles]
        )
        said = [_number(each) for each in listed]
        return self._ask("quantile", asked, columns=[column], quantiles=said, method=method)

    def histogram(self, columns: str | Sequence[str], *, edges: Any = None, **asked: Said) -> Result:
        """How many rows have each value, or lie in each interval between edges."""
        names = _names(columns)
        cut = None if edges is None else edges if isinstance(edges, dict) else {names[0]: edges}
        said = None if cut is None else {name: [_edge(edge) for edge in each] for name, each in cut.items()}
        return self._ask("histogram", asked, columns=names, edges=said)

    def top(self, column: str, k: int, **asked: Said) -> Result:
        """The k most frequent values of a column."""
        return self._ask("top", asked, columns=[column], k=k)

    def mode(self, column: str, **asked: Said) -> Result:
        """The most frequent value of a column."""
        return self._ask("mode", asked, columns=[column])

    def sql(self, text: str, **asked: Said) -> Result:
        """What a statement of SQL asks: one table, one price. It is read on both sides, so the extra `sql` is needed here too."""
        if self._condition is not None or self._groups:
            raise ParameterError(
                "a statement says everything itself",
                given="where or by",
                needed="WHERE and GROUP BY in the statement",
            )
        return self._ask("sql", asked, sql=text)

    def table(
        self,
        *,
        workload: Workload | None = None,
        columns: Sequence[str] | None = None,
        strategy: str | None = None,
        **asked: Said,
    ) -> Result:
        """A table of counts of every cell of the domain, or of some of its columns, for what readers will ask."""
        if self._condition is not None or self._groups:
            raise ParameterError(
                "a table counts all rows",
                given="where or by",
                needed="a workload, and the columns that it is about",
            )
        return self._ask(
            "table",
            asked,
            columns=None if columns is None else list(columns),
            strategy=strategy,
            workload=None if workload is None else workload.as_record(None),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Remote(Asking[Release]):
    """One dataset of a service: a session, as far as questions go."""

    _line: _Line
    _described: Record

    @property
    def name(self) -> str:
        return str(self._described["name"])

    @cached_property
    def facts(self) -> Facts:
        """What is public: all that a plan is made of."""
        found = self._described
        limits = {name: value for name, value in found["limits"].items() if name in Limits.__slots__}
        return Facts(
            found["name"],
            Domain.from_dict(found["domain"]),
            unit_from(found["unit"]),
            found["n"],
            found["count"],
            found["edition"],
            Limits(**limits),
            found["table"],
        )

    @property
    def domain(self) -> Domain:
        return self.facts.domain

    @property
    def forecast(self) -> RemoteForecasts:
        """The same questions, answered by the error that is to be expected: free."""
        return RemoteForecasts(self.facts, self._condition, self._groups)

    @property
    def plan(self) -> RemotePlans:
        """The same questions, answered by the plan that the service will make of them."""
        return RemotePlans(self.facts, self._condition, self._groups)

    def eps_for(self, within: float) -> RemotePrices:
        """The same questions, answered by the eps at which 95% of errors stay within so much: free."""
        return RemotePrices(self, within, self._condition, self._groups)

    def made_up(self, rows: int, *, seed: int = 0) -> Table:
        """Rows made from the domain alone, to develop with."""
        return made_up(self.facts.domain, self.facts.unit, rows, seed=seed, count=self.facts.count)

    def describe(self) -> Description:
        """Public facts only: who is protected, what is declared, what is left of the budget and of your account."""
        object.__setattr__(self, "_described", self._line.get(self._path()))
        found = self._described
        facts = {"dataset": self.name, "edition": found["edition"], "unit": str(self.facts.unit)}
        if found["n"] is not None:
            facts["n"] = f"{found['n']:,} (public under replace)"
        facts |= {
            "budget": str(guarantee_from(found["budget"])),
            "left": str(guarantee_from(found["remaining"])),
        }
        if (own := found["account"]) is not None:
            per = "" if own["per"] is None else f" a {own['per']}"
            facts["yours"] = (
                f"{guarantee_from(own['available'])} now, of {guarantee_from(own['amount'])}{per}"
            )
        return Description(facts, tuple(described(column) for column in self.facts.domain))

    def batch(
        self, *, eps: Number | None = None, delta: Number | None = None, rho: Number | None = None
    ) -> RemoteBatch:
        """Several questions for one price. They are asked when the block ends."""
        price = {"eps": eps, "delta": delta, "rho": rho}
        return RemoteBatch(
            self,
            {name: _number(value) for name, value in price.items() if value is not None},
            self._condition,
            self._groups,
        )

    def _path(self, rest: str = "") -> str:
        return f"/v1/datasets/{quote(self.name, safe='')}{rest}"

    def _answer(self, question: Record) -> Release:
        expected, _ = plan_of(question, self.facts)  # what cannot be asked is refused here
        found = self._line.post(self._path("/questions"), question, secrets.token_hex(16))
        while found["state"] == "pending":
            time.sleep(0.2 if found["due_in"] is None else found["due_in"] + 0.002)
            found = self._line.get(f"/v1/questions/{found['id']}")
        if found["state"] == "waiting":
            raise ServiceError(
                "the question waits for a steward's approval",
                given=found["id"],
                needed="patience: asked again when it is approved, it gives the answer",
            )
        if found["state"] == "declined":
            raise ServiceError("a steward declined the question; nothing was spent", given=found["id"])
        if found["state"] == "lost":
            raise PaidError(
                "the answer was lost; what it cost is spent",
                given=found["id"],
                needed="the same question, asked and paid for again",
            )
        answer = found["answer"] or self._line.get(f"/v1/questions/{found['id']}/release")
        return self._checked(answer, expected, found["id"])

    def _checked(self, answer: Record, expected: Plan, number: str) -> Release:
        known = self._described

        def sign(message: bytes) -> bytes:
            """The service signs what it can make itself: the certificate of a file of this answer."""
            wanted = json.loads(message)
            name = wanted["file"]["name"]
            for how in ("", "&not_negative=true") if expected.has_counts else ("",):
                made = self._line.get(f"/v1/questions/{number}/certificate?file={quote(name, safe='')}{how}")
                signature = bytes.fromhex(made.pop("signature"))
                if made == wanted:
                    return signature
            raise CertificateError(
                "the service would write another file",
                given=name,
                needed="the same version of oboro on both sides",
            )

        release = answers.unpacked(
            answer, sign, public_key=known["public_key"], dataset=known["name"], ledger=known["ledger"]
        )
        if release.plan != expected:
            raise CertificateError(
                "the certificate is about another question",
                given=str(release.plan.describe()["released"]),
                needed=str(expected.describe()["released"]),
            )
        return release

    def __repr__(self) -> str:
        return f"Remote(dataset={self.name!r}, unit={self.facts.unit!r}, columns={list(self.facts.domain.names)})"


@dataclass(frozen=True, eq=False)
class RemotePlans(Asking[Plan]):
    """Questions that are answered by their plan."""

    facts: Facts
    _condition: str | None = None
    _groups: tuple[str, ...] = ()

    def _answer(self, question: Record) -> Plan:
        return plan_of(question, self.facts)[0]


@dataclass(frozen=True, eq=False)
class RemoteForecasts(Asking[Forecast]):
    """Questions that are answered by a forecast."""

    facts: Facts
    _condition: str | None = None
    _groups: tuple[str, ...] = ()

    def _answer(self, question: Record) -> Forecast:
        return plan_of(question, self.facts)[0].forecast()


@dataclass(frozen=True, eq=False)
class RemotePrices(Asking[str]):
    """Questions that are answered by the eps that they need."""

    remote: Remote
    within: float
    _condition: str | None = None
    _groups: tuple[str, ...] = ()

    def _answer(self, question: Record) -> str:
        found = self.remote._line.post(
            self.remote._path("/forecast"), {"question": question, "target": {"within": self.within}}
        )
        return str(found["question"]["eps"])


@dataclass(frozen=True, eq=False)
class RemoteBatch(Asking[Answer]):
    """Questions that are collected, and asked together at the end of a `with` block."""

    remote: Remote
    price: Record
    _condition: str | None = None
    _groups: tuple[str, ...] = ()
    _asked: list[tuple[Record, Answer]] = field(default_factory=list)
    _released: list[Release] = field(default_factory=list)

    @property
    def question(self) -> Record:
        return {"question": "batch", "questions": [question for question, _ in self._asked], **self.price}

    @property
    def forecast(self) -> Forecast:
        """The split, and the error of each answer: free."""
        return plan_of(self.question, self.remote.facts)[0].forecast()

    @property
    def release(self) -> Release:
        """What was released, when the block has ended."""
        if not self._released:
            raise ParameterError("the batch has not been asked yet", needed="the end of its block")
        return self._released[0]

    def __enter__(self) -> RemoteBatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or not self._asked:
            return
        release = self.remote._answer(self.question)
        table = release.to_arrow()
        for place, (_, answer) in enumerate(self._asked):
            answer.answered(place, table)
        self._released.append(release)

    def _answer(self, question: Record) -> Answer:
        if "eps" in question or "rho" in question:
            raise ParameterError(
                "a batch has one price for all its questions",
                given="eps or rho",
                needed="a weight, if a question matters more than others",
                fix='batch.mean("income", weight=2)',
            )
        # refuses what cannot be asked, now and not at the end
        plan_of({**question, "eps": "1"}, self.remote.facts)
        answer = Answer(
            build_of(question, self.remote.facts), positive("weight", question.get("weight") or 1)
        )
        self._asked.append((question, answer))
        return answer


def _names(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def _number(value: Any) -> Any:
    """A number as it travels: exact."""
    if isinstance(value, str) or value is None:
        return value
    return show(rational("number", value))


def _edge(value: Any) -> Any:
    return (
        value if isinstance(value, str | int) else _number(value) if isinstance(value, float) else str(value)
    )


def _ball(ball: Ball | None) -> Record | None:
    if ball is None:
        return None
    return {
        "norm": ball.norm,
        "radius": show(ball.radius),
        **({} if ball.origin is None else {"origin": [show(each) for each in ball.origin]}),
    }
