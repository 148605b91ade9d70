"""Two parties over TLS and by files: what goes well, and all that can go wrong."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from secure_help import Parties, make_ledger, make_parties

import oboro as ob
from kills import MEASURED, kills
from oboro.errors import BudgetError, OboroError, PaidError
from oboro.ledger import canonical
from oboro.secure import PeerError, UsedError, wire
from oboro.secure.wire import Channel

NOISE = range(42 - 5, 42 + 6)


@pytest.fixture
def parties(tmp_path: Path) -> Parties:
    return make_parties(tmp_path)


def test_a_draw_over_tls(parties: Parties) -> None:
    with parties.serving(count=2) as where:
        first = parties.draw(where, name="the answer")
        again = parties.draw(where, name="the answer")  # stored: the connection is not used
        assert first.value in NOISE
        assert again.value == first.value
    assert parties.spent == 1
    assert parties.heard[0].startswith(f"opened {first.value} from urns")
    assert "went away" in parties.heard[1]
    record = first.certificate.record
    assert record["guarantee"]["assumptions"] == [ob.secure.ASSUMPTION]
    assert record["noise"]["sensitivity"] == "1"
    low, high = (
        column[0].as_py() for column in (first.interval().column("low"), first.interval().column("high"))
    )
    assert low <= first.value <= high


def by_files(parties: Parties, tag: str = "") -> tuple[Path, Path]:
    urns, drawn = parties.folder / f"urns{tag}.enc", parties.folder / f"drawn{tag}.enc"
    ob.secure.write_urns(parties.holder, urns)
    release = ob.secure.draw_from_file(urns, parties.answer, parties.ledger, parties.shelf, parties.noise)
    release.save(drawn)
    return urns, drawn


def test_a_draw_by_files(parties: Parties) -> None:
    _, drawn = by_files(parties)
    name, number = ob.secure.open_file(parties.holder, drawn)
    assert number in NOISE
    assert len(name) == 32
    assert parties.spent == 1


def test_urns_are_used_once_on_both_sides(parties: Parties) -> None:
    urns, drawn = by_files(parties)
    with pytest.raises(UsedError, match="used before"):
        ob.secure.draw_from_file(urns, parties.answer, parties.ledger, parties.shelf, parties.noise)
    assert parties.spent == 1  # refused before the reservation
    ob.secure.open_file(parties.holder, drawn)
    with pytest.raises(UsedError, match="used before"):
        ob.secure.open_file(parties.holder, drawn)
    elsewhere = ob.secure.Holder(
        parties.noise, parties.holder.secret, ob.secure.Shelf(parties.folder / "empty")
    )
    with pytest.raises(UsedError, match="not made here"):
        ob.secure.open_file(elsewhere, drawn)
    # a second draw from the same urns by a P2 that forgot is refused by P1
    forgetful = ob.secure.Shelf(parties.folder / "forgot")
    second = ob.secure.draw_from_file(urns, parties.answer, parties.ledger, forgetful, parties.noise)
    second.save(drawn)
    with pytest.raises(UsedError, match="used before"):
        ob.secure.open_file(parties.holder, drawn)


def test_two_at_once_cannot_use_the_same_urns(parties: Parties) -> None:
    outcomes: list[str] = []

    def claim() -> None:
        try:
            parties.shelf.claim(b"x" * 32, "plan")
            outcomes.append("mine")
        except UsedError:
            outcomes.append("refused")

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["mine", *["refused"] * 7]


def test_a_shelf_that_cannot_be_written_stops_everything(parties: Parties) -> None:
    broken = parties.folder / "broken"
    broken.write_bytes(b"this is not a database, and never was one" * 30)
    holder = ob.secure.Holder(parties.noise, parties.holder.secret, ob.secure.Shelf(broken))
    with pytest.raises(ob.errors.LedgerError, match="cannot be written"):
        holder.urns()


def test_every_damaged_byte_of_a_file_is_found(parties: Parties) -> None:
    urns, drawn = by_files(parties)
    answer = parties.folder / "answer.enc"
    parties.answer.save(answer)
    fresh = parties.folder / "fresh.enc"
    ob.secure.write_urns(parties.holder, fresh)

    def use_urns(path: Path) -> None:
        ob.secure.draw_from_file(path, parties.answer, parties.ledger, parties.shelf, parties.noise)

    def use_drawn(path: Path) -> None:
        ob.secure.open_file(parties.holder, path)

    cases: list[tuple[Path, Callable[[Path], object], int]] = [
        (fresh, use_urns, 97),
        (drawn, use_drawn, 1),
        (answer, ob.secure.Answer.load, 1),
    ]
    damaged = parties.folder / "damaged"
    for path, use, every in cases:
        whole = path.read_bytes()
        for at in range(0, len(whole), every):
            damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
            with pytest.raises(OboroError):
                use(damaged)
        for cut in (0, 1, 7, 8, 19, 20, len(whole) // 2, len(whole) - 33, len(whole) - 1):
            damaged.write_bytes(whole[:cut])
            with pytest.raises(OboroError):
                use(damaged)
        damaged.write_bytes(whole + b"\n")
        with pytest.raises(OboroError):
            use(damaged)
    assert parties.spent == 1
    use_urns(fresh)  # untouched by all this
    use_drawn(drawn)
    assert urns.exists()


def test_other_versions_kinds_and_sizes_are_refused(parties: Parties) -> None:
    message = wire.pack(wire.ANSWER, b"x")
    head = wire.HEAD.pack(wire.MAGIC, 2, wire.ANSWER, 1)
    with pytest.raises(PeerError, match="another version"):
        wire.unpack(wire.ANSWER, head + message[wire.HEAD.size :])
    with pytest.raises(PeerError, match="another message"):
        wire.unpack(wire.DRAWN, message)
    huge = wire.HEAD.pack(wire.MAGIC, wire.VERSION, wire.ANSWER, 2**62)
    with pytest.raises(PeerError, match="length"):
        wire.unpack(wire.ANSWER, huge)
    with pytest.raises(PeerError, match="stopped"):
        wire.unpack(wire.ANSWER, wire.pack(wire.REFUSED, b"no \x1b[31m thanks"))


def test_a_wrong_key_is_refused_before_anything_is_spent(parties: Parties) -> None:
    public = ob.secure.load_public(parties.folder / "stranger.public")
    wrong = ob.secure.Answer.encrypt(42, low=0, high=100, public=public)
    with parties.serving() as where, pytest.raises(PeerError, match="another key"):
        ob.secure.draw(where, wrong, parties.ledger, parties.identity(), parties.shelf, parties.noise)
    assert parties.spent == 0
    assert parties.heard == ["the other party stopped"]


def test_a_plan_that_was_not_agreed_upon_is_refused(parties: Parties) -> None:
    other = ob.secure.NoisePlan(
        parties.noise.promise, 1, "digits", (*parties.noise.urns, ob.secure.Urn(0, 1, (1,)))
    )
    with parties.serving() as where, pytest.raises(PeerError, match="another plan"):
        parties.draw(where, noise=other)
    assert parties.spent == 0


@pytest.mark.parametrize(
    "offered",
    [
        {"delta": "0.001"},  # a promise that it does not keep
        {"eps": "30", "delta": "0.4"},  # a larger price
        {"sensitivity": 2},
        {"urns": [{"first": -1, "step": 1, "counts": [1, 10**5, 1]}]},  # hardly any noise
        {},  # the same, spelt in another way
    ],
)
def test_p2_pays_for_its_own_plan_and_no_other(parties: Parties, offered: dict[str, Any]) -> None:
    def lie(channel: Channel) -> None:
        record = {**parties.noise.to_dict(), **offered}
        text = canonical(record).encode() + (b"" if offered else b" ")
        channel.send(wire.pack(wire.PLAN, parties.holder.secret.public + text))
        wire.receive(channel.read, wire.BEGIN)

    with parties.serving(lie) as where, pytest.raises(PeerError, match="another plan"):
        parties.draw(where)
    assert parties.spent == 0


def test_no_draw_without_a_plan_of_ones_own(parties: Parties) -> None:
    nothing: Any = None
    with pytest.raises(ob.errors.ParameterError, match="noise is of the wrong kind"):
        parties.draw("127.0.0.1:1", noise=nothing)
    with pytest.raises(TypeError):
        ob.secure.draw("127.0.0.1:1", parties.answer, parties.ledger, parties.identity(), parties.shelf)  # type: ignore[call-arg]


def test_serving_outlives_what_the_system_says_of_one_connection(parties: Parties) -> None:
    """Gone before it was taken, no file left to open, a certificate that vanished: the next one is served."""
    heard: list[str] = []
    real = socket.create_server(("127.0.0.1", 0))
    faults = [
        OSError(errno.ECONNABORTED, os.strerror(errno.ECONNABORTED)),
        OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
        TimeoutError("timed out"),
    ]

    class Listener:
        def accept(self) -> Any:
            if faults:
                raise faults.pop(0)
            return real.accept()

    def serve() -> None:
        listener: Any = Listener()
        ob.secure.serve(parties.holder, listener, parties.identity("p1", "p2"), count=5, tell=heard.append)

    certificate = parties.folder / "p2.crt"
    away = certificate.rename(parties.folder / "away.crt")
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    where = f"127.0.0.1:{real.getsockname()[1]}"
    with pytest.raises(PeerError):
        parties.draw(where)
    away.rename(certificate)
    assert parties.draw(where).value in NOISE
    thread.join(timeout=600)
    real.close()
    assert not thread.is_alive()
    assert [text.partition(":")[0] for text in heard] == ["refused"] * 4 + [heard[4].partition(":")[0]]
    assert heard[4].startswith("opened")
    assert parties.spent == 1


def test_a_budget_that_does_not_suffice_costs_nothing(parties: Parties) -> None:
    poor = make_ledger(parties.folder / "poor.ledger", eps="0.5")
    with parties.serving() as where, pytest.raises(BudgetError):
        ob.secure.draw(where, parties.answer, poor, parties.identity(), parties.shelf, parties.noise)
    assert parties.heard == ["the other party stopped"]  # and not why


def test_a_ledger_without_the_assumption_is_refused(parties: Parties) -> None:
    plain = ob.Ledger.create(
        parties.folder / "plain.ledger", dataset="x", unit=ob.Unit.row(), budget=ob.Approx(5, "0.5")
    )
    with parties.serving() as where, pytest.raises(ob.errors.GuaranteeError, match="assumption"):
        ob.secure.draw(where, parties.answer, plain, parties.identity(), parties.shelf, parties.noise)


def urns_then(parties: Parties, last: Callable[[Channel, bytes], None]) -> Callable[[Channel], None]:
    """A P1 that is honest until its urns are out."""

    def work(channel: Channel) -> None:
        text = canonical(parties.noise.to_dict()).encode()
        channel.send(wire.pack(wire.PLAN, parties.holder.secret.public + text))
        wire.receive(channel.read, wire.BEGIN)
        name, parts = parties.holder.urns(kept=False)
        channel.send_all(parts)
        last(channel, name)

    return work


def test_p1_that_disappears_after_its_urns(parties: Parties) -> None:
    gone = urns_then(parties, lambda channel, name: None)
    with parties.serving(gone) as where, pytest.raises(PaidError) as paid:
        parties.draw(where, name="lost")
    assert isinstance(paid.value.__cause__, PeerError)
    assert parties.spent == 1  # the noise may have been drawn: nothing is refunded
    with parties.serving() as where, pytest.raises(ob.errors.NameTakenError):
        parties.draw(where, name="lost")


def test_p1_that_disappears_in_the_middle_of_its_urns(parties: Parties) -> None:
    def work(channel: Channel) -> None:
        text = canonical(parties.noise.to_dict()).encode()
        channel.send(wire.pack(wire.PLAN, parties.holder.secret.public + text))
        wire.receive(channel.read, wire.BEGIN)
        message = b"".join(parties.holder.urns()[1])
        channel.send(message[: len(message) // 2])

    with parties.serving(work) as where, pytest.raises(PeerError, match=r"went away|connection"):
        parties.draw(where)
    assert parties.spent == 0


def test_p1_that_opens_other_urns_is_refused(parties: Parties) -> None:
    def last(channel: Channel, name: bytes) -> None:
        wire.receive(channel.read, wire.DRAWN)
        channel.send(wire.pack(wire.OPENED, bytes(32) + wire.NUMBER.pack(5)))

    with parties.serving(urns_then(parties, last)) as where, pytest.raises(PaidError) as paid:
        parties.draw(where)
    assert "another name" in str(paid.value)


def test_p1_that_opens_a_number_that_cannot_be_is_refused(parties: Parties) -> None:
    def last(channel: Channel, name: bytes) -> None:
        wire.receive(channel.read, wire.DRAWN)
        channel.send(wire.pack(wire.OPENED, name + wire.NUMBER.pack(2**62)))

    with parties.serving(urns_then(parties, last)) as where, pytest.raises(PaidError) as paid:
        parties.draw(where)
    assert "cannot be" in str(paid.value)
    assert parties.spent == 1


def greeting(parties: Parties, channel: Channel) -> None:
    wire.receive(channel.read, wire.PLAN)
    begin = bytes.fromhex(parties.noise.hash) + wire.BOUNDS.pack(0, 100)
    channel.send(wire.pack(wire.BEGIN, begin))


def test_p2_that_disappears_leaves_the_urns_used(parties: Parties) -> None:
    with parties.serving() as where, wire.connected(where, parties.identity()) as channel:
        greeting(parties, channel)
        size = ob.secure.draws.urns_size(parties.noise)
        body = b"".join(wire.receive_parts(channel.read, wire.URNS, size, 1 << 16))
    assert parties.heard
    assert "went away" in parties.heard[0]
    with pytest.raises(UsedError, match="used before"):
        parties.holder.shelf.use(body[:32], parties.noise.hash)


def test_p1_opens_nothing_but_the_urns_of_the_connection(parties: Parties) -> None:
    _, drawn = by_files(parties)  # drawn from other urns, which are still unopened
    with parties.serving() as where, wire.connected(where, parties.identity()) as channel:
        greeting(parties, channel)
        size = ob.secure.draws.urns_size(parties.noise)
        list(wire.receive_parts(channel.read, wire.URNS, size, 1 << 16))
        channel.send(drawn.read_bytes())
        with pytest.raises(PeerError, match="stopped") as error:
            wire.receive(channel.read, wire.OPENED)
    assert "another name of the urns" in str(error.value)


def test_an_answer_that_was_not_clamped_is_not_opened(parties: Parties) -> None:
    parties.answer = ob.secure.Answer(
        parties.answer.public, 0, 100, ob.secure.Answer.encrypt(900, low=0, high=999, public=parties.answer.public).ciphertext
    )  # fmt: skip
    with parties.serving() as where, pytest.raises(PaidError) as paid:
        parties.draw(where)
    assert "stopped" in str(paid.value)
    assert parties.heard == ["what was drawn cannot be opened"]


@pytest.mark.parametrize(("own", "peer"), [("stranger", "p1"), ("p2", "stranger")])
def test_strangers_are_refused(parties: Parties, own: str, peer: str) -> None:
    with parties.serving() as where, pytest.raises(PeerError, match="connection"):
        ob.secure.draw(
            where, parties.answer, parties.ledger, parties.identity(own, peer), parties.shelf, parties.noise
        )
    assert parties.spent == 0
    assert parties.heard == ["the connection to the other party failed"]


def test_a_client_without_a_certificate_is_refused(parties: Parties) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with parties.serving() as where:
        plain = socket.create_connection(wire.address(where))
        heard = b""
        with contextlib.suppress(OSError), context.wrap_socket(plain) as secured:
            secured.settimeout(600)
            heard = secured.recv(10)
        assert heard == b""
    assert parties.heard == ["the connection to the other party failed"]


def test_noise_instead_of_tls_does_not_stop_the_server(parties: Parties) -> None:
    with parties.serving(count=2) as where:
        with socket.create_connection(wire.address(where)) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert parties.draw(where).value in NOISE


def test_private_files_that_others_can_read_are_refused(parties: Parties) -> None:
    (parties.folder / "p1.secret").chmod(0o644)
    with pytest.raises(ob.errors.DataError, match="read by others"):
        ob.secure.load_secret(parties.folder / "p1.secret")
    (parties.folder / "p2.pem").chmod(0o644)
    with pytest.raises(ob.errors.DataError, match="read by others"):
        parties.draw("127.0.0.1:1")
    with pytest.raises(ob.errors.DataError, match="exists already"):
        ob.secure.create(parties.folder / "p1")


@pytest.mark.long("kills")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_p2_never_draws_twice_from_the_same_urns(parties: Parties) -> None:
    outcomes = set()
    made = [parties.folder / f"urns{number}.enc" for number in range(MEASURED + 16)]
    for urns in made:
        ob.secure.write_urns(parties.holder, urns)

    def draw(urns: Path) -> ob.Release:
        ledger = ob.Ledger.open(parties.folder / "l.ledger")
        return ob.secure.draw_from_file(urns, parties.answer, ledger, parties.shelf, parties.noise)

    for kill in kills(16, lambda: draw(made.pop()), times=2):
        urns = made.pop()

        def work(pipe: int, urns: Path = urns) -> None:
            os.write(pipe, b"!")
            os.write(pipe, draw(urns).to_arrow()["sealed"][0].as_py().encode())

        reported = kill(work)
        try:
            ob.secure.draw_from_file(urns, parties.answer, parties.ledger, parties.shelf, parties.noise)
            outcomes.add("drawn by the second")
            assert not reported
        except UsedError:
            outcomes.add("used")
    assert outcomes == {"drawn by the second", "used"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_p1_never_opens_twice(parties: Parties) -> None:
    outcomes, made = set(), [by_files(parties, str(number))[1] for number in range(MEASURED + 12)]
    for kill in kills(12, lambda: ob.secure.open_file(parties.holder, made.pop()), times=2):
        drawn = made.pop()

        def work(pipe: int, drawn: Path = drawn) -> None:
            os.write(pipe, b"!")
            os.write(pipe, str(ob.secure.open_file(parties.holder, drawn)[1]).encode())

        reported = kill(work)
        try:
            ob.secure.open_file(parties.holder, drawn)
            outcomes.add("opened by the second")
            assert not reported
        except UsedError:
            outcomes.add("used")
    assert outcomes == {"opened by the second", "used"}
