"""Each party as an attacker with everything that it knows."""

from __future__ import annotations

import numpy as np
import pytest
from nacl import bindings
from secure_help import digits, fits, small

import oboro as ob
from oboro.errors import OboroError
from oboro.noise.bits import system_bits
from oboro.secure import Answer, Holder, PeerError, Shelf, draws, elgamal, group, wire
from oboro.secure.elgamal import CIPHERTEXT, SecretKey

BITS = system_bits()
# y = 0 has order 4, and the point (0, -1) has order 2
TORSION = [bytes(32), (2**255 - 20).to_bytes(32, "little")]


class Setting:
    """P1's key and ciphertexts, an answer that P1 encrypted too, and what P2 sends back."""

    def __init__(self, noise: ob.secure.NoisePlan, shelf: Shelf) -> None:
        self.noise, self.secret = noise, SecretKey.generate(BITS)
        self.answer = Answer.encrypt(42, low=0, high=100, public=self.secret.public)
        self.holder = Holder(noise, self.secret, shelf)
        message = b"".join(self.holder.urns()[1])
        self.name, self.entries = draws.read_urns(reader(message), noise, self.secret.public)
        self.ready = draws.Ready((self.answer,), self.name, self.entries, None)

    def draw(self) -> bytes:
        (drawn,) = draws.draw(self.ready, self.noise, BITS)
        return drawn

    def recognised(self, drawn: bytes) -> list[tuple[int, int]]:
        """P1's attack: which two of its ciphertexts, added to the answer's, make this one? Meet in the middle."""
        entries = [self.entries[at : at + CIPHERTEXT][:32] for at in range(0, len(self.entries), CIPHERTEXT)]
        first = self.noise.sent[0].size
        rest = group.subtract(drawn[:32], self.answer.ciphertext[:32])
        known = {entry: index for index, entry in enumerate(entries[first:])}
        wanted = ((i, known.get(group.subtract(rest, entry))) for i, entry in enumerate(entries[:first]))
        return [(i, j) for i, j in wanted if j is not None]


def reader(data: bytes) -> wire.Read:
    import io

    return io.BytesIO(data).read


@pytest.fixture
def setting(tmp_path: object) -> Setting:
    wide = digits((1, (89, 33, 12, 4)), (4, (400, 10, 1)), delta="0.1")
    return Setting(wide, Shelf(tmp_path / "urns"))  # type: ignore[operator]


def test_p1_finds_the_drawn_entries_if_nothing_is_renewed(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elgamal, "renew", lambda public, ciphertext, bits: ciphertext)
    drawn = setting.draw()
    ((i, j),) = setting.recognised(drawn)
    # so P1 knows the noise, and the answer
    first = setting.noise.sent[0].size
    places = (CIPHERTEXT * i, CIPHERTEXT * (first + j))
    noise = sum(
        group.find(elgamal.number_point(setting.secret, setting.entries[at : at + CIPHERTEXT]), -99, 99) or 0
        for at in places
    )
    opened = group.find(elgamal.number_point(setting.secret, drawn), -100, 200)
    assert opened is not None
    assert opened - noise == 42


def test_p1_finds_nothing_when_the_sum_is_renewed(setting: Setting) -> None:
    for _ in range(20):
        assert setting.recognised(setting.draw()) == []


def test_a_renewed_sum_is_a_fresh_encryption_of_the_same_number() -> None:
    secret = SecretKey.generate(BITS)
    old = elgamal.encrypt(secret.public, 7, BITS)
    renewed = [elgamal.renew(secret.public, old, BITS) for _ in range(50)]
    assert len({old, *renewed}) == 51
    assert len({one[:32] for one in renewed}) == 50
    assert len({one[32:] for one in renewed}) == 50
    assert {group.find(elgamal.number_point(secret, one), 0, 10) for one in renewed} == {7}


@pytest.mark.parametrize("torsion", TORSION)
def test_a_mark_of_small_order_would_survive_and_is_refused(setting: Setting, torsion: bytes) -> None:
    marked = group.add(setting.entries[:32], torsion) + setting.entries[32:CIPHERTEXT]
    renewed = elgamal.renew(setting.secret.public, marked, BITS)
    assert not bindings.crypto_core_ed25519_is_valid_point(renewed[:32])  # P1 would recognise it
    with pytest.raises(PeerError, match="prime-order group"):
        elgamal.checked_ciphertext(marked, "an entry")
    body = setting.name + bytes.fromhex(setting.noise.hash) + setting.secret.public + marked
    message = wire.pack(wire.URNS, body + setting.entries[CIPHERTEXT:])
    with pytest.raises(PeerError, match="prime-order group"):
        draws.read_urns(reader(message), setting.noise, setting.secret.public)


@pytest.mark.parametrize(
    "point", [group.IDENTITY, b"\xff" * 32, b"\x02" + bytes(31), *TORSION, b"", bytes(31)]
)
def test_bytes_that_are_no_point_are_refused(point: bytes) -> None:
    with pytest.raises(PeerError):
        group.checked_point(point, "a point")


def test_p2_sees_nothing_in_the_urns(setting: Setting) -> None:
    """Equal entries have different ciphertexts, and their order is fresh each time."""
    parts = {setting.entries[at : at + 32] for at in range(0, len(setting.entries), 32)}
    assert len(parts) == len(setting.entries) // 32
    orders = set()
    for _ in range(4):
        message = b"".join(setting.holder.urns()[1])
        _, entries = draws.read_urns(reader(message), setting.noise, setting.secret.public)
        numbers = [
            group.find(elgamal.number_point(setting.secret, entries[at : at + CIPHERTEXT]), -30, 30)
            for at in range(0, CIPHERTEXT * 60, CIPHERTEXT)
        ]
        orders.add(tuple(numbers))
    assert len(orders) == 4


@pytest.mark.long("statistical tests")
def test_an_opened_draw_has_the_law_of_the_plan(tmp_path: object) -> None:
    """Through encryption, shuffling, drawing, adding, renewing and opening."""
    drawn = []
    setting = Setting(small(), Shelf(tmp_path / "urns"))  # type: ignore[operator]
    for number in range(1200):
        if number % 100 == 0:  # new urns now and then; a test may draw twice from the same ones
            setting = Setting(small(), Shelf(tmp_path / "urns"))  # type: ignore[operator]
        opened = group.find(elgamal.number_point(setting.secret, setting.draw()), 30, 54)
        assert opened is not None
        drawn.append(opened - 42)
    assert fits(np.asarray(drawn), small().law)
    assert not fits(np.asarray(drawn), digits((1, (8, 6, 2)), (3, (16, 1)), delta="0.4").law)


@pytest.mark.parametrize("number", [-100, -1, 0, 1, 8, 100])
def test_numbers_come_back(number: int) -> None:
    secret = SecretKey.generate(BITS)
    total = elgamal.add(
        elgamal.encrypt(secret.public, number, BITS), elgamal.encrypt_own(secret, group.scalar_of(5), BITS)
    )
    assert group.find(elgamal.number_point(secret, total), -95, 105) == number + 5
    assert group.find(elgamal.number_point(secret, total), 106, 2000) is None


def test_every_number_of_a_range_is_found_and_none_beyond() -> None:
    for low, high in ((-3, 4), (0, 0), (5, 70), (-1000, 1000)):
        for number in {low - 2, low - 1, low, low + 1, (low + high) // 2, high - 1, high, high + 1, high + 3}:
            found = group.find(group.base(group.scalar_of(number)), low, high)
            assert found == (number if low <= number <= high else None)


def test_an_answer_is_clamped_and_added(tmp_path: object) -> None:
    secret = SecretKey.generate(BITS)
    high = Answer.encrypt(10**6, low=0, high=50, public=secret.public)
    low = Answer.encrypt(-7, low=-5, high=5, public=secret.public)
    total = high + low
    assert (total.low, total.high) == (-5, 55)
    assert group.find(elgamal.number_point(secret, total.ciphertext), -5, 55) == 45
    path = tmp_path / "answer.enc"  # type: ignore[operator]
    total.save(path)
    assert Answer.load(path) == total
    other = Answer.encrypt(1, low=0, high=1, public=SecretKey.generate(BITS).public)
    with pytest.raises(OboroError, match="different keys"):
        total + other


def test_nothing_secret_is_printed() -> None:
    secret = SecretKey.generate(BITS)
    assert secret.scalar.hex() not in repr(secret)
    assert str(secret.scalar) not in repr(secret)
