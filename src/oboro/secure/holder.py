"""P1, the holder of the key: makes urns, and opens what was drawn from them, once.

What P1 sees is one renewed ciphertext. It decrypts to answer + noise, and is otherwise uniform: it does not show which
entries were drawn, though P1 made them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oboro.noise.bits import Bits, system_bits
from oboro.noise.draws import permutation
from oboro.secure import elgamal, group, messages, opening
from oboro.secure.answer import checked_bounds
from oboro.secure.elgamal import CIPHERTEXT, SecretKey
from oboro.secure.group import POINT
from oboro.secure.noise_plan import NoisePlan
from oboro.secure.shelf import Shelf
from oboro.secure.trouble import PeerError

NAME = 32  # bytes
_TOGETHER = 256  # entries that are sent at a time, so that the other party can check while we encrypt


@dataclass(frozen=True, slots=True)
class Holder:
    """P1: a noise plan, the secret key, and the shelf that says which urns were used."""

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
        number = opening.find(
            elgamal.number_point(self.secret, ciphertext), low + law.lowest, high + law.highest
        )
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
            for start in range(0, len(order), _TOGETHER):
                yield b"".join(
                    elgamal.encrypt_own(self.secret, scalars[entries[index]], bits)
                    for index in order[start : start + _TOGETHER]
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
