"""`oboro secure` as two parties type it, P1 in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from secure_help import digits

import oboro as ob
from oboro.cli import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Command = Callable[..., Result]
PARTIES = "--identity city.pem --peer carrier.crt"


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs one command line in a folder with keys, a small plan, a ledger and an answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("OBORO_TRACEBACK", "1")

    def command(line: str, *more: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["oboro", *line.split(), *more])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        output = capsys.readouterr()
        return Result(int(stop.value.code or 0), output.out, output.err)

    for name in ("carrier", "city"):
        assert command(f"secure keys {name}").code == 0
    digits((1, (89, 33, 12, 4)), (4, (104, 2)), (8, (60, 1)), delta="1e-4").save("noise.toml")
    made = command(
        "ledger create l.ledger --dataset city --unit row --eps 3 --delta 1e-3 --assume", ob.secure.ASSUMPTION
    )
    assert made.code == 0
    assert command("secure encrypt 1200 --low 0 --high 100000 --key carrier.public -o a.enc").code == 0
    assert command("secure encrypt 34 --low 0 --high 100000 --key carrier.public -o b.enc").code == 0
    assert "between 0 and 200000" in command("secure add a.enc b.enc -o answer.enc").out
    return command


@pytest.mark.long("whole commands")
def test_plan_and_verify(oboro: Command) -> None:
    made = oboro("secure plan --eps 1 --delta 1e-10 -o found.toml")
    assert made.code == 0
    assert "E|Z|" in made.out
    checked = oboro("secure verify found.toml")
    assert checked.code == 0
    assert checked.out.startswith("valid")
    record = json.loads(oboro("secure verify found.toml --json").out)
    assert record["valid"]
    assert record["hash"] in made.out
    paper = oboro("secure plan --eps 1 --delta 1e-10 --method paper --draws 2 -o paper.toml")
    assert "295,384" in paper.out
    assert "3.38863e-06" in oboro("secure verify paper.toml").out
    assert oboro("secure verify paper.toml --view drawer").code == 4


@pytest.mark.long("commands that read and show")
def test_compare(oboro: Command) -> None:
    shown = oboro("secure compare --eps 1 --delta 1e-10 --seconds 6")
    assert shown.code == 0
    for text in ("36,627,290,627", "295,384", "each party adds its own", "one party adds", "4 digit urns"):
        assert text in shown.out


def test_two_processes(oboro: Command, tmp_path: Path) -> None:
    line = "-m oboro secure serve --plan noise.toml --listen 127.0.0.1:0 --key carrier.secret --identity carrier.pem --peer city.crt --count 1"
    with subprocess.Popen(
        [sys.executable, *line.split()], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        where = process.stdout.readline().split(",")[0].removeprefix("listening on ")
        drawn = oboro(
            f"secure draw --connect {where} --answer answer.enc --ledger l.ledger {PARTIES} --plan noise.toml -o out.csv --json"
        )
        assert drawn.code == 0, drawn.err
        record = json.loads(drawn.out)
        rest = process.stdout.read()
        assert process.wait() == 0
    assert abs(record["value"] - 1234) <= 15
    assert f"opened {record['value']}" in rest
    assert record["remaining"]["guarantee"]["eps"] == "2"
    assert oboro("certificate verify out.csv.certificate.json").code == 0
    late = oboro(
        f"secure draw --connect {where} --plan noise.toml --answer answer.enc --ledger l.ledger {PARTIES}"
    )
    assert late.code == 1
    assert "PeerError: the connection to the other party failed" in late.err


def test_by_files(oboro: Command) -> None:
    common = "--plan noise.toml --key carrier.secret"
    assert oboro(f"secure urns {common} -o urns.enc").code == 0
    draw = "secure draw --urns urns.enc --plan noise.toml --answer answer.enc --ledger l.ledger -o drawn.enc"
    assert "would cost" in oboro(f"{draw} --dry-run").out
    assert oboro(draw).code == 0
    assert abs(int(oboro(f"secure open drawn.enc {common}").out) - 1234) <= 15
    again = oboro(f"secure open drawn.enc {common}")
    assert again.code == 1
    assert "UsedError: these urns were used before" in again.err
    assert oboro(draw).code == 4, "an answer stands there"
    assert oboro(f"{draw} --force").code == 1
    assert "spent, not released" not in oboro("ledger show l.ledger").out


def test_a_sealed_answer_that_could_not_be_written_is_fetched_and_opened(
    oboro: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise ob.errors.DataError(f"{path} cannot be written", given="no space left")

    common = "--plan noise.toml --key carrier.secret"
    assert oboro(f"secure urns {common} -o urns.enc").code == 0
    with monkeypatch.context() as patch:
        patch.setattr("oboro.release.release.write_whole", full)
        paid = oboro(
            "secure draw --urns urns.enc --plan noise.toml --answer answer.enc --ledger l.ledger -o drawn.enc"
        )
    assert paid.code == 5  # paid for and stored
    assert "oboro ledger fetch l.ledger --entry 1 -o FILE" in paid.err
    assert oboro("ledger fetch l.ledger --entry 1 -o drawn.enc").code == 0
    assert oboro("certificate verify drawn.enc.certificate.json").code == 0
    assert abs(int(oboro(f"secure open drawn.enc {common}").out) - 1234) <= 15


def test_a_sealed_answer_is_told_like_any_release(oboro: Command) -> None:
    assert oboro("secure urns --plan noise.toml --key carrier.secret -o urns.enc").code == 0
    draw = "secure draw --urns urns.enc --plan noise.toml --answer answer.enc --ledger l.ledger"
    told = oboro(f"{draw} -o drawn.enc --name drawn")
    assert "standard error" in told.err  # the forecast
    assert "oboro secure open" in told.out
    assert "sealed" not in told.out  # nobody reads a ciphertext
    assert "spent" in told.out
    record = json.loads(oboro(f"{draw} -o again.enc --name drawn --json").out)
    assert (record["given_again"], record["output"]) == (True, "again.enc")
    assert "value" not in record
    assert Path("again.enc").read_bytes() == Path("drawn.enc").read_bytes()


def test_a_batch_by_files(oboro: Command) -> None:
    made = oboro("secure plan --eps 1 --delta 1e-2 --urns 1 --answers 2 -o batch.toml")
    assert made.code == 0
    assert "2, all from the same urns" in made.out
    assert oboro("secure urns --plan batch.toml --key carrier.secret -o urns.enc").code == 0
    budget = "ledger create m.ledger --dataset city --unit row --eps 3 --delta 0.5 --assume"
    assert oboro(budget, ob.secure.ASSUMPTION).code == 0
    draw = "secure draw --plan batch.toml --urns urns.enc --ledger m.ledger -o drawn.enc --answer a.enc"
    assert "number of answers" in oboro(draw).err
    assert "different bounds" in oboro(f"{draw} --answer answer.enc").err
    drawn = oboro(f"{draw} --answer b.enc")  # nothing was used up
    assert drawn.code == 0, drawn.err
    opened = oboro("secure open drawn.enc --plan batch.toml --key carrier.secret")
    assert [
        abs(int(line) - true) < 20 for line, true in zip(opened.out.split(), (1200, 34), strict=True)
    ] == [True] * 2


def test_the_protocol_as_printed(oboro: Command) -> None:
    asked = "secure plan --eps 1 --delta 1e-3 --method printed --draws 2"
    refused = oboro(asked)
    assert refused.code == 4
    assert "--urn-delta 0.001" in refused.err
    made = oboro(asked.replace("1e-3", "0.02") + " --urn-delta 1e-3")
    assert "as printed" in made.out
    assert "61 entries, 3,904 bytes" in made.out


def test_mistakes_are_explained(oboro: Command) -> None:
    for line, text in [
        ("secure draw --plan noise.toml --answer answer.enc --ledger l.ledger", "where the urns come from"),
        (
            "secure draw --plan noise.toml --connect x --answer answer.enc --ledger l.ledger",
            "certificate on each side",
        ),
        (
            f"secure draw --plan noise.toml --connect nowhere --answer answer.enc --ledger l.ledger {PARTIES}",
            "address",
        ),
        (
            "secure draw --plan noise.toml --connect 127.0.0.1:1 --answer noise.toml --ledger l.ledger",
            "damaged",
        ),
        ("secure encrypt abc --low 0 --high 1 --key carrier.public -o x.enc", "not a whole number"),
        ("secure encrypt 1 --low 5 --high 1 --key carrier.public -o x.enc", "cannot be searched"),
        ("secure encrypt 1 --low 0 --high 1 --key noise.toml -o x.enc", "is not a key"),
        ("secure keys carrier", "exists already"),
        ("secure verify carrier.crt", ""),
        ("secure plan --eps 0 --delta 1e-6", "eps must be positive"),
        ("secure figure kii-fig9 -o x.svg", "no such figure"),
    ]:
        result = oboro(line)
        assert result.code in (1, 4), line
        assert text in result.err
        assert "Traceback" not in result.err
    secret = oboro("secure encrypt 12a34567 --low 0 --high 1 --key carrier.public -o x.enc")
    assert "12a34567" not in secret.err


def test_figures_and_assumption(oboro: Command, tmp_path: Path) -> None:
    for number in (1, 2, 3, 4):
        assert oboro(f"secure figure kii-fig{number} -o f{number}.svg").code == 0
        assert ElementTree.parse(tmp_path / f"f{number}.svg").getroot().tag.endswith("svg")
    assert oboro("secure assumption").out.strip() == ob.secure.ASSUMPTION
    assert "30,461" in oboro("reproduce kii-table1").out


def test_used_urns_are_written_down_beside_what_a_link_leads_to(tmp_path: Path) -> None:
    from oboro.cli.secure import _shelf

    for name in ("bob.ledger", "alice.secret"):
        (tmp_path / name).touch()
        (tmp_path / f"link-{name}").symlink_to(tmp_path / name)
        own, link = _shelf(None, str(tmp_path / name)), _shelf(None, str(tmp_path / f"link-{name}"))
        assert own.path.resolve() == link.path.resolve()
        (tmp_path / f"link-{name}.urns").touch()  # written by an older oboro
        with pytest.raises(ob.errors.ParameterError, match="beside a link"):
            _shelf(None, str(tmp_path / f"link-{name}"))
