"""The protocol from both ends.

    P1 ─▶ P2   PLAN      public key and noise plan; P2 goes on if it is the plan that it has itself, to the byte
    P2 ─▶ P1   BEGIN     the hash of the plan, the bounds of the answer
    P1 ─▶ P2   URNS      fresh, shuffled, encrypted; P2 checks every point, marks them as used, and reserves
    P2 ─▶ P1   DRAWN     answer + one entry of each, renewed
    P1 ─▶ P2   OPENED    the noisy answer

By files the same happens with URNS, DRAWN and the opened number. What fails before P2's reservation spends nothing.

P2 pays, so P2 says what for: the noise plan, with its eps, delta and sensitivity, is P2's own copy of what both agreed
upon, and never what the other party sends.
"""

from __future__ import annotations

import hashlib
import io
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from oboro.errors import OboroError, ParameterError, told
from oboro.files import write_whole
from oboro.kinds import path_of, shown, takes, text_of
from oboro.ledger import Ledger, canonical
from oboro.noise.bits import Bits
from oboro.release import Release, run
from oboro.secure import group, wire
from oboro.secure.draws import (
    NAME,
    Answer,
    DrawPlan,
    Exchange,
    Holder,
    check_same,
    checked_bounds,
    draw_plan,
    urns_size,
)
from oboro.secure.group import POINT, PeerError, checked_point
from oboro.secure.noise_plan import NoisePlan
from oboro.secure.party import Shelf
from oboro.secure.wire import Channel, Identity

Tell = Callable[[str], None]
_PAUSE = 0.1  # seconds, after the system itself has refused


# -- P1 ------------------------------------------------------------------------------------------------------


def serve(
    holder: Holder,
    listener: socket.socket,
    identity: Identity,
    *,
    count: int | None = None,
    tell: Tell | None = None,
) -> None:
    """Serves one connection after another; after `count` of them, if it is given, returns."""
    tell = tell or (lambda text: None)
    while count is None or count > 0:
        try:  # one bad connection does not stop the others
            plain, _ = listener.accept()
            with wire.accepted(plain, identity) as channel:
                answer_one(holder, channel, tell)
        except OboroError as error:
            tell(f"refused: {error.message}")
        except (
            OSError
        ) as error:  # gone before it was taken, or no more open files: those that are open will close
            tell(f"refused: {error.strerror or 'the connection failed'}")
            time.sleep(_PAUSE)
        count = None if count is None else count - 1


def answer_one(holder: Holder, channel: Channel, tell: Tell, bits: Bits | None = None) -> None:
    """P1's part, once. Tells P2 why if it stops."""
    try:
        plan_text = canonical(holder.noise.to_dict()).encode()
        channel.send(wire.pack(wire.PLAN, holder.secret.public + plan_text))
        begin = wire.receive(channel.read, wire.BEGIN)
        wire.check_size(begin, NAME + wire.BOUNDS.size, "the beginning")
        check_same("plan", begin[:NAME], bytes.fromhex(holder.noise.hash))
        low, high = checked_bounds(*wire.BOUNDS.unpack_from(begin, NAME))
        law = holder.noise.law
        group.check_range(low + law.lowest, high + law.highest)
        name, parts = holder.urns(bits, kept=False)
        channel.send_all(parts)
        group.make_ready(low + law.lowest, high + law.highest)  # while P2 checks the urns
        drawn = wire.receive(channel.read, wire.DRAWN)
        _, numbers = holder.open_body(drawn, only=name)
        opened = b"".join(wire.NUMBER.pack(number) for number in numbers)
        channel.send(wire.pack(wire.OPENED, name + opened))
        tell(f"opened {', '.join(map(str, numbers))} from urns {name.hex()[:16]}")
    except OboroError as error:
        channel.refuse(error.message)
        raise


def write_urns(holder: Holder, path: str | Path, bits: Bits | None = None) -> bytes:
    """Fresh urns as a file for P2; returns their name.

    >>> name = ob.secure.write_urns(holder, "urns.bin")
    >>> len(name)
    32
    """
    name, parts = holder.urns(bits)
    write_whole(Path(path), b"".join(parts))
    return name


def open_file(holder: Holder, path: str | Path) -> tuple[bytes, int] | tuple[bytes, tuple[int, ...]]:
    """Opens a drawn answer that came as a file, once: the name of the urns and the noisy answer; for a batch all of them.

    >>> _ = ob.secure.write_urns(holder, "urns.bin")
    >>> answer = ob.secure.Answer.encrypt(1234, low=0, high=10_000, public=public)
    >>> used = ob.secure.Shelf(Path("city.urns"))
    >>> release = ob.secure.draw_from_file("urns.bin", answer, ledger, used, noise)
    >>> _ = release.save("drawn.bin")
    >>> name, opened = ob.secure.open_file(holder, "drawn.bin")
    >>> abs(opened - 1234) <= 10
    True
    """
    return holder.open(wire.read_file(path))


# -- P2 ------------------------------------------------------------------------------------------------------


def answers_of(name: str, value: object) -> tuple[Answer, ...]:
    """One answer, or a list of them for a batch: all of the same bounds and key."""
    found = (value,) if isinstance(value, Answer) else value
    if not isinstance(found, tuple | list) or not found or not all(isinstance(one, Answer) for one in found):
        raise ParameterError(
            f"{name} is not an encrypted answer",
            given=told(**{name: shown(value)}),
            needed="an answer, or a list of them for a batch",
            fix="ob.secure.Answer.load(...)",
        )
    bounds = {(one.low, one.high) for one in found}
    if len(bounds) > 1:
        raise ParameterError(
            "the answers of a batch have different bounds",
            given=", ".join(f"{low} to {high}" for low, high in sorted(bounds))[:100],
            needed="the same for all: their noise is the same",
            fix="the widest of them for each",
        )
    return tuple(found)


@takes(where=text_of, answer=answers_of, ledger=Ledger, identity=Identity, shelf=Shelf, noise=NoisePlan)
def draw(
    where: str,
    answer: Answer | Sequence[Answer],
    ledger: Ledger,
    identity: Identity,
    shelf: Shelf,
    noise: NoisePlan,
    *,
    name: str | None = None,
    bits: Bits | None = None,
) -> Release:
    """P2's part: reserves in the ledger, draws, and releases the opened number.

    `noise` is what P2 is ready to pay for: the plan that both agreed upon. A party that offers another is refused.
    With a noise plan for a batch, `answer` is a list.
    """
    held = answers_of("answer", answer)
    plan = draw_plan(noise, low=held[0].low, high=held[0].high, unit=ledger.unit)
    with connected(where, held, identity, shelf, plan) as exchange:
        return run(plan, exchange, ledger, name, bits=bits)


@contextmanager
def connected(
    where: str, answers: tuple[Answer, ...], identity: Identity, shelf: Shelf, plan: DrawPlan
) -> Iterator[Exchange]:
    """What `plan` runs on, from a party that listens and has the same noise plan."""
    with wire.connected(where, identity) as channel:
        try:
            _check_greeting(channel, answers[0], plan.noise)
            yield Exchange(answers, partial(_begin, channel, plan), shelf, partial(_settle, channel, plan))
        except OboroError:
            channel.refuse("the drawing party stopped")  # and not why: that may concern its ledger
            raise


@takes(urns=path_of, answer=answers_of, ledger=Ledger, shelf=Shelf, noise=NoisePlan)
def draw_from_file(
    urns: str | Path,
    answer: Answer | Sequence[Answer],
    ledger: Ledger,
    shelf: Shelf,
    noise: NoisePlan,
    *,
    name: str | None = None,
    bits: Bits | None = None,
) -> Release:
    """The same from a file of urns. What is released is the drawn answer, encrypted: P1 opens the file that it is saved as.

    >>> _ = ob.secure.write_urns(holder, "urns.bin")
    >>> answer = ob.secure.Answer.encrypt(1234, low=0, high=10_000, public=public)
    >>> used = ob.secure.Shelf(Path("city.urns"))
    >>> release = ob.secure.draw_from_file("urns.bin", answer, ledger, used, noise)
    >>> _ = release.save("drawn.bin")
    >>> ledger.remaining.unconditional
    Approx(0, 0)
    """
    held = answers_of("answer", answer)
    plan = draw_plan(noise, low=held[0].low, high=held[0].high, unit=ledger.unit, opened=False)
    return run(plan, by_file(urns, held, shelf, plan), ledger, name, bits=bits)


def by_file(urns: str | Path, answers: tuple[Answer, ...], shelf: Shelf, plan: DrawPlan) -> Exchange:
    """What `plan` runs on, from a file of urns."""

    def read() -> wire.Read:
        most = wire.HEAD.size + urns_size(plan.noise) + wire.DIGEST
        return io.BytesIO(wire.read_file(urns, most)).read

    return Exchange(answers, read, shelf)


def _check_greeting(channel: Channel, answer: Answer, agreed: NoisePlan) -> None:
    """Refuses any key but that of the answer, and any plan but ours. Theirs is compared as bytes, and never read."""
    body = wire.receive(channel.read, wire.PLAN)
    check_same("key", checked_point(body[:POINT], "the public key"), answer.public)
    check_same("plan", hashlib.sha256(body[POINT:]).digest(), bytes.fromhex(agreed.hash))


def _begin(channel: Channel, plan: DrawPlan) -> wire.Read:
    bounds = wire.BOUNDS.pack(plan.low, plan.high)
    channel.send(wire.pack(wire.BEGIN, bytes.fromhex(plan.noise.hash) + bounds))
    return channel.read


def _settle(channel: Channel, plan: DrawPlan, name: bytes, drawn: bytes) -> tuple[int, ...]:
    channel.send(drawn)
    body = wire.receive(channel.read, wire.OPENED)
    wire.check_size(body, NAME + plan.noise.answers * wire.NUMBER.size, "the opening")
    check_same("name of the urns", body[:NAME], name)
    numbers = tuple(number for (number,) in wire.NUMBER.iter_unpack(body[NAME:]))
    lowest, highest = plan.low + plan.noise.law.lowest, plan.high + plan.noise.law.highest
    if not all(
        lowest <= number <= highest for number in numbers
    ):  # not shown: P1 may have put anything there
        raise PeerError(
            "the other party says that it opened a number that cannot be",
            needed=f"from {lowest} to {highest}: the bounds of the answer and the noise",
            fix="do not trust the sender",
        )
    return numbers
