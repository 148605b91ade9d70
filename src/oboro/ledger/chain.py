"""Entries, and how each is tied to the one before it.

    hash       SHA-256 of (a version tag, the hash before, position, kind, body), one to a line
    signature  Ed25519 over the hash, by the key that was in force; a change of keys is signed by the new key
               too, or a stranger could hand a history of their own over to our key

The body carries the state after the entry: `spent`, the total, and `key`, the public key that signs what
comes next. So the last entry alone says whether a plan can be paid for, however long the history is. It
also carries `root`, the hash of entry 0: budget and unit cannot be exchanged under a history.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from oboro.errors import ParameterError
from oboro.kinds import shown, takes, text_of
from oboro.ledger.keys import verify_signature
from oboro.ledger.periods import PERIODS, UNUSED, carried, now_after
from oboro.privacy import Guarantee, guarantee_from, unit_from
from oboro.records import Record

# What a signed record looks like: the kind of each of its parts, checked where its bytes are read.
#
# A signature says who wrote something, not that it makes sense: anybody can sign a time that is no time. So whatever
# comes from a ledger, an export or a certificate is compared with its form first, part by part, and who works with it
# afterwards finds what the form says, or nothing.
#
# A form is one of
#
#     str, int, dict      a value of exactly this kind; what is inside a table is not looked at
#     a pattern           a text that fits it
#     a function          one that reads the value, and raises ValueError where it cannot (as every InputError is one)
#     a tuple             one of several forms
#     a list of one form  a list, each of its values of this form
#     a table             the same names and no others, each with its form; a name that ends in "?" may be missing

DEEPEST = 100  # tables and lists within one another: far beyond any plan, and far from where Python gives up
_LARGEST = 2**62  # of a whole number that a database keeps

HASH = re.compile(r"[0-9a-f]{64}")  # also a public key, which is as long
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)

Form = Any
_NO_LIST = object()  # fits no form


def misfit(value: object, form: Form, where: str = "") -> str | None:
    """The first part that is missing, unknown or not of its form, by its name; None if all is well."""
    if isinstance(form, dict):
        if (quick := _quick.get(id(form))) is not None and quick(value):
            return None
        return _in_table(value, form, where)
    if isinstance(form, list):
        each = value if type(value) is list else [_NO_LIST]
        return next((wrong for one in each if (wrong := misfit(one, form[0], where)) is not None), None)
    return None if _fits(value, form) else where


def _in_table(value: object, form: dict[str, Form], where: str) -> str | None:
    if type(value) is not dict:
        return where
    before = f"{where}." if where else ""
    for name in value:
        if type(name) is not str or name[-1:] == "?" or (name not in form and f"{name}?" not in form):
            return f"{before}{name}"
    for spelt, one in form.items():
        name = spelt[:-1] if spelt[-1] == "?" else spelt
        if name not in value:
            if spelt == name:
                return f"{before}{name}"
        elif type(value[name]) is not one and (wrong := misfit(value[name], one, name)) is not None:
            return f"{before}{wrong}"
    return None


def _fits(value: object, form: Form) -> bool:
    if isinstance(form, type):
        return type(value) is form
    if isinstance(form, tuple):
        return any(misfit(value, one) is None for one in form)
    if isinstance(form, re.Pattern):
        return isinstance(value, str) and form.fullmatch(value) is not None
    try:
        form(value)
    except ValueError:
        return False
    return True


_quick: dict[
    int, Callable[[object], bool]
] = {}  # of the forms of all bodies and facts, which are there for good


def quick(form: dict[str, Form]) -> dict[str, Form]:
    """The form itself, of which is told quickly from now on that a table fits it: what is wrong is for `misfit` to find."""
    parts = [(name.removesuffix("?"), name[-1] == "?", one, _plain(one)) for name, one in form.items()]

    def fits(value: object) -> bool:
        if type(value) is not dict:
            return False
        left = len(value)
        for name, optional, one, matches in parts:
            if name not in value:
                if optional:
                    continue
                return False
            left -= 1
            held = value[name]
            if type(held) is one or (matches is not None and type(held) is str and matches(held)):
                continue
            if matches is not None or misfit(held, one) is not None:
                return False
        return left == 0 and {*map(type, value)} == {str}

    _quick[id(form)] = fits
    return form


def _plain(form: Form) -> Callable[[str], object] | None:
    return form.fullmatch if isinstance(form, re.Pattern) else None


def writable(value: object, deepest: int = DEEPEST) -> bool:
    """Whether a value can be written, read and shown by all: not nested without end, and no half letters in its texts."""
    try:
        if _plainly(json.dumps(value), deepest):
            return True
    except (ValueError, TypeError, RecursionError):
        pass
    return all(depth <= deepest and _encodes(text) for depth, text in _texts(value))


def _plainly(text: str, deepest: int = DEEPEST) -> bool:
    """As nearly every record in ASCII: so few brackets are not nested deeper, and no letter is half of one."""
    return text.count("[") + text.count("{") <= deepest and "\\ud" not in text


def _texts(value: object) -> Iterator[tuple[int, str]]:
    """How deep each table and list is, and each text that is in it; without recursion, for there may be no end of it."""
    waiting: list[tuple[int, object]] = [(0, value)]
    while waiting:
        depth, one = waiting.pop()
        if isinstance(one, str):
            yield depth, one
        elif isinstance(one, dict | list | tuple):
            yield depth + 1, ""
            inner = [*one, *one.values()] if isinstance(one, dict) else one
            waiting.extend((depth + 1, part) for part in inner)


def _encodes(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)


# What functions of a form read.


def a_time(value: object) -> datetime:
    """A moment, to the second, as every entry has one."""
    if isinstance(value, str) and _TIME.fullmatch(value):
        return datetime.fromisoformat(value)
    raise ValueError(value)


def a_number(value: object) -> int:
    """How many, or at which place."""
    if type(value) is int and 0 <= value <= _LARGEST:
        return value
    raise ValueError(value)


def nothing(value: object) -> None:
    if value is not None:
        raise ValueError(value)


def _known(read: Callable[[object], object]) -> Callable[[object], object]:
    """The same form, but of what was read before it is only asked whether it is the same: nothing that was read is kept."""

    @lru_cache(maxsize=256)
    def checked(parts: tuple[tuple[str, str], ...]) -> None:
        read(dict(parts))

    def form(value: object) -> object:
        if type(value) is dict and {*map(type, value), *map(type, value.values())} == {str}:
            return checked(tuple(value.items()))
        return read(value)

    return form


def worded(read: Callable[[object], object]) -> Callable[[object], object]:
    """A promise or a unit with words beside it."""

    def both(value: object) -> object:
        if type(value) is not dict or type(value.get("in_words")) is not str:
            raise ValueError(value)
        return read({name: part for name, part in value.items() if name != "in_words"})

    return both


# An entry, and its body by its kind. `schema` came with 0.2: a ledger without it is of schema 1.

_guarantee, _unit = _known(guarantee_from), _known(unit_from)
_PER, _UNUSED = re.compile("|".join(PERIODS)), re.compile("|".join(UNUSED))
# `period`: what was spent in the period of the entry's own time, where the ledger has periods
_STATE: dict[str, Form] = {
    "spent": _guarantee,
    "key": HASH,
    "time": a_time,
    "period?": {"per": _PER, "spent": _guarantee},
}
_ACCOUNT: dict[str, Form] = {
    "name": str,
    "spent": _guarantee,
    "grant": (a_number, nothing),
    "since": _guarantee,
    "lately": _guarantee,
}
_LATER = {**_STATE, "root": HASH}
_DECIDED: dict[str, Form] = {
    "asker": str,
    "plan_hash": HASH,
    "edition": (str, nothing),
    "cost": _guarantee,
    "by": str,
}
BODIES: dict[str, dict[str, Form]] = {
    "create": {
        **_STATE,
        "id": re.compile(r"[0-9a-f]{32}"),
        "schema?": a_number,
        "dataset": str,
        "unit": _unit,
        "budget": _guarantee,
        "periods?": {"per": _PER, "instalment": _guarantee, "unused": _UNUSED},
    },
    "reserve": {
        **_LATER,
        "name": (str, nothing),
        "plan": dict,
        "plan_hash": HASH,
        "unit": _unit,
        "guarantee": _guarantee,
        "cost": _guarantee,
        "account?": _ACCOUNT,
        "edition?": str,
        "approval?": a_number,
        "ticks?": a_number,  # a series: paid for at once, drawn tick by tick
    },
    "tick": {**_LATER, "series": a_number, "series_hash": HASH, "tick": a_number},
    "commit": {
        **_LATER,
        "reservation": a_number,
        "reservation_hash": HASH,
        "size": a_number,
        "sha256": HASH,
        "facts": dict,
    },
    "key": {**_LATER, "replaces": HASH},
    "grant": {
        **_LATER,
        "account": _ACCOUNT,
        "terms": {
            "amount": _guarantee,
            "per": (_PER, nothing),
            "unused": _UNUSED,
            "approve_above": (_guarantee, nothing),
            "by": (str, nothing),
        },
    },
    "revoke": {**_LATER, "account": _ACCOUNT, "by": (str, nothing)},
    "approve": {**_LATER, **_DECIDED},
    "decline": {**_LATER, **_DECIDED, "why": (str, nothing)},
    "upgrade": {**_LATER, "from": a_number, "schema": a_number, "software": str},
}
for _body in BODIES.values():
    quick(_body)
ENTRY: dict[str, Form] = {
    "position": a_number,
    "kind": re.compile("|".join(BODIES)),
    "body": dict,
    "previous": HASH,
    "hash": HASH,
    "signature": str,
}


def _refuse(number: str) -> None:
    raise ValueError(f"{number} has more than one spelling")


_WRITES = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
_READS = json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse)


# One text for one value: JSON with sorted keys, no spaces, ASCII only, and no floats.
#
# A hash is only as good as the text that it is taken of. Two programs that hold the same plan must write
# the same bytes, today and in ten years, so numbers that print differently from machine to machine are
# refused: exact rationals are written as text.


def canonical(value: object, name: str = "value") -> str:
    """The canonical JSON text of `value`; `name` is how an error calls it.

    >>> ob.ledger.canonical({"b": [1, "two"], "a": None})
    '{"a":null,"b":[1,"two"]}'
    """
    return written(value, name)[0]


def written(value: object, name: str = "value") -> tuple[str, Any]:
    """The canonical text, and what it reads as: the same value, which nobody else holds."""
    try:
        text = _WRITES.encode(value)
        if _plainly(text) and (read := _READS.decode(text)) == value:
            return (
                text,
                read,
            )  # as nearly every record: JSON gives back what it is, and no number in it is a float
    except (ValueError, TypeError, RecursionError):
        pass  # it is said below what is wrong
    try:
        _check(value, name)
        text = _WRITES.encode(value)
        return text, json.loads(text)
    except ParameterError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise ParameterError(f"{name} cannot be written as JSON", given=str(error)) from None


def laid_out(record: Record, indent: int) -> bytes:
    """A record as the file that people can open: the one form in which a signed page goes out."""
    return (json.dumps(record, ensure_ascii=False, indent=indent) + "\n").encode()


def read_laid_out(content: bytes, indent: int) -> Record | None:
    """The record that `laid_out` made a file of, to the byte but for the order of names; None for everything else.

    JSON has many readings: of a name that stands there twice one program takes the first and another the last. A
    signature covers what we read. So nothing is accepted but the bytes that we write ourselves for what we read. In
    which order the names stand is for the kind of page to say, and to check.
    """
    try:
        record = json.loads(content.decode("utf-8"), parse_float=_refuse, parse_constant=_refuse)
        sound = isinstance(record, dict) and writable(
            record, DEEPEST + 3
        )  # an export has bodies in entries in a list
        same = sound and laid_out(record, indent) == content
    except (ValueError, RecursionError):
        return None
    return record if same else None


def in_order(record: Record) -> Record:
    """The same record, all of its names in their alphabetical order."""
    ordered: Record = json.loads(json.dumps(record, sort_keys=True))
    return ordered


def is_hex(text: object, size: int) -> bool:
    """Whether a text is `size` bytes in the one way that we write them."""
    return isinstance(text, str) and re.fullmatch(rf"[0-9a-f]{{{2 * size}}}", text) is not None


def plan_hash(plan: dict[str, object]) -> str:
    """What tells one plan from another: the SHA-256 of its canonical text.

    >>> ob.ledger.plan_hash({"a": 1, "b": 2}) == ob.ledger.plan_hash({"b": 2, "a": 1})
    True
    """
    return sha256(canonical(plan, "plan").encode())


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _is_plain(value: object) -> bool:
    return (type(value) is str and value.isascii()) or value is None or type(value) in (int, bool)


def _check(value: object, name: str, depth: int = 0) -> None:
    if isinstance(value, str):
        if value.isascii() or writable(value):
            return
        raise ParameterError(
            f"{name} holds half a letter", given=shown(value), needed="a text that can be written"
        )
    if value is None or isinstance(value, bool | int):
        return
    if depth >= DEEPEST:
        raise ParameterError(
            "the record is nested too deeply",
            given=f"{name[:40]}...",
            needed=f"at most {DEEPEST} tables and lists within one another",
        )
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if not _is_plain(item):
                _check(item, f"{name}[{index}]", depth + 1)
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ParameterError(
                    f"{name} has a key that is not a text", given=repr(key), fix=f"{key!r} as a text"
                )
            if not key.isascii():
                _check(key, name)
            if not _is_plain(item):
                _check(item, f"{name}.{key}", depth + 1)
        return
    raise ParameterError(
        f"{name} cannot be kept in a ledger",
        given=f"{type(value).__name__} {value!r}"[:80],
        needed="texts, whole numbers, true, false, null, and lists and tables of them",
        fix='an exact number as a text, such as "0.1" or "1/3"',
    )


TAG = "oboro ledger entry 1"
NO_HASH = "0" * 64  # what stands before the first entry
_SIGNATURE = 64  # bytes of one Ed25519 signature


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the account. It is never changed and never taken back.

    >>> first = ledger.history()[0]
    >>> first.position, first.kind, first.spent
    (0, 'create', Pure(0))
    """

    position: int
    kind: str
    body: Record
    previous: str
    hash: str
    signature: str

    @property
    def time(self) -> datetime:
        """When it was written, by the clock of the machine that wrote it, and never before the entry before it.

        Entries of schema 1 and 2 may go back in time.
        """
        return datetime.fromisoformat(self.body["time"])

    @property
    def name(self) -> str | None:
        """The name of the release that was reserved, if it has one."""
        return self.body.get("name")

    @property
    def account(self) -> str | None:
        """The account that it is about, if it is about one."""
        found = self.body["account"]["name"] if "account" in self.body else self.body.get("asker")
        return found if found is None else str(found)

    @property
    def cost(self) -> Guarantee | None:
        """What a reservation took, in the currency of the ledger."""
        return guarantee_from(self.body["cost"]) if self.kind == "reserve" else None

    @property
    def spent(self) -> Guarantee:
        """What had been spent after this entry, in all."""
        return guarantee_from(self.body["spent"])

    @property
    def head(self) -> Head:
        return Head(self.position, self.hash)

    def to_dict(self) -> dict[str, object]:
        return {
            "position": self.position,
            "kind": self.kind,
            "body": self.body,
            "previous": self.previous,
            "hash": self.hash,
            "signature": self.signature,
        }


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry, in one line. Kept elsewhere, it shows later that nothing before it was cut off or replaced.

    >>> head = ledger.head()
    >>> ob.ledger.Head.parse(str(head)) == head, ledger.verify(head).entries
    (True, 1)
    """

    position: int
    hash: str

    @classmethod
    @takes(text=text_of)
    def parse(cls, text: str) -> Head:
        """Reads what `str(head)` wrote, such as "12:9f86d0..."."""
        found = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", text.strip())
        if found is None:
            raise ParameterError(
                "the head is not one", given=text[:80], needed="position:hash, as `export` prints it"
            )
        return cls(int(found[1]), found[2])

    def to_dict(self) -> dict[str, object]:
        return {"position": self.position, "hash": self.hash}

    def __str__(self) -> str:
        return f"{self.position}:{self.hash}"


def seal(
    before: Entry | None,
    kind: str,
    facts: Mapping[str, object],
    *keys: Ed25519PrivateKey,
    time: datetime | None = None,
) -> tuple[Entry, str, Entry]:
    """The next entry after `before`, signed by `keys`, the text of its body, and the entry again, of which nobody holds a part.

    What `facts` do not set is carried over.

    `time` is `now_after` the entry before, where something was decided by it.
    """
    kept: dict[str, object] = {}
    time = time or now_after(None if before is None else before.time)
    if before is not None:
        # a copy: `before` may be kept, and what is sealed is handed out
        kept = {"spent": _copied(before.body["spent"]), "key": before.body["key"], "root": root_of(before)}
        if "period" in before.body:
            kept["period"] = deepcopy(carried(before.body["period"], before.time, time))
    body = {**kept, **facts, "time": f"{time.isoformat()[:19]}Z"}
    position = 0 if before is None else before.position + 1
    previous = NO_HASH if before is None else before.hash
    text, read = written(body, "the entry")
    digest = entry_hash(previous, position, kind, text)
    signature = b"".join(key.sign(_signed(digest)) for key in keys).hex()
    made, own = (Entry(position, kind, one, previous, digest, signature) for one in (body, read))
    return made, text, own


def _copied(amount: Record) -> Record:
    """A copy of what a body carries over; nearly every amount is a table of texts."""
    return {**amount} if {*map(type, amount.values())} == {str} else deepcopy(amount)


def entry_hash(previous: str, position: int, kind: str, body: str) -> str:
    """The hash of an entry whose body has this canonical text."""
    return sha256("\n".join((TAG, previous, str(position), kind, body)).encode())


def odd(entry: Entry, text: str | None = None) -> str | None:
    """What in an entry is not what a ledger writes, whoever signed it; None if nothing is. Asked wherever one is read.

    `text`: the canonical text of the body, if `seal` has made the entry a moment ago: then the rest of it is what it is to be.
    """
    wrong = misfit(entry.to_dict(), ENTRY) if text is None or entry.kind not in BODIES else None
    if wrong is None and not ((text is not None and _plainly(text)) or writable(entry.body)):
        wrong = "body"
    return wrong or misfit(entry.body, BODIES[entry.kind], "body")


def root_of(entry: Entry) -> str:
    """The hash of entry 0, as any entry knows it."""
    return entry.hash if entry.position == 0 else str(entry.body["root"])


def signer_of(entry: Entry) -> str:
    """The public key that was in force when an entry was signed. A change of keys names the one that it replaces."""
    return str(entry.body["replaces"] if entry.kind == "key" else entry.body["key"])


def fault(entry: Entry, text: str) -> str | None:
    """What is wrong with an entry taken by itself, or None. `text` is its body as it is stored."""
    if canonical(entry.body) != text:
        return "its body is not in canonical form"
    if entry_hash(entry.previous, entry.position, entry.kind, text) != entry.hash:
        return "its hash does not belong to its contents"
    signers = [signer_of(entry), *([str(entry.body["key"])] if entry.kind == "key" else [])]
    if not is_hex(entry.signature, _SIGNATURE * len(signers)):
        return "its signature is not in canonical form"
    signature, message = bytes.fromhex(entry.signature), _signed(entry.hash)
    pieces = [signature[start : start + _SIGNATURE] for start in range(0, len(signature), _SIGNATURE)]
    if not all(
        verify_signature(signer, message, piece) for signer, piece in zip(signers, pieces, strict=True)
    ):
        return "its signature is not by the key that it names"
    return None


def _signed(digest: str) -> bytes:
    return f"{TAG}\n{digest}".encode()
