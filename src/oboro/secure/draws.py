"""A draw: a noise plan bound to a unit and to the bounds of an answer. It runs at P2, which holds the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oboro.domain import Column
from oboro.domain.columns import number_of
from oboro.errors import ParameterError, told
from oboro.exact import whole
from oboro.files import write_whole
from oboro.kinds import path_of, takes
from oboro.noise.bits import Bits, system_bits
from oboro.noise.draws import permutation, uniform_integer, uniform_integers
from oboro.privacy import Conditional, Unit
from oboro.records import write
from oboro.release import Forecast, Pair, Part, Plan, Weighted, register
from oboro.secure import elgamal, group, messages
from oboro.secure.elgamal import CIPHERTEXT, SecretKey
from oboro.secure.group import POINT, PeerError, checked_point
from oboro.secure.noise_plan import NoisePlan
from oboro.secure.party import Shelf

if TYPE_CHECKING:
    from oboro.arrays import Table

# From m G back to m: baby steps and giant steps over a public range.
#
# A point and its negative differ in one bit of their 32 bytes, so a table of B multiples of the base point recognises
# 2 B + 1 numbers. The table of sqrt(8 R) multiples for a range of R is made once, by `make_ready` while there is time;
# then an opening takes at most a sixteenth as many steps.
# The time depends on the number found, which is the noisy answer: public.

LARGEST_RANGE = 2**34
_LARGEST_TABLE = 2**17
_SIGN = 0x80


def check_range(low: int, high: int) -> None:
    """Refuses a range that could not be searched."""
    if high < low or high - low >= LARGEST_RANGE:
        raise ParameterError(
            "the range of the noisy answer cannot be searched",
            given=f"{low} to {high}",
            needed=f"at most {LARGEST_RANGE:,} values, the noise included",
            fix="narrower bounds, or a coarser step of the answer",
        )


def make_ready(low: int, high: int) -> None:
    """Makes the table for a range before it is needed."""
    check_range(low, high)
    _multiples(_reach(low, high))


def find(point: bytes, low: int, high: int) -> int | None:
    """The m in [low, high] with m G = point, or None."""
    check_range(low, high)
    reach = _reach(low, high)
    table = _multiples(reach)
    stride = group.base(group.scalar_of(2 * reach + 1))
    centre = low + reach
    rest = group.subtract(point, group.base(group.scalar_of(centre)))
    while centre - reach <= high:
        j = table.get(_unsigned(rest))
        if j is not None:
            found = centre + j if rest == group.base(group.scalar_of(j)) else centre - j
            return found if low <= found <= high else None
        rest = group.subtract(rest, stride)
        centre += 2 * reach + 1
    return None


def _reach(low: int, high: int) -> int:
    return min(_LARGEST_TABLE, high - low + 1, isqrt(8 * (high - low + 1)) + 1)


@lru_cache(maxsize=4)
def _multiples(reach: int) -> dict[bytes, int]:
    """0, 1, ..., reach times the base point, without their signs."""
    table, one, point = {group.IDENTITY: 0}, group.base(group.scalar_of(1)), group.IDENTITY
    for j in range(1, reach + 1):
        point = group.add(point, one)
        table[_unsigned(point)] = j
    return table


def _unsigned(point: bytes) -> bytes:
    return point[:31] + bytes([point[31] & ~_SIGN])


# An encrypted answer: a number between public bounds, under the public key of the party that will open it.

LARGEST = 2**53


@dataclass(frozen=True, slots=True)
class Answer:
    """A ciphertext with what is public about it: its key and its bounds.

    >>> _ = ob.secure.create("carrier")
    >>> public = ob.secure.load_public("carrier.public")
    >>> one = ob.secure.Answer.encrypt(1200, low=0, high=10_000, public=public)
    >>> both = one + ob.secure.Answer.encrypt(34, low=0, high=10_000, public=public)
    >>> both.low, both.high
    (0, 20000)
    """

    public: bytes
    low: int
    high: int
    ciphertext: bytes

    @classmethod
    @takes(public=bytes)
    def encrypt(cls, number: int, *, low: int, high: int, public: bytes, bits: Bits | None = None) -> Answer:
        """Clamps a number to its bounds and encrypts it. The bounds must be known without looking at the data."""
        low, high, public = *checked_bounds(low, high), checked_point(public, "the public key")
        clamped = clamped_to(number, low, high)
        return cls(public, low, high, elgamal.encrypt(public, clamped, bits or system_bits()))

    def __add__(self, other: Answer) -> Answer:
        """The encrypted sum; its bounds are the sums of the bounds."""
        if self.public != other.public:
            raise ParameterError(
                "answers under different keys cannot be added",
                given=f"{self.public.hex()[:16]}... and {other.public.hex()[:16]}...",
                needed="one public key",
                fix="encrypt both for the party that will open the sum",
            )
        low, high = checked_bounds(self.low + other.low, self.high + other.high)
        return Answer(self.public, low, high, elgamal.add(self.ciphertext, other.ciphertext))

    def save(self, path: str | Path) -> None:
        body = self.public + messages.BOUNDS.pack(self.low, self.high) + self.ciphertext
        write_whole(Path(path), messages.pack(messages.ANSWER, body))

    @classmethod
    @takes(path=path_of)
    def load(cls, path: str | Path) -> Answer:
        """Reads an answer file; every byte is checked."""
        body = messages.unpack(messages.ANSWER, messages.read_file(path))
        messages.check_size(body, POINT + messages.BOUNDS.size + elgamal.CIPHERTEXT, str(path))
        public = checked_point(body[:POINT], "the public key")
        low, high = checked_bounds(*messages.BOUNDS.unpack_from(body, POINT))
        cipher = elgamal.checked_ciphertext(body[-elgamal.CIPHERTEXT :], "the answer")
        return cls(public, low, high, cipher)


def clamped_to(number: object, low: int, high: int) -> int:
    """Towards 0 to a whole number, then to the bounds. What is not a number counts as the lower bound.

    The number is private, so nothing about it is refused: not its kind, nor its size.
    """
    found = number_of(number)
    return low if found is None else max(low, min(high, int(found)))


def checked_bounds(low: int, high: int) -> tuple[int, int]:
    """Whole numbers in order, close enough to be searched."""
    low = whole("low", low, least=-LARGEST, most=LARGEST)
    high = whole("high", high, least=-LARGEST, most=LARGEST)
    check_range(low, high)
    return low, high


# P1, the holder of the key: makes urns, and opens what was drawn from them, once.
#
# What P1 sees is one renewed ciphertext. It decrypts to answer + noise, and is otherwise uniform: it does not show which
# entries were drawn, though P1 made them all.

NAME = 32  # bytes
_HELD_TOGETHER = 256  # entries that are sent at a time, so that the other party can check while we encrypt


@dataclass(frozen=True, slots=True)
class Holder:
    """P1: a noise plan, the secret key, and the shelf that says which urns were used.

    >>> from pathlib import Path
    >>> _ = ob.secure.create("carrier")
    >>> shelf = ob.secure.Shelf(Path("carrier.urns"))
    >>> holder = ob.secure.Holder(noise, ob.secure.load_secret("carrier.secret"), shelf)
    >>> name, parts = holder.urns()
    >>> len(name)
    32
    """

    noise: NoisePlan
    secret: SecretKey
    shelf: Shelf

    def urns(self, bits: Bits | None = None, *, kept: bool = True) -> tuple[bytes, Iterator[bytes]]:
        """Fresh shuffled encrypted urns: their name, and the message in parts.

        They are on the shelf before the first byte is out. `kept=False` is for urns that only the present connection
        may open: those count as used from the start, whatever happens to it.
        """
        self.noise.check_sendable()
        bits = bits or system_bits()
        name = bits.words(NAME // 8).tobytes()
        self.shelf.put(name, self.noise.hash, used=not kept)
        return name, messages.pack_parts(messages.URNS, urns_size(self.noise), self._parts(name, bits))

    def open(self, message: bytes, *, only: bytes | None = None) -> tuple[bytes, int]:
        """The name of the urns and the noisy answer of a DRAWN message, once; `only` names urns of a connection."""
        body = messages.unpack(messages.DRAWN, message)
        return self.open_body(body, only=only)

    def open_body(self, body: bytes, *, only: bytes | None = None) -> tuple[bytes, int]:
        messages.check_size(body, 2 * NAME + POINT + messages.BOUNDS.size + CIPHERTEXT, "the drawn answer")
        name, plan, public = body[:NAME], body[NAME : 2 * NAME], body[2 * NAME : 2 * NAME + POINT]
        low, high = checked_bounds(*messages.BOUNDS.unpack_from(body, 2 * NAME + POINT))
        ciphertext = elgamal.checked_ciphertext(body[-CIPHERTEXT:], "the drawn answer")
        check_same("plan", plan, bytes.fromhex(self.noise.hash))
        check_same("key", public, self.secret.public)
        if only is None:
            self.shelf.use(name, self.noise.hash)  # before the key is used
        else:
            check_same("name of the urns", name, only)
        law = self.noise.law
        number = find(elgamal.number_point(self.secret, ciphertext), low + law.lowest, high + law.highest)
        if number is None:
            raise PeerError(
                "what was drawn cannot be opened",
                needed="an answer clamped to its bounds, encrypted for this key",
                fix="oboro secure encrypt, and fresh urns",
            )
        return name, number

    def _parts(self, name: bytes, bits: Bits) -> Iterator[bytes]:
        yield name + bytes.fromhex(self.noise.hash) + self.secret.public
        for urn in self.noise.sent:
            entries = urn.entries()
            scalars = {value: group.scalar_of(value) for value in set(entries)}
            order = permutation(len(entries), bits).tolist()
            for start in range(0, len(order), _HELD_TOGETHER):
                yield b"".join(
                    elgamal.encrypt_own(self.secret, scalars[entries[index]], bits)
                    for index in order[start : start + _HELD_TOGETHER]
                )


def urns_size(noise: NoisePlan) -> int:
    """Bytes in the body of an URNS message."""
    return 2 * NAME + POINT + CIPHERTEXT * sum(urn.size for urn in noise.sent)


def check_same(what: str, given: bytes, needed: bytes) -> None:
    """Refuses a message that speaks of another plan, key or urns."""
    if given != needed:
        raise PeerError(
            f"the message is about another {what}",
            given=f"{given.hex()[:16]}...",
            needed=f"{needed.hex()[:16]}...",
            fix="the same plan and key on both sides",
        )


ASSUMPTION = (
    "the two parties follow the protocol and do not collude, and decisional Diffie-Hellman is hard on ed25519"
)
_DRAWN_TOGETHER = 256 * CIPHERTEXT  # bytes that are checked at a time


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a draw runs on: the encrypted answer, where urns come from, and who opens what was drawn.

    Without `settle` the drawn answer is released encrypted, as a message for P1, and opened later.
    """

    answer: Answer
    read: Callable[[], messages.Read]  # begins, and gives what URNS is read from
    shelf: Shelf
    settle: Callable[[bytes, bytes], int] | None = None  # takes the urns' name and the DRAWN message


@dataclass(frozen=True, slots=True)
class Ready:
    """An exchange whose urns have arrived, were checked, and are marked as used."""

    answer: Answer
    name: bytes
    entries: bytes
    settle: Callable[[bytes, bytes], int] | None


@register
@dataclass(frozen=True)
class DrawPlan(Plan):
    """An answer between public bounds, plus noise that neither party knows.

    Privacy
        The answer is clamped to its bounds, and one unit moves it by at most `noise.sensitivity`: that is declared by
        whoever makes the plan, since nobody can check it on a ciphertext. Answer plus noise is (eps, delta)-DP by
        the exact delta(eps) of the urns. P2 sees ciphertexts, its own indices and the result. Each urn was shuffled by P1
        and is drawn from once, so given the indices the noise still has its law. P1 sees the result and a renewed
        ciphertext of it, which is uniform given the result. Hence both hold the promise to anyone, if the parties follow
        the protocol, do not collude, and cannot solve decisional Diffie-Hellman on ed25519.

    >>> plan = ob.secure.draw_plan(noise, low=0, high=10_000, unit=ob.Unit.row())
    >>> plan.parts[0].moves, plan.parts[0].costs
    (Fraction(1, 1), Approx(1, '1/3721'))
    """

    noise: NoisePlan
    low: int
    high: int
    unit: Unit
    opened: bool = True  # False: released encrypted, for P1 to open later
    kind = "secure.draw"
    leaves_out = "covers the noise; not errors in the answer, nor its clamping"

    @property
    def readable(self) -> bool:
        return self.opened

    @property
    def formats(self) -> tuple[str, ...]:
        """A sealed answer is the message for P1, in a file of any name."""
        return super().formats if self.opened else ()

    @property
    def footnote(self) -> str | None:
        return (
            None
            if self.opened
            else "still encrypted: P1, whose urns these were, opens it (oboro secure open)"
        )

    def encoded(self, table: Table, ending: str) -> bytes:
        if self.opened:
            return super().encoded(table, ending)
        return bytes.fromhex(table.column("sealed")[0].as_py())

    def check(self) -> None:
        self.noise.check_sendable()
        checked_bounds(self.low, self.high)
        check_range(self.low + self.noise.law.lowest, self.high + self.noise.law.highest)

    @cached_property
    def guarantee(self) -> Conditional:
        return Conditional(self.noise.promise, ASSUMPTION)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(self.noise.law, "answer", Fraction(self.noise.sensitivity), self.noise.kept),)

    def added(self) -> Weighted:
        """A plain number gets the sum of one entry of each urn: weights that are whole numbers."""
        law = self.noise.law

        def weights(prepared: int) -> dict[int, int]:
            return {prepared + law.lowest + i: weight for i, weight in enumerate(law.weights) if weight}

        return Weighted(
            weights, lambda prepared, bits, trials: prepared + self._from_urns(prepared, bits, trials)
        )

    @property
    def reads(self) -> tuple[Column, ...]:
        return ()

    def random_pair(self, random: np.random.Generator) -> Pair:
        """A random answer, and one as far from it as a unit may move it."""
        low = int(random.integers(self.low, self.high + 1))
        far = min(low + self.noise.sensitivity, self.high)
        return Pair(low, far, "a random answer, moved as far as it may be")

    def _from_urns(self, prepared: int, bits: Bits, trials: int) -> npt.NDArray[np.int64]:
        noise = np.zeros(trials, np.int64)
        for urn in self.noise.sent:
            noise += _values(urn.entries())[uniform_integers(urn.size, trials, bits)]
        return noise

    def forecast(self) -> Forecast:
        law = self.noise.law
        row = ("answer", law.sd, float(law.mean_abs), law.interval(0.95)[1])
        return Forecast(
            "expected error of the answer",
            ("of the", "standard error", "mean |error|", "95% within ±"),
            (row,),
            (f"noise from {law.lowest} to {law.highest}, drawn from {len(self.noise.sent)} urns",),
        )

    def prepare(self, data: Exchange | int) -> Ready | int:
        """Takes fresh urns and checks every byte. A plain number is clamped: for one party, and for the audit."""
        if not isinstance(data, Exchange):
            return clamped_to(data, self.low, self.high)
        answer = data.answer
        check_range(self.low + self.noise.law.lowest, self.high + self.noise.law.highest)
        if (answer.low, answer.high) != (self.low, self.high):
            raise ParameterError(
                "the answer has other bounds than the plan",
                given=f"{answer.low} to {answer.high}",
                needed=f"{self.low} to {self.high}",
            )
        name, entries = read_urns(data.read(), self.noise, answer.public)
        data.shelf.claim(name, self.noise.hash)  # before the reservation: whatever fails later, they are used
        return Ready(answer, name, entries, data.settle if self.opened else None)

    def measure(self, prepared: Ready | int, bits: Bits, trials: int | None = None) -> Any:
        if isinstance(prepared, int):
            noise = self._from_urns(prepared, bits, 1 if trials is None else trials)
            return prepared + (noise if trials is not None else noise[0])
        if trials is not None:
            raise ParameterError(
                "encrypted urns are drawn from once", given=told(trials=f"{trials}"), fix="a plain number"
            )
        drawn = pack_drawn(self, prepared, draw(prepared, self.noise, bits))
        return drawn if prepared.settle is None else prepared.settle(prepared.name, drawn)

    def publish(self, measured: Any) -> Table:
        import pyarrow as pa

        if isinstance(measured, bytes):
            return pa.table({"sealed": [measured.hex()]})
        return pa.table({"value": pa.array([int(measured)], pa.int64())})

    @property
    def intervals(self) -> Any:  # type: ignore[override]
        return self._intervals if self.opened else None

    def _intervals(self, table: Table, level: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The range that holds the true answer with this probability; the bounds are known."""
        low, high = self.noise.law.interval(level)
        value = table.column("value").to_numpy()
        return np.clip(value - high, self.low, self.high), np.clip(value - low, self.low, self.high)

    def describe(self) -> dict[str, object]:
        return {
            "released": "an answer with noise from encrypted urns"
            + ("" if self.opened else ", still encrypted"),
            "noise": {
                "law": "sum of draws from urns",
                "urns": write(self.noise.sent),
                "sensitivity": str(self.noise.sensitivity),
                "plan": self.noise.hash,
            },
            "domain": {"low": self.low, "high": self.high},
        }

    def neighbours(self) -> Iterator[Pair]:
        """The two answers that one unit can hold furthest apart."""
        yield Pair(
            self.low,
            min(self.low + self.noise.sensitivity, self.high),
            "one unit moves the answer as far as it may",
        )


@takes(noise=NoisePlan, unit=Unit)
def draw_plan(noise: NoisePlan, *, low: int, high: int, unit: Unit, opened: bool = True) -> DrawPlan:
    """Binds a noise plan to who is protected and to the answer's public bounds.

    >>> plan = ob.secure.draw_plan(noise, low=0, high=10_000, unit=ob.Unit.row())
    >>> plan.guarantee.unconditional
    Approx(1, '0.001')
    >>> plan.guarantee.assumptions == (ob.secure.ASSUMPTION,)
    True
    """
    return DrawPlan(noise, *checked_bounds(low, high), unit, opened)


def read_urns(read: messages.Read, noise: NoisePlan, public: bytes) -> tuple[bytes, bytes]:
    """Name and entries of fresh urns. All entries are checked, not only those that will be drawn: which of them a
    party stumbles over must not depend on its indices."""
    rest, head, entries = b"", b"", []
    for part in messages.receive_parts(read, messages.URNS, urns_size(noise), _DRAWN_TOGETHER):
        rest += part
        if not head:
            head, rest = rest[: 2 * NAME + POINT], rest[2 * NAME + POINT :]
            check_same("plan", head[NAME : 2 * NAME], bytes.fromhex(noise.hash))
            check_same("key", head[2 * NAME :], public)
        whole = len(rest) - len(rest) % CIPHERTEXT
        for start in range(0, whole, CIPHERTEXT):
            entries.append(
                elgamal.checked_ciphertext(rest[start : start + CIPHERTEXT], "an entry of the urns")
            )
        rest = rest[whole:]
    return head[:NAME], b"".join(entries)


def draw(ready: Ready, noise: NoisePlan, bits: Bits) -> bytes:
    """Protocol 1, and what it lacks: one uniform entry of each urn, added to the answer, all of it renewed."""
    total, start = ready.answer.ciphertext, 0
    for urn in noise.sent:
        place = CIPHERTEXT * (start + uniform_integer(urn.size, bits))
        total = elgamal.add(total, ready.entries[place : place + CIPHERTEXT])
        start += urn.size
    # P1 knows every ciphertext that it made: without this it would recognise the entries in their sum
    return elgamal.renew(ready.answer.public, total, bits)


def pack_drawn(plan: DrawPlan, ready: Ready, ciphertext: bytes) -> bytes:
    """The message that P1 opens."""
    head = ready.name + bytes.fromhex(plan.noise.hash) + ready.answer.public
    return messages.pack(messages.DRAWN, head + messages.BOUNDS.pack(plan.low, plan.high) + ciphertext)


def _values(entries: list[int]) -> npt.NDArray[np.int64]:
    return np.asarray(entries, np.int64)
