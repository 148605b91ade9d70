"""A good line for every command of the command line. A bad line has words exchanged, left out, doubled or bent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fuzz_values import mutated_text
from hypothesis import strategies as st

LINES = [
    "ledger create new.ledger --dataset people --unit row --eps 1 --delta 1e-6 --assume x",
    "ledger show people.ledger --json",
    "ledger fetch people.ledger --entry 1 -o again.csv --json",
    "ledger verify row.ledger --head 1:00",
    "ledger export row.ledger -o e.json",
    "ledger backup row.ledger -o b.ledger",
    "ledger rotate-key cells.ledger",
    "ledger upgrade row.ledger --backup u.ledger",
    "table check grid.csv --domain grid.toml --count count",
    "table forecast --domain grid.toml --eps 1 --unit cells:1:1 --strategy wavelet --count count --expected-total 100",
    "table release grid.csv --domain grid.toml --eps 1e-6 --ledger cells.ledger --count count --strategy wavelet --dry-run",
    "table compare grid.csv --domain grid.toml --eps 1 --count count --strategies wavelet",
    "table series --domain grid.toml --ticks 2 --max-ticks 2 --eps 1e-6 --ledger cells.ledger --count count --name fuzz --workload each_tick:8x8 -o s.toml",
    "table tick hours.csv --series series.toml --tick 1 -o 01.csv",
    "table final --series series.toml --incomplete",
    "table play 01.parquet -o h.html --title x --language ja",
    "table ask table.parquet row=0:3 col=1 --level 0.9",
    "table map table.parquet --domain grid.toml -o m.html --title x --language ja",
    "histogram forecast --domain domain.toml --unit row --column age --edges age=0:120:40 --eps 0.5",
    "histogram release people.csv --domain domain.toml --column region --eps 1e-9 --ledger people.ledger",
    "histogram check people.csv --domain domain.toml",
    "secure plan --eps 2 --delta 0.1 --urns 1 --seconds 0.05 --excess 0.5",
    "secure verify noise.toml --view everyone",
    "secure compare --eps 2 --delta 0.1 --seconds 0.05",
    "secure figure mae -o f.svg",
    "secure keys alice",
    "secure assumption",
    "secure encrypt 7 --low 0 --high 20 --key alice.public -o a.bin",
    "secure add answer.bin answer.bin -o sum.bin",
    "secure serve --plan noise.toml --listen nowhere:99999 --key alice.secret --identity alice.pem --peer bob.crt",
    "secure draw --urns urns.bin --plan noise.toml --answer answer.bin --ledger people.ledger -o d.bin",
    "secure urns --plan noise.toml --key alice.secret -o u.bin",
    "secure open answer.bin --plan noise.toml --key alice.secret",
    "synth draft people.csv -o draft.toml",
    "synth forecast --domain domain.toml --eps 1 --delta 1e-6 --unit row --n 120 --method marginals",
    "synth release people.csv --domain domain.toml --ledger people.ledger --eps 1e-6 --delta 1e-12 -o m2.oboro --n 120 --dry-run",
    "synth sample model.oboro -n 5 -o s.csv --where region=north --seed 3",
    "synth check made.parquet --model model.oboro --json",
    "synth report people.csv absent.parquet -o q.html --target region",
    "synth account --n 1000 --dims 2 --ridge 0.1 --records 10 --delta 1e-5",
    "dynamics plan system.toml --eps 1 --delta 1e-3 --alpha 1.5 --horizon 4 --column age --where input",
    "dynamics forecast --system system.toml --eps 1 --delta 1e-3 --alpha 1.5 --horizon 4 --column age --unit signal:1:2 --json",
    "dynamics release load.csv --system system.toml --column age --eps 1e-6 --delta 1e-9 --ledger signal.ledger --dry-run",
    "dynamics band output.csv -o band.html",
    "dynamics outliers --eps 1 --delta zero -o outliers.html",
    "dynamics demo -o people.csv --data load.csv --column age",
    "certificate verify published.parquet.certificate.json --data published.parquet --json",
    "query people.toml mean_age --eps 1e-9 --by region --expected-n 4",
    "sql people.toml SELECT --eps 1e-9 --expected-n 4 --dry-run",
    "check people.toml --json",
    "forecast plan.toml --json",
    "run plan.toml people.csv --ledger people.ledger --name published --dry-run",
    "audit plan.toml --trials 1000 --json",
    "reproduce absent --json",
    "demo -o people.csv",
    "analyst add absent.toml lab-3 --dataset people --eps 0.5 --per month --approve-above 0.1",
    "analyst list absent.toml --json",
    "analyst password absent.toml lab-3",
    "token create absent.toml lab-3 --days 3",
    "token revoke absent.toml 0123456789abcdef",
    "token list absent.toml --json",
]
STAYS = ("serve", "studio")  # until they are stopped: tests/service starts it, with good and bad declarations
WORDS = [
    "", "-", "--", "--eps", "-o", "--json", "--help", "--name", "0", "-1", "nan", "1e400", "9" * 40, "row", "\0", "\ud800", "人口",
    "people.csv", "people.toml", "domain.toml", "grid.toml", "people.ledger", "plan.toml", "noise.toml", "answer.bin", "urns.bin",
    "model.oboro", "/", ".", "..", "absent.csv", "published.parquet", "alice.secret", "system.toml", "signal.toml", "export.json",
    "x.parquet", "x.csv", "x.docx", "absent/x.csv", "mean age", "sum age", "count", "row,replace", "person:who:3", "1/3", "1/0",
]  # fmt: skip


def bent(line: str) -> st.SearchStrategy[list[str]]:
    """One bad line. The command itself stays, so that its options are what is tried."""

    @st.composite
    def edit(draw: st.DrawFn) -> list[str]:
        words = [word.replace("_", " ") if word == "mean_age" else word for word in line.split()]
        kept = (
            1 if words[0] in ("query", "sql", "check", "forecast", "run", "audit", "reproduce", "demo") else 2
        )
        for _ in range(draw(st.integers(1, 3))):
            if len(words) <= kept:
                break
            place = draw(st.integers(kept, len(words) - 1))
            what = draw(st.sampled_from(["word", "bend", "bend", "drop", "double", "insert"]))
            if what == "word":
                words[place] = draw(st.sampled_from(WORDS) | st.text(max_size=8))
            elif what == "bend":
                words[place] = draw(mutated_text(words[place]))
            elif what == "drop":
                del words[place]
            elif what == "double":
                words.insert(place, words[place])
            else:
                words.insert(place, draw(st.sampled_from(WORDS)))
        return words

    return edit()


def commands() -> Iterator[str]:
    """Every command that the program knows, by its words."""
    import typer

    from oboro.cli.main import app

    def walk(group: Any, before: str) -> Iterator[str]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from walk(command, f"{before}{name} ")
            else:
                yield f"{before}{name}"

    yield from walk(typer.main.get_command(app), "")


def untried() -> list[str]:
    """Commands without a line."""
    return [
        command
        for command in commands()
        if command not in STAYS and not any(f"{line} ".startswith(f"{command} ") for line in LINES)
    ]
