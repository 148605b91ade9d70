"""The private key: where it is, who may read it, and what goes without it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from ledger_help import assert_sound, spend

from oboro.errors import LedgerError
from oboro.ledger import Ledger, keys
from oboro.privacy import Pure, Unit

posix = pytest.mark.skipif(os.name != "posix", reason="file modes are those of POSIX")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "city.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))


@posix
def test_only_its_owner_can_read_the_key(ledger: Ledger, path: Path) -> None:
    key = Path(f"{path}.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    ledger.rotate_key()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert sorted(p.name for p in path.parent.glob("*.key*")) == ["city.ledger.key"]


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(ledger: Ledger, path: Path, mode: int) -> None:
    os.chmod(f"{path}.key", mode)
    with pytest.raises(LedgerError) as refused:
        spend(ledger, "0.1")
    assert refused.value.fix == f"chmod 600 {path}.key"
    assert ledger.spent == Pure(0)
    assert ledger.verify()


def test_reading_needs_no_key(ledger: Ledger, path: Path) -> None:
    ledger.commit(spend(ledger, "0.1", "first"), b"x", facts={})
    os.unlink(f"{path}.key")
    reader = Ledger.open(path)
    stored = reader.find("first")
    assert stored is not None
    assert stored.content() == b"x"
    assert reader.verify().entries == len(reader.history()) == 3
    assert reader.public_key == reader.keys()[0].public_key
    for spending in (lambda: spend(reader, "0.1"), reader.rotate_key, lambda: reader.sign(b"m")):
        with pytest.raises(LedgerError, match="private key") as refused:
            spending()
        assert f"{path}.key" in str(refused.value)
    assert reader.spent == Pure("0.1")


def test_the_key_may_be_kept_elsewhere(path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "safe" / "city.pem"
    ledger = Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1), key=elsewhere)
    assert elsewhere.exists()
    assert not Path(f"{path}.key").exists()
    spend(ledger, "0.1")
    with pytest.raises(LedgerError, match="private key"):
        spend(Ledger.open(path), "0.1")
    spend(Ledger.open(path, key=elsewhere), "0.1")
    assert_sound(ledger)


def test_the_key_of_another_ledger_is_refused(ledger: Ledger, path: Path, tmp_path: Path) -> None:
    other = Ledger.create(tmp_path / "other", dataset="x", unit=Unit.row(), budget=Pure(1))
    with pytest.raises(LedgerError, match="not the one") as refused:
        spend(Ledger.open(path, key=tmp_path / "other.key"), "0.1")
    assert ledger.public_key in str(refused.value)
    assert other.public_key in str(refused.value)


def test_the_old_key_is_refused_after_a_rotation(ledger: Ledger, path: Path) -> None:
    shutil.copy2(f"{path}.key", f"{path}.old")
    ledger.rotate_key()
    with pytest.raises(LedgerError, match="not the one"):
        spend(Ledger.open(path, key=f"{path}.old"), "0.1")


def test_a_file_that_is_no_key_is_refused(ledger: Ledger, path: Path) -> None:
    other_kind = generate_private_key(SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    for text in (b"", b"nonsense", other_kind):
        Path(f"{path}.key").write_bytes(text)
        with pytest.raises(LedgerError, match="Ed25519"):
            spend(ledger, "0.1")


@pytest.mark.parametrize("emptied", [False, True], ids=["removed", "emptied"])
def test_the_key_of_a_removed_ledger_is_not_taken_for_a_new_one(
    ledger: Ledger, path: Path, emptied: bool
) -> None:
    """The new ledger would be signed by the key that certificates of the old one name, with nothing spent."""
    spend(ledger, "0.1")
    ledger.close()
    kept, before = Path(f"{path}.key"), Path(f"{path}.key").read_bytes()
    path.unlink()
    if emptied:
        path.touch()
    for _ in range(2):
        with pytest.raises(LedgerError, match="private key here already") as refused:
            Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))
        assert f"mv -n {kept} {kept}.1.kept" in str(refused.value)
        assert path.exists() == emptied  # nor does a refusal leave an empty file behind
        assert kept.read_bytes() == before
    kept.rename(f"{kept}.old")
    made = Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))
    assert made.public_key != ledger_key(f"{kept}.old")
    spend(made, "0.1")


def ledger_key(path: str) -> str:
    return keys.public_half(keys.load(Path(path)))


def test_a_key_serves_one_ledger(tmp_path: Path) -> None:
    key = tmp_path / "one.key"
    Ledger.create(tmp_path / "one", dataset="x", unit=Unit.row(), budget=Pure(1), key=key)
    with pytest.raises(LedgerError, match="private key here already"):
        Ledger.create(tmp_path / "two", dataset="x", unit=Unit.row(), budget=Pure(1), key=key)


@pytest.mark.parametrize("dies_in", ["append", "promote"])
def test_a_creation_that_dies_between_two_steps_is_finished_or_begun_anew(
    path: Path, dies_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oboro.ledger import records

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(records if dies_in == "append" else keys, dies_in, die)
        with pytest.raises(Killed):
            Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))
    assert not Path(f"{path}.key").exists()
    if dies_in == "append":
        ledger = Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))
    else:
        ledger = Ledger.open(path)
    spend(ledger, "0.1")
    assert [one.name for one in path.parent.glob("*.key*")] == [f"{path.name}.key"]
    assert_sound(ledger)


def test_a_key_behind_a_link_is_made_where_the_link_leads(path: Path, tmp_path: Path) -> None:
    (tmp_path / "safe").mkdir()
    link = tmp_path / "link.key"
    link.symlink_to(tmp_path / "safe" / "city.key")
    ledger = Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1), key=link)
    spend(ledger, "0.1")
    assert link.is_symlink()
    assert [one.name for one in (tmp_path / "safe").iterdir()] == ["city.key"]


def test_a_key_that_cannot_be_written_is_told_in_words(path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(LedgerError, match="cannot be written"):
        Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1), key=tmp_path / "file" / "key")
    Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))


def test_the_key_of_a_server_ledger_is_in_the_folder_of_the_user(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(postgres, dataset="x", unit=Unit.row(), budget=Pure(1))
    assert [p.name for p in (tmp_path / "keys").iterdir()] == [f"{ledger.id}.key"]
    spend(ledger, "0.1")
    monkeypatch.delenv("OBORO_KEYS")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(LedgerError) as refused:
        spend(Ledger.open(postgres), "0.1")
    assert str(tmp_path / "home/.config/oboro/keys") in str(refused.value)


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make: Callable[..., Ledger] = Ledger.create
    monkeypatch.chdir(tmp_path)
    with make("city.ledger", dataset="x", unit=Unit.row(), budget=Pure(1)) as ledger:
        assert ledger.where == "city.ledger"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    spend(ledger, "0.1")
    assert not list((tmp_path / "other").iterdir())


def test_a_ledger_that_is_moved_away_keeps_its_key_whatever_is_created_in_its_place(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rotation that was killed after its entry leaves the key in force beside its place. It is not taken for rubbish."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(keys, "promote", die)
        with pytest.raises(KeyboardInterrupt):
            ledger.rotate_key()
    ledger.close()
    moved = path.with_name("elsewhere.ledger")
    path.rename(moved)
    Path(f"{path}.key").rename(f"{moved}.key")
    with pytest.raises(LedgerError, match="private key here already") as refused:
        Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))
    (pending,) = path.parent.glob("city.ledger.key.*")
    assert str(pending) in str(refused.value)
    pending.rename(f"{moved}.key{pending.suffix}")
    spend(Ledger.open(moved), "0.1")
    Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))


def test_a_fix_followed_again_and_again_destroys_no_key(path: Path) -> None:
    kept = set()
    for turn in range(3):
        made = Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))
        kept.add(made.public_key)
        made.close()
        path.rename(f"{path}.{turn}")
        with pytest.raises(LedgerError, match="private key here already") as refused:
            Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))
        subprocess.run(["sh", "-c", str(refused.value).partition("now: ")[2].splitlines()[0]], check=True)
    assert {ledger_key(str(key)) for key in path.parent.glob("*.kept")} == kept
