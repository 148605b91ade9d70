"""The command line as the guide types it."""

from __future__ import annotations

import datetime as dt
import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from synth_people import people

import oboro as ob
from oboro.cli import main
from oboro.domain import Category, Date, Domain
from oboro.errors import DomainError
from oboro.synth.marks import mark_of, marked, write_records

Command = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    csv.write_csv(people(1500), tmp_path / "data.csv")

    def command(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", *line.split()])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        output = capsys.readouterr()
        return int(stop.value.code or 0), output.out, output.err

    return command


def test_a_draft_marks_what_few_rows_hold(oboro: Command, tmp_path: Path) -> None:
    rows = ["north,2020-03-05"] * 30 + ['"say ""hm""",2021-07-09'] * 9 + ["east,2020-03-05"] * 10
    (tmp_path / "few.csv").write_text("region,day\n" + "\n".join(rows) + "\n")
    code, out, _ = oboro("synth draft few.csv -o few.toml")
    text = (tmp_path / "few.toml").read_text()
    assert code == 0
    assert "NOT PRIVATE" in out
    assert "marked RARE, held by fewer than 10 rows: 1 in all" in out
    assert "# NOT PRIVATE" in text
    assert next(line for line in text.splitlines() if "# RARE" in line).startswith('    "say \\"hm\\"",  #')
    assert text.count("# RARE") == 1
    drafted = Domain.from_dict({**tomllib.loads(text), "draft": False})
    assert drafted.columns[0] == Category("region", ["east", "north", 'say "hm"'])
    assert drafted.columns[1] == Date("day", "2020-01-01", "2029-12-31")  # not the days themselves


MARKS = {
    "all": lambda text: text,
    "the key": lambda text: without_comments(text),
    "the header": lambda text: text.replace("draft = true\n", "").replace("# RARE", "# rare"),
    "the rare ones": lambda text: "\n".join(
        line for line in text.split("\n") if not line.startswith(("draft", "# NOT"))
    ),
    "those of 0.1": lambda text: text.replace("draft = true\n", ""),
}


COLUMN = '[[columns]]\nname = "a"\nkind = "category"\nvalues = [\n    "x",{}\n    "y",\n]\n'


@pytest.mark.parametrize(
    "comment",
    [
        "#RARE",
        "# rare: held by few",
        "#  Rare held by",
        "# seen # RARE",
        "#NOT PRIVATE",
        "# not  private",
        "\t#Not-Private:",
    ],
)
def test_a_mark_of_a_draft_is_known_however_it_is_spelt(tmp_path: Path, comment: str) -> None:
    (tmp_path / "a.toml").write_text(COLUMN.format(comment))
    with pytest.raises(DomainError, match="still a draft"):
        Domain.from_toml(tmp_path / "a.toml")


@pytest.mark.parametrize(
    "harmless",
    [
        ' "# RARE",',
        " '#rare', # rarely seen",
        ' "say \\"# not private",',
        " # rare diseases are listed elsewhere",
        ' """\n# NOT PRIVATE: \\""" # RARE""",',
        " # private rooms, not shared ones",
    ],
)
def test_words_that_are_no_mark_of_a_draft_are_read(tmp_path: Path, harmless: str) -> None:
    (tmp_path / "a.toml").write_text(COLUMN.format(harmless))
    assert Domain.from_toml(tmp_path / "a.toml").names == ("a",)


def without_comments(text: str) -> str:
    return "\n".join(line.partition("#")[0] for line in text.split("\n"))


@pytest.mark.parametrize("left", MARKS)
def test_a_draft_is_no_domain_while_a_mark_is_left(oboro: Command, tmp_path: Path, left: str) -> None:
    """Wherever a domain file is read: for synthetic data, histograms, tables, questions, plans."""
    (tmp_path / "few.csv").write_text("region,age\n" + "north,5\n" * 30 + "Hidden Village,7\n")
    assert oboro("synth draft few.csv -o few.toml")[0] == 0
    text = MARKS[left]((tmp_path / "few.toml").read_text())
    (tmp_path / "few.toml").write_text(text)
    (tmp_path / "ask.toml").write_text('data = "few.csv"\nledger = "l.ledger"\n' + text)
    assert oboro("ledger create l.ledger --dataset people --unit row --eps 9 --delta 1e-4")[0] == 0
    asked = "--domain few.toml --eps 1"
    for line in (
        f"synth release few.csv {asked} --delta 1e-6 --ledger l.ledger -o model.oboro",
        f"synth forecast {asked} --delta 1e-6 --unit row",
        f"histogram release few.csv {asked} --column region --ledger l.ledger -o out.csv",
        f"histogram forecast {asked} --unit row --column region --save-plan p.toml",
        "histogram check few.csv --domain few.toml",
        f"table release few.csv {asked} --ledger l.ledger -o out.parquet",
        f"table forecast {asked}",
        "query ask.toml count --by region --eps 1 -o out.csv",
    ):
        code, out, err = oboro(line)
        assert code == 4, line
        assert "still a draft" in err, line
        assert "Village" not in out + err
    for read in (Domain.from_toml, *([] if left == "the key" else [ob.load_plan])):
        with pytest.raises(DomainError, match="still a draft"):
            read(tmp_path / "few.toml")
    done = without_comments(text).replace("draft = true", "").replace('"Hidden Village",', "")
    (tmp_path / "few.toml").write_text(done)
    code, out, err = oboro(f"histogram release few.csv {asked} --column region --ledger l.ledger -o out.csv")
    assert code == 0, err


@pytest.mark.parametrize("low", [0, 1, -1, 7, -90, 100, -1000, 12345])
@pytest.mark.parametrize("width", [0, 1, 3, 99, 10_000])
@pytest.mark.few(10, "drafts")
def test_no_extreme_stands_in_a_draft(tmp_path: Path, low: int, width: int) -> None:
    """Whole numbers, fractions, days: bounds are round, beyond what is there, and 0 where nothing is on the other side."""
    high = low + width
    first = dt.date(2020, 1, 1) + dt.timedelta(days=low % 4000)
    data = {
        "i": [low, high],
        "r": [low + 0.5, high + 0.25],
        "s": [low / 1000, high / 1000],
        "d": [str(first), str(first + dt.timedelta(days=width))],
    }
    ob.synth.draft(data, tmp_path / "d.toml")
    written = tomllib.loads((tmp_path / "d.toml").read_text())
    domain = Domain.from_dict({**written, "draft": False})
    for column in domain:
        values = [float(v) for v in data[column.name]] if column.name != "d" else data["d"]
        ends = [column.value(0), column.value(column.size - 1)]
        if column.name == "d":
            assert str(ends[0]) < min(values) <= max(values) < str(ends[1])
            assert (ends[0].month, ends[0].day, ends[0].year % 10) == (1, 1, 0)
            continue
        assert ends[0] == 0 <= min(values) or ends[0] < min(values)
        assert ends[1] == 0 > max(values) or ends[1] > max(values)
        assert all(f"{abs(end):e}"[0] in "0125" and float(f"{end:.0e}") == end for end in ends)


def test_what_is_drafted_is_a_file_and_not_a_domain(tmp_path: Path) -> None:
    done = ob.synth.draft({"a": ["x", "y"], "t": [None, None]}, tmp_path / "d.toml")
    assert (done.columns, done.left_out, done.rare) == (("a",), ("t",), 2)
    with pytest.raises(ob.OboroError):
        ob.synth.plan(done, unit=ob.Unit.row(), eps=1, delta="1e-6")  # type: ignore[arg-type]


def test_a_draft_says_what_is_not_read(oboro: Command, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("code,day\n01,2013/10/22\n04,2014/01/05\n")
    code, out, _ = oboro("synth draft odd.csv -o odd.toml")
    assert code == 0
    assert "left out: day (dates that are not read: write them as 2013-10-22)" in out
    assert "column code: codes with leading zeros are kept as texts: 01 is not 1" in out
    (tmp_path / "many.csv").write_text("code\n" + "".join(f"{i:04}\n" for i in range(200)))
    assert "left out: code (more than 100 different codes; " in oboro("synth draft many.csv -o many.toml")[1]


def test_a_file_without_rows_is_said_to_have_none(oboro: Command, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("age\n")
    (tmp_path / "one.csv").write_text("age\n3\n")
    Domain([ob.Integer("age", 0, 99)]).to_toml(tmp_path / "d.toml")
    assert oboro("ledger create l.ledger --dataset a --unit row,replace --eps 9 --delta 1e-4")[0] == 0
    line = "--domain d.toml --eps 1 --delta 1e-6 --ledger l.ledger -o m.oboro"
    for file, beside, said in (
        ("none.csv", "", "the data has no rows"),
        ("one.csv", "--method gaussian --records 9", "the data has too few rows"),
    ):
        code, _, err = oboro(f"synth release {file} {line} {beside}")
        assert code == 4
        assert said in err
        assert "--n" not in err
        assert "a file with more rows" in err
    code, _, err = oboro(f"synth release none.csv {line} --dry-run")
    assert code == 4
    assert "--n NUMBER" in err  # nobody knows how many rows there are but who has the file


def test_a_page_is_no_pdf(oboro: Command, tmp_path: Path) -> None:
    code, _, err = oboro("synth report data.csv data.csv -o t.pdf")
    assert code == 4
    assert "-o t.html" in err
    assert not (tmp_path / "t.pdf").exists()


@pytest.mark.long("whole commands")
def test_the_whole_way(oboro: Command, tmp_path: Path) -> None:
    code, out, _ = oboro("synth draft data.csv -o draft.toml")
    assert code == 0
    assert "not private" in out
    text = (tmp_path / "draft.toml").read_text()
    assert text.startswith("# A draft")
    (tmp_path / "domain.toml").write_text(without_comments(text).replace("draft = true", ""))
    assert oboro("ledger create l.ledger --dataset people --unit row,replace --eps 9 --delta 1e-4")[0] == 0
    spend = (
        "synth release data.csv --domain domain.toml --eps 4 --delta 1e-6 --ledger l.ledger -o model.oboro"
    )
    code, out, err = oboro(spend)
    assert code == 0, err
    assert "n = 1,500 rows, counted" in err
    assert "remaining  eps = 5" in out
    assert oboro("synth sample model.oboro -n 1000 -o synthetic.parquet")[0] == 0
    made = pq.read_table(tmp_path / "synthetic.parquet")
    assert made.num_rows == 1000
    assert made.column_names == people(1).column_names
    code, out, err = oboro(
        "synth sample model.oboro -n 50 --where sex=F --where age=30:40 --where region=north,east -o some.csv"
    )
    assert code == 0, err
    assert set(csv.read_csv(tmp_path / "some.csv")["sex"].to_pylist()) == {"F"}
    code, out, err = oboro("synth check some.csv --model model.oboro")
    assert code == 0, err
    assert "drawn again from the model: the same" in out
    assert "where      age = 30..40; region = " in out  # some of the people, and it says so
    code, out, err = oboro("synth report data.csv synthetic.parquet -o quality.html --model model.oboro")
    assert code == 0, err
    assert "INTERNAL" in out
    promised = (tmp_path / "quality.html").read_text(encoding="utf-8")
    assert "eps = 4" in promised
    code, _, err = oboro("synth report synthetic.parquet data.csv -o quality.html --target sex")
    assert code == 4
    right = "oboro synth report data.csv synthetic.parquet -o quality.html --target sex"
    assert f"fix     {right}\n" in err
    assert oboro(right.removeprefix("oboro "))[0] == 0
    assert (tmp_path / "quality.html").read_text(encoding="utf-8") == promised  # by the mark, without --model
    code, out, _ = oboro(f"{spend.replace('model.oboro', 'again.oboro')} --dry-run --n 1500")
    assert code == 0
    assert "nothing was spent" in out
    code, out, err = oboro(f"{spend.replace('model.oboro', 'second.oboro')} --json")
    assert json.loads(out)["remaining"]["eps"] == "1", err
    assert oboro(spend.replace("model.oboro", "third.oboro"))[0] == 3


def test_a_model_takes_the_path_of_every_release(
    oboro: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise ob.errors.DataError(f"{path} cannot be written", given="no space left")

    ob.Domain([ob.Integer("age", 0, 120), ob.Category("sex", ["F", "M"])]).to_toml(tmp_path / "d.toml")
    assert oboro("ledger create l.ledger --dataset people --unit row --eps 9 --delta 1e-4")[0] == 0
    asked = "--domain d.toml --eps 1 --delta 1e-6"
    release = f"synth release data.csv {asked} --ledger l.ledger"
    for name in ("model.csv", "model.zip", "model"):  # before anything is paid
        code, _, err = oboro(f"{release} -o {name}")
        assert code == 4
        assert "-o model.oboro" in err
    with monkeypatch.context() as patch:
        patch.setattr("oboro.release.release.write_whole", full)
        code, _, err = oboro(f"{release} -o model.oboro --name m")
    assert code == 5  # paid for and stored
    assert "oboro ledger fetch l.ledger --entry 1 -o FILE" in err
    code, out, err = oboro("ledger fetch l.ledger --entry 1 -o model.oboro")
    assert code == 0, err
    assert "oboro synth sample" in out
    assert oboro(f"{release} -o again.oboro --name m")[0] == 0
    assert (tmp_path / "again.oboro").read_bytes() == (tmp_path / "model.oboro").read_bytes()
    assert oboro(f"synth forecast {asked} --unit row --save-plan p.toml")[0] == 0
    code, out, err = oboro("run p.toml data.csv --ledger l.ledger -o other.oboro --json")
    assert code == 0, err
    assert json.loads(out)["certificate"] == "other.oboro"  # within
    assert not list(tmp_path.glob("*.certificate.json"))
    for name in ("model.oboro", "other.oboro"):
        assert ob.synth.load(tmp_path / name).sample(5).num_rows == 5


def test_a_mark_alone_is_not_taken_for_a_proof(oboro: Command, tmp_path: Path) -> None:
    """The mark of a draw, put onto other records, with a hash that fits: real ones, say."""
    data = people(200)
    domain = ob.Domain([ob.Category("sex", ["F", "M"])])
    unit = ob.Unit.row("replace")
    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="people", unit=unit, budget=ob.Approx(9, "1e-4"))
    plan = ob.synth.plan(domain, unit=unit, eps=1, delta="1e-6", n=200, method="marginals")
    model = ob.synth.release(data, plan, ledger=ledger)
    model.save(tmp_path / "model.oboro")
    drawn = model.sample(40)
    write_records(drawn, tmp_path / "made.parquet")
    forged = pa.table({"sex": ["F"] * 40}).replace_schema_metadata(drawn.schema.metadata)
    write_records(forged, tmp_path / "forged.parquet")
    for given in ("", "--model model.oboro"):
        code, out, err = oboro(f"synth check made.parquet {given} --key {ledger.public_key}")
        assert code == 0, err
        assert out.startswith("valid")
        assert "Not verified" not in out
        assert json.loads(oboro(f"synth check made.parquet {given} --json")[1])["valid"] is True
        assert oboro(f"synth check made.parquet {given} --key {'0' * 64}")[0] == 1
        code, out, err = oboro(f"synth check forged.parquet {given}")
        assert (code, out) == (1, "")
        assert "does not hold what the model draws" in err
    assert oboro("synth check model.oboro")[0] == 0


def test_a_mark_without_its_model_is_not_taken_for_a_proof(oboro: Command, tmp_path: Path) -> None:
    """As earlier versions wrote it, or as somebody would leave it who has other records."""
    data = people(200)
    domain = ob.Domain([ob.Category("sex", ["F", "M"])])
    ledger = ob.Ledger.create(
        tmp_path / "l.ledger", dataset="people", unit=ob.Unit.row(), budget=ob.Approx(9, "1e-4")
    )
    plan = ob.synth.plan(domain, unit=ob.Unit.row(), eps=1, delta="1e-6", method="marginals")
    model = ob.synth.release(data, plan, ledger=ledger)
    model.save(tmp_path / "model.oboro")
    drawn = model.sample(40)
    mark = {name: part for name, part in mark_of(drawn).items() if name != "model"}
    write_records(marked(drawn, mark), tmp_path / "made.parquet")
    write_records(marked(pa.table({"sex": ["F"] * 40}), mark), tmp_path / "forged.parquet")
    for name in ("made.parquet", "forged.parquet"):
        code, out, err = oboro(f"synth check {name} --key {ledger.public_key}")
        assert code == 1, err
        assert out.startswith("NOT VERIFIED")
        assert "Not verified: that these records came from it" in out
        code, out, _ = oboro(f"synth check {name} --json")
        assert (code, json.loads(out)["valid"]) == (1, False)
    assert oboro("synth check made.parquet --model model.oboro")[0] == 0
    assert oboro("synth check forged.parquet --model model.oboro")[0] == 1


def test_a_file_that_may_hold_more_than_its_records_is_written_anew(oboro: Command, tmp_path: Path) -> None:
    """Real rows among the metadata, say, which no table shows."""
    domain = ob.Domain([ob.Category("sex", ["F", "M"])])
    ledger = ob.Ledger.create(
        tmp_path / "l.ledger", dataset="people", unit=ob.Unit.row(), budget=ob.Approx(9, "1e-4")
    )
    plan = ob.synth.plan(domain, unit=ob.Unit.row(), eps=1, delta="1e-6", method="marginals")
    drawn = ob.synth.release(people(200), plan, ledger=ledger).sample(40)
    more = drawn.replace_schema_metadata({**drawn.schema.metadata, b"rows": b"Taro Yamada"})
    pq.write_table(more, tmp_path / "made.parquet")
    code, out, _ = oboro("synth check made.parquet")
    assert code == 1
    assert out.startswith("NOT VERIFIED")
    assert "write it anew: oboro synth check made.parquet -o made-2.parquet" in out
    found = json.loads(oboro("synth check made.parquet --json")[1])
    assert (found["valid"], found["redrawn"], found["alone"]) == (False, True, False)
    code, out, err = oboro("synth check made.parquet -o made-2.parquet")
    assert (code, err) == (1, "")  # whoever goes by the exit code speaks of the file that was checked
    assert out.startswith("NOT VERIFIED")
    assert "made-2.parquet holds these records anew" in out
    assert "made-2.parquet" in out.splitlines()[-1]
    code, out, err = oboro("synth check made-2.parquet")
    assert code == 0, err
    assert out.startswith("valid")
    assert b"Taro Yamada" not in (tmp_path / "made-2.parquet").read_bytes()


def test_records_forecasts_and_accounts(oboro: Command, tmp_path: Path) -> None:
    ob.Domain([ob.Integer("age", 0, 120), ob.Integer("amount", 0, 99_999)]).to_toml(tmp_path / "d.toml")
    assert oboro("ledger create l.ledger --dataset people --unit row,replace --eps 9 --delta 1e-4")[0] == 0
    code, out, err = oboro(
        "synth release data.csv --domain d.toml --eps 3 --delta 1e-5 --method gaussian --records 100 --ledger l.ledger -o r.csv"
    )
    assert code == 0, err
    assert csv.read_csv(tmp_path / "r.csv").num_rows == 100
    assert oboro("certificate verify r.csv.certificate.json")[1].startswith("valid")
    code, out, _ = oboro("synth forecast --domain d.toml --eps 1 --delta 1e-6 --unit row --save-plan p.toml")
    assert code == 0
    assert "95% within" in out
    code, out, _ = oboro("synth account --n 1e7 --dims 6 --min-eigenvalue 0.01 --records 1e7 --delta 1e-5")
    assert code == 0
    assert "2.344741" in out
    assert (
        json.loads(oboro("synth account --n 1e7 --dims 6 --ridge 0.01 --records 1e7 --delta 1e-5 --json")[1])[
            "assumption"
        ]
        is None
    )
    for name in ("miura-table1", "miura-table2", "miura-fig2"):
        code, out, _ = oboro(f"reproduce {name}")
        assert code == 0
        assert "the paper errs" in out


@pytest.mark.parametrize(
    "line",
    [
        "synth release data.csv --domain d.toml --eps 1 --delta 1e-6 --ledger l.ledger -o model.zip",
        "synth release data.csv --domain d.toml --eps 1 --delta 1e-6 --ledger l.ledger -o nowhere/model.oboro",
        "synth release data.csv --domain d.toml --delta 1e-6 --ledger l.ledger -o model.oboro",
        "synth release data.csv --domain d.toml --eps 1 --delta 1e-6 --ledger l.ledger -o model.oboro --dry-run",
        "synth release data.csv --domain d.toml --eps 1 --delta 1e-6 --ledger l.ledger -o model.oboro --method best",
        "synth release absent.csv --domain d.toml --eps 1 --delta 1e-6 --ledger l.ledger -o model.oboro",
        "synth sample absent.oboro -n 10 -o s.parquet",
        "synth sample absent.oboro -n 10 -o s.xlsx",
        "synth account --n 1e7 --dims 6 --records 1e7 --delta 1e-5",
        "synth account --n 1e7 --dims 6 --records 1e7 --delta 0 --ridge 0.1",
    ],
)
def test_what_public_facts_rule_out_is_refused_in_a_few_lines(
    oboro: Command, tmp_path: Path, line: str
) -> None:
    ob.Domain([ob.Integer("age", 0, 120)]).to_toml(tmp_path / "d.toml")
    oboro("ledger create l.ledger --dataset people --unit row,replace --eps 9 --delta 1e-4")
    code, out, err = oboro(line)
    assert code == 4, out
    assert "Traceback" not in err
    assert "eps = 9" in oboro("ledger show l.ledger")[1].split("remaining")[1].splitlines()[0]


def test_a_ledger_of_eps_alone_pays_for_a_question_and_for_synthetic_data_of_the_same_people(
    oboro: Command, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("sex,age\n" + "f,5\nm,7\n" * 300)
    (tmp_path / "d.toml").write_text(
        'data = "rows.csv"\nledger = "l.ledger"\n'
        '[[columns]]\nname = "sex"\nkind = "category"\nvalues = ["f", "m"]\n'
        '[[columns]]\nname = "age"\nkind = "integer"\nlow = 0\nhigh = 20\n'
    )
    code, out, _ = oboro("ledger create l.ledger --dataset people --unit row --eps 3")
    assert code == 0
    assert "pays for" in out
    assert "synthetic data, noisier than with a delta" in out
    assert oboro("query d.toml count --eps 1")[0] == 0
    code, out, err = oboro(
        "synth release rows.csv --domain d.toml --eps 2 --method quality --ledger l.ledger -o m.oboro"
    )
    assert code == 0, err
    assert oboro("synth sample m.oboro -n 10 -o s.csv")[0] == 0
    assert ob.Ledger.open("l.ledger").spent == ob.Pure(3)
    code, _, err = oboro("synth release rows.csv --domain d.toml --eps 2 --ledger l.ledger -o again.oboro")
    assert code != 0
    assert not (tmp_path / "again.oboro").exists()
