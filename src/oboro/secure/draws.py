"""A draw: a noise plan bound to a unit and to the bounds of an answer. It runs at P2, which holds the answer.

A noise plan for a batch draws for several answers at once, all with the same bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oboro.domain import Column
from oboro.domain.columns import number_of
from oboro.errors import ParameterError, setting, told
from oboro.exact import whole
from oboro.files import write_whole
from oboro.kinds import path_of, takes
from oboro.noise.bits import Bits, system_bits
from oboro.noise.draws import permutation
from oboro.privacy import Conditional, Unit
from oboro.records import write
from oboro.release import Forecast, Pair, Part, Plan, Weighted, register
from oboro.secure import elgamal, group, wire
from oboro.secure.batch import MOST_OUTCOMES, different, joint_law, outcomes
from oboro.secure.elgamal import CIPHERTEXT, SecretKey
from oboro.secure.group import POINT, PeerError, check_range, checked_point, find
from oboro.secure.noise_plan import NoisePlan
from oboro.secure.party import Shelf

if TYPE_CHECKING:
    from oboro.arrays import Table

# An encrypted answer: a number between public bounds, under the public key of the party that will open it.

LARGEST = 2**53


@dataclass(frozen=True, slots=True)
class Answer:
    """A ciphertext with what is public about it: its key and its bounds.

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
        body = self.public + wire.BOUNDS.pack(self.low, self.high) + self.ciphertext
        write_whole(Path(path), wire.pack(wire.ANSWER, body))

    @classmethod
    @takes(path=path_of)
    def load(cls, path: str | Path) -> Answer:
        """Reads an answer file; every byte is checked."""
        body = wire.unpack(wire.ANSWER, wire.read_file(path))
        wire.check_size(body, POINT + wire.BOUNDS.size + elgamal.CIPHERTEXT, str(path))
        public = checked_point(body[:POINT], "the public key")
        low, high = checked_bounds(*wire.BOUNDS.unpack_from(body, POINT))
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
        return name, wire.pack_parts(wire.URNS, urns_size(self.noise), self._parts(name, bits))

    def open(
        self, message: bytes, *, only: bytes | None = None
    ) -> tuple[bytes, int] | tuple[bytes, tuple[int, ...]]:
        """The name of the urns and the noisy answer of a DRAWN message, once; for a batch all of its answers.

        `only` names urns of a connection.
        """
        name, numbers = self.open_body(wire.unpack(wire.DRAWN, message), only=only)
        return (name, numbers[0]) if self.noise.answers == 1 else (name, numbers)

    def open_body(self, body: bytes, *, only: bytes | None = None) -> tuple[bytes, tuple[int, ...]]:
        head = 2 * NAME + POINT + wire.BOUNDS.size
        wire.check_size(body, head + self.noise.answers * CIPHERTEXT, "the drawn answer")
        name, plan, public = body[:NAME], body[NAME : 2 * NAME], body[2 * NAME : 2 * NAME + POINT]
        low, high = checked_bounds(*wire.BOUNDS.unpack_from(body, 2 * NAME + POINT))
        drawn = [
            elgamal.checked_ciphertext(body[at : at + CIPHERTEXT], "the drawn answer")
            for at in range(head, len(body), CIPHERTEXT)
        ]
        check_same("plan", plan, bytes.fromhex(self.noise.hash))
        check_same("key", public, self.secret.public)
        if only is None:
            self.shelf.use(name, self.noise.hash)  # before the key is used
        else:
            check_same("name of the urns", name, only)
        law = self.noise.law
        numbers = []
        for one in drawn:
            number = find(elgamal.number_point(self.secret, one), low + law.lowest, high + law.highest)
            if number is None:
                raise PeerError(
                    "what was drawn cannot be opened",
                    needed="an answer clamped to its bounds, encrypted for this key",
                    fix="oboro secure encrypt, and fresh urns",
                )
            numbers.append(number)
        return name, tuple(numbers)

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
    return 2 * NAME + POINT + CIPHERTEXT * noise.entries_sent


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


Settle = Callable[[bytes, bytes], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a draw runs on: the encrypted answers, where urns come from, and who opens what was drawn.

    Without `settle` the drawn answer is released encrypted, as a message for P1, and opened later.
    """

    answers: tuple[Answer, ...]
    read: Callable[[], wire.Read]  # begins, and gives what URNS is read from
    shelf: Shelf
    settle: Settle | None = None  # takes the urns' name and the DRAWN message


@dataclass(frozen=True, slots=True)
class Ready:
    """An exchange whose urns have arrived, were checked, and are marked as used."""

    answers: tuple[Answer, ...]
    name: bytes
    entries: bytes
    settle: Settle | None


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

        Of a batch one unit moves one answer, by at most `noise.sensitivity`: that too is declared. All noisy answers together
        are one part, which costs the joint delta(eps) of `oboro.secure.batch`. They share urns, so the costs of single
        answers would not add up to it.

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
        of = "answer" if self.noise.answers == 1 else f"{self.noise.answers} answers together"
        return (Part(self.noise.law, of, Fraction(self.noise.sensitivity), self.noise.kept),)

    def added(self) -> Weighted | None:
        """A plain number gets the sum of one entry of each urn: weights that are whole numbers."""
        law, answers = self.noise.law, self.noise.answers
        if answers > 1 and outcomes(self.noise.sent, answers) > MOST_OUTCOMES:
            return None
        if answers > 1:
            return Weighted(
                self._joint_weights,
                lambda prepared, bits, trials: np.asarray(prepared) + self._from_urns(bits, trials),
            )

        def weights(prepared: int) -> dict[int, int]:
            return {prepared + law.lowest + i: weight for i, weight in enumerate(law.weights) if weight}

        return Weighted(weights, lambda prepared, bits, trials: prepared + self._from_urns(bits, trials))

    def _joint_weights(self, prepared: tuple[int, ...]) -> dict[tuple[int, ...], int]:
        """The weight of every outcome of a batch."""
        law, base = self.noise.law, len(self.noise.law.weights)
        places = [base**i for i in range(len(prepared))]
        return {
            tuple(
                true + law.lowest + index // place % base
                for true, place in zip(prepared, places, strict=True)
            ): weight
            for index, weight in enumerate(joint_law(self.noise.sent, len(prepared), base).weights)
            if weight
        }

    @property
    def reads(self) -> tuple[Column, ...]:
        return ()

    def random_pair(self, random: np.random.Generator) -> Pair:
        """A random answer, and one as far from it as a unit may move it."""
        low = int(random.integers(self.low, self.high + 1))
        far = min(low + self.noise.sensitivity, self.high)
        return self._pair(low, far, "a random answer, moved as far as it may be")

    def _pair(self, one: int, other: int, why: str) -> Pair:
        """Two neighbours: of a batch one unit moves one answer."""
        rest = (one,) * (self.noise.answers - 1)
        return Pair((one, *rest), (other, *rest), why) if rest else Pair(one, other, why)

    def _from_urns(self, bits: Bits, trials: int) -> npt.NDArray[np.int64]:
        """Noise for so many trials: one column for each answer of a batch."""
        noise = np.zeros((trials, self.noise.answers), np.int64)
        for urn in self.noise.drawn:
            noise += _values(urn.entries())[different(urn.size, self.noise.answers, trials, bits)]
        return noise if self.noise.answers > 1 else noise[:, 0]

    def forecast(self) -> Forecast:
        law, noise = self.noise.law, self.noise
        row = ("answer", law.sd, float(law.mean_abs), law.interval(0.95)[1])
        return Forecast(
            "expected error of the answer" if noise.answers == 1 else "expected error of each answer",
            ("of the", "standard error", "mean |error|", "95% within ±"),
            (row,),
            (
                f"noise from {law.lowest} to {law.highest}, drawn from {len(noise.sent)} urns",
                f"{noise.entries_sent:,} entries are sent, {CIPHERTEXT * noise.entries_sent:,} bytes",
            ),
        )

    def prepare(self, data: Exchange | int | Sequence[object]) -> Ready | int | tuple[int, ...]:
        """Takes fresh urns and checks every byte. Plain numbers are clamped: for one party, and for the audit."""
        if not isinstance(data, Exchange):
            if self.noise.answers == 1:
                return clamped_to(data, self.low, self.high)
            given: list[object] = list(data) if isinstance(data, Sequence | np.ndarray) else [data]
            given += [None] * (
                self.noise.answers - len(given)
            )  # one that is missing is as one that is no number
            return tuple(clamped_to(one, self.low, self.high) for one in given[: self.noise.answers])
        check_range(self.low + self.noise.law.lowest, self.high + self.noise.law.highest)
        if len(data.answers) != self.noise.answers:
            raise ParameterError(
                "the plan is for another number of answers",
                given=f"{len(data.answers)} answers",
                needed=f"{self.noise.answers}",
                fix="a noise plan for as many: " + setting(answers=max(1, len(data.answers))),
            )
        first = data.answers[0]
        for answer in data.answers:
            check_same("key", answer.public, first.public)
            if (answer.low, answer.high) != (self.low, self.high):
                raise ParameterError(
                    "the answer has other bounds than the plan",
                    given=f"{answer.low} to {answer.high}",
                    needed=f"{self.low} to {self.high}",
                )
        name, entries = read_urns(data.read(), self.noise, first.public)
        data.shelf.claim(name, self.noise.hash)  # before the reservation: whatever fails later, they are used
        return Ready(data.answers, name, entries, data.settle if self.opened else None)

    def measure(self, prepared: Ready | int | tuple[int, ...], bits: Bits, trials: int | None = None) -> Any:
        if not isinstance(prepared, Ready):
            noise = self._from_urns(bits, 1 if trials is None else trials)
            noisy = np.asarray(prepared, np.int64) + noise
            return noisy if trials is not None else noisy[0]
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
        values = [int(value) for value in np.ravel(measured)]
        numbers = {} if len(values) == 1 else {"answer": pa.array(range(1, len(values) + 1), pa.int64())}
        return pa.table({**numbers, "value": pa.array(values, pa.int64())})

    @property
    def key_columns(self) -> tuple[str, ...]:
        return () if self.noise.answers == 1 else ("answer",)

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
            "released": (
                "an answer"
                if self.noise.answers == 1
                else f"a batch of {self.noise.answers} answers, of which one unit moves one,"
            )
            + " with noise from encrypted urns"
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
        yield self._pair(
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


def read_urns(read: wire.Read, noise: NoisePlan, public: bytes) -> tuple[bytes, bytes]:
    """Name and entries of fresh urns. All entries are checked, not only those that will be drawn: which of them a
    party stumbles over must not depend on its indices."""
    rest, head, entries = b"", b"", []
    for part in wire.receive_parts(read, wire.URNS, urns_size(noise), _DRAWN_TOGETHER):
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


def draw(ready: Ready, noise: NoisePlan, bits: Bits) -> list[bytes]:
    """Protocol 1, and what it lacks: one uniform entry of each urn, added to each answer, all of it renewed."""
    drawn = []
    for answer, picked in zip(ready.answers, noise.picked(bits), strict=True):
        total = answer.ciphertext
        for index in picked:
            total = elgamal.add(total, ready.entries[CIPHERTEXT * index : CIPHERTEXT * (index + 1)])
        # P1 knows every ciphertext that it made: without this it would recognise the entries in their sum
        drawn.append(elgamal.renew(answer.public, total, bits))
    return drawn


def pack_drawn(plan: DrawPlan, ready: Ready, ciphertexts: list[bytes]) -> bytes:
    """The message that P1 opens."""
    head = ready.name + bytes.fromhex(plan.noise.hash) + ready.answers[0].public
    bounds = wire.BOUNDS.pack(plan.low, plan.high)
    return wire.pack(wire.DRAWN, head + bounds + b"".join(ciphertexts))


def _values(entries: list[int]) -> npt.NDArray[np.int64]:
    return np.asarray(entries, np.int64)
