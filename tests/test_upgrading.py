"""What older versions left in the world goes on working: tests/fixtures has a folder for each of them.

docs/upgrading.md has the rule; tests/fixtures/make.py wrote the folders.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import oboro as ob
from oboro import secure, synth, tables
from oboro.cli.main import app
from oboro.errors import InputError, OboroError
from oboro.ledger import Head, verify_export
from oboro.privacy import guarantee_from, unit_from
from oboro.release import fetch, load_plan, plan_from, read_certificate, verify_certificate

FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = sorted(
    folder.name for folder in FIXTURES.iterdir() if folder.is_dir() and folder.name[0].isdigit()
)

# Records that do not load any more, each with its reason: a function cannot be read from a file.
REFUSED = {"own-function.toml", "sample-and-aggregate.toml", "sample-and-aggregate-replaced.toml"}


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> Path:
    return FIXTURES / str(request.param)


@pytest.fixture
def copied(version: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A folder of a version, to work in. Git keeps no modes: a key is its owner's alone."""

    def copy(name: str) -> Path:
        shutil.copytree(version / name, tmp_path / name)
        for key in (tmp_path / name).glob("*.key"):
            key.chmod(0o600)
        return tmp_path / name

    return copy


def oboro(*words: object) -> Any:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return json.loads(done.output) if "--json" in words else done.output


def every(pattern: str) -> list[Any]:
    """A parameter for each file of each version."""
    return [
        pytest.param(path, id=str(path.relative_to(FIXTURES)))
        for name in VERSIONS
        for path in sorted((FIXTURES / name).glob(pattern))
    ]


def test_there_is_something_of_every_kind() -> None:
    assert VERSIONS[0] == "0.1"
    kinds = {json.dumps(facts["kind"]) for facts in facts_of(FIXTURES / "0.1").values()}
    assert len(kinds) == 27
    assert len(every("*/*.certificate.json")) >= 14
    assert len(every("tables/*.parquet")) >= len(tables.STRATEGIES.keys() - {"sized"})  # which came later


# Plans


def facts_of(version: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((version / "plans" / "facts.json").read_text())
    return facts


@pytest.mark.parametrize("path", every("plans/*.toml"))
def test_a_plan_record_loads_and_promises_what_it_did(path: Path) -> None:
    if path.name in REFUSED:
        with pytest.raises(InputError):
            load_plan(path)
        return
    plan, facts = load_plan(path), facts_of(path.parents[1])[path.name]
    assert plan.kind == facts["kind"]
    assert plan.unit == unit_from(facts["unit"])
    assert plan.guarantee == guarantee_from(facts["guarantee"])
    assert plan_from(plan.to_dict()).to_dict() == plan.to_dict()


def test_a_noise_plan_of_two_parties_loads(version: Path) -> None:
    noise = secure.NoisePlan.load(version / "noise.toml")
    assert (noise.eps, noise.sensitivity) == (1, 1)
    assert oboro("secure", "verify", version / "noise.toml", "--json")["hash"] == noise.hash


# Certificates and what they certify


@pytest.mark.parametrize("path", every("*/*.certificate.json"))
def test_a_certificate_verifies(path: Path) -> None:
    record = verify_certificate(path, public_key=read_certificate(path).record["public_key"])
    assert record["file"]["name"] + ".certificate.json" == path.name
    assert oboro("certificate", "verify", path)


@pytest.mark.parametrize("path", every("*/*.certificate.json"))
def test_a_certificate_with_one_word_changed_does_not(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    changed = tmp_path / path.name
    shutil.copy(path.with_name(path.name.removesuffix(".certificate.json")), tmp_path)
    changed.write_text(text.replace("city 2026", "city 2025", 1), encoding="utf-8")
    with pytest.raises(OboroError):
        verify_certificate(changed)


@pytest.mark.parametrize("path", every("tables/answers.json"))
def test_a_published_table_answers_as_it_did(path: Path) -> None:
    for strategy, then in json.loads(path.read_text()).items():
        now = oboro("table", "ask", path.with_name(f"{strategy}.parquet"), "row=0..1", "col=0..2", "--json")
        assert now["value"] == then["value"]
        assert now["low"] <= now["value"] <= now["high"]
    assert tables.ask(path.with_name("adaptive.arrow"), {"row": 3}).value >= 0


def test_a_model_gives_records(version: Path) -> None:
    model = synth.load(version / "model" / "people.oboro")
    assert model.sample(10).num_rows == 10


# Ledgers


@pytest.mark.parametrize("path", every("*/export.json"))
def test_an_export_verifies(path: Path) -> None:
    head = path.with_name("head.txt")
    kept = Head.parse(head.read_text()) if head.exists() else None
    assert verify_export(path, kept).entries > 5


def test_a_closed_ledger_is_read_as_it_was(copied: Callable[[str], Path]) -> None:
    folder = copied("closed")
    kept = Head.parse((folder / "head.txt").read_text())
    ledger = ob.Ledger.open(folder / "city.ledger")
    checked = ledger.verify(kept)
    assert (checked.head, checked.commits, len(checked.keys)) == (kept, 3, 2)
    assert ledger.spent.unconditional == ob.Approx("17/6", 0)
    assert oboro("ledger", "show", folder / "city.ledger", "--json")["head"] == str(kept)
    oboro("ledger", "verify", folder / "city.ledger", "--head", kept)


def test_what_a_ledger_paid_for_is_given_back(copied: Callable[[str], Path]) -> None:
    folder = copied("closed")
    with ob.Ledger.open(folder / "city.ledger") as ledger:
        again = fetch(ledger, name="regions")
        assert again.save(folder / "again.parquet").exists()
        # the same table, with all that the file says of it; how it is packed is the version's own choice
        once, now = (pq.read_table(folder / name) for name in ("regions.parquet", "again.parquet"))
        assert now.equals(once, check_metadata=True)
        assert fetch(ledger, name="mean income").value == fetch(ledger, entry=4).value


def test_a_name_of_then_and_its_plan_file_give_the_stored_release(copied: Callable[[str], Path]) -> None:
    folder = copied("closed")
    with ob.Ledger.open(folder / "city.ledger") as ledger:
        spent, plan = ledger.spent, load_plan(folder / "regions.toml")
        again = ob.run(plan, None, ledger, "regions")
        assert again.to_arrow().equals(fetch(ledger, name="regions").to_arrow())
        assert ledger.spent == spent


def test_a_ledger_whose_process_was_killed_has_lost_nothing(copied: Callable[[str], Path]) -> None:
    folder = copied("in-use")
    kept = Head.parse((folder / "head.txt").read_text())
    with ob.Ledger.open(folder / "city.ledger") as ledger:
        assert ledger.verify(kept).reservations == 2
        assert ledger.spent == ob.Pure("3/4")
