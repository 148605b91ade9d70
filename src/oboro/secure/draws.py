"""A draw: a noise plan bound to a unit and to the bounds of an answer. It runs at P2, which holds the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.domain import Column
from oboro.errors import ParameterError, told
from oboro.kinds import takes
from oboro.noise.bits import Bits
from oboro.noise.draws import uniform_integer, uniform_integers
from oboro.privacy import Conditional, Unit
from oboro.records import write
from oboro.release import Forecast, Pair, Part, Plan, Weighted, register
from oboro.secure import elgamal, messages
from oboro.secure.answer import Answer, checked_bounds, clamped_to
from oboro.secure.elgamal import CIPHERTEXT
from oboro.secure.group import POINT
from oboro.secure.holder import NAME, check_same, urns_size
from oboro.secure.noise_plan import NoisePlan
from oboro.secure.opening import check_range
from oboro.secure.shelf import Shelf

ASSUMPTION = (
    "the two parties follow the protocol and do not collude, and decisional Diffie-Hellman is hard on ed25519"
)
_TOGETHER = 256 * CIPHERTEXT  # bytes that are checked at a time


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

    def encoded(self, table: Any, ending: str) -> bytes:
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

    def random_pair(self, random: Any) -> Pair:
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

    def publish(self, measured: Any) -> Any:
        import pyarrow as pa

        if isinstance(measured, bytes):
            return pa.table({"sealed": [measured.hex()]})
        return pa.table({"value": pa.array([int(measured)], pa.int64())})

    @property
    def intervals(self) -> Any:  # type: ignore[override]
        return self._intervals if self.opened else None

    def _intervals(self, table: Any, level: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The range that holds the true answer with this probability; the bounds are known."""
        low, high = self.noise.law.interval(level)
        value = table.column("value").to_numpy()
        return np.clip(value - high, self.low, self.high), np.clip(value - low, self.low, self.high)

    def describe(self) -> dict[str, Any]:
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
    """Binds a noise plan to who is protected and to the answer's public bounds."""
    return DrawPlan(noise, *checked_bounds(low, high), unit, opened)


def read_urns(read: messages.Read, noise: NoisePlan, public: bytes) -> tuple[bytes, bytes]:
    """Name and entries of fresh urns. All entries are checked, not only those that will be drawn: which of them a
    party stumbles over must not depend on its indices."""
    rest, head, entries = b"", b"", []
    for part in messages.receive_parts(read, messages.URNS, urns_size(noise), _TOGETHER):
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
