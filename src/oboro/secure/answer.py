"""An encrypted answer: a number between public bounds, under the public key of the party that will open it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oboro.domain.columns import number_of
from oboro.errors import ParameterError
from oboro.exact import whole
from oboro.files import write_whole
from oboro.kinds import path_of, takes
from oboro.noise.bits import Bits, system_bits
from oboro.secure import elgamal, messages
from oboro.secure.group import POINT, checked_point
from oboro.secure.opening import check_range

LARGEST = 2**53


@dataclass(frozen=True, slots=True)
class Answer:
    """A ciphertext with what is public about it: its key and its bounds."""

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


def clamped_to(number: Any, low: int, high: int) -> int:
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
