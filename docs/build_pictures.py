"""Takes the pictures of these documents again: `python docs/build_pictures.py`, with Chromium at hand,
and Pillow for those that would be too large.

Every picture shows what a command writes today. The pages are made in a temporary folder, on generated data, and
photographed; the drawings are made here. Names on the command line take some of the pictures only.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import oboro as ob

DOCS = Path(__file__).parent
QUIET = "--headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --virtual-time-budget=8000"
LARGEST = 300_000  # bytes


def map_of_the_demo(work: Path) -> None:
    oboro(work, "demo", "-o", "demo")
    photograph(work / "demo" / "map.html", "map.png", 1400, 900)


def hours_of_a_city(work: Path) -> None:
    page = (DOCS / "series.md").read_text(encoding="utf-8")
    source = "\n".join(part.partition("```")[0] for part in page.split("```python\n")[1:])
    source += '\nob.report.write_hours([table.replace_schema_metadata(series.final().to_arrow().schema.metadata)], "hours.html")\n'
    subprocess.run([sys.executable, "-c", source], cwd=work, check=True, capture_output=True)
    photograph(work / "hours.html", "series.png", 1180, 1150)


def forecast_of_a_table(work: Path) -> None:
    columns = '[[columns]]\nkind = "grid"\nnames = ["row", "col"]\nshape = [512, 512]\n\n'
    columns += '[[columns]]\nkind = "category"\nname = "sex"\nvalues = ["F", "M"]\n'
    (work / "people.toml").write_text(columns, encoding="utf-8")
    asked = ("--workload", "blocks", "--workload", "marginals:sex", "--expected-total", "40000000")
    oboro(work, "table", "forecast", "--domain", "people.toml", "--eps", "0.1", *asked, "-o", "forecast.html")
    photograph(work / "forecast.html", "tables-forecast.png", 1180, 1000)


def quality_of_synthetic_people(work: Path) -> None:
    source = (DOCS.parent / "examples" / "synthetic_people.py").read_text(encoding="utf-8")
    source += '\npyarrow.csv.write_csv(pyarrow.table(real), "real.csv")\n'
    subprocess.run([sys.executable, "-c", source], cwd=work, check=True, capture_output=True)
    oboro(work, "synth", "sample", "people.oboro", "-n", "5000", "-o", "drawn.parquet")
    files = ("real.csv", "drawn.parquet", "-o", "quality.html", "--model", "people.oboro")
    oboro(work, "synth", "report", *files, "--target", "income")
    photograph(work / "quality.html", "synth-quality.png", 1180, 1100)


def band_and_outliers(work: Path) -> None:
    oboro(work, "dynamics", "demo", "-o", "household")
    photograph(work / "household" / "band-with-truth.html", "dynamics-band.png", 1180, 760)
    photograph(work / "household" / "outliers.html", "dynamics-outliers.png", 1180, 900)


def audit_of_a_few_plans(work: Path) -> None:
    row, people = ob.Unit.row(), ob.Domain([ob.Integer("age", 0, 3), ob.Category("sex", ["F", "M"])])
    grid = ob.Domain([ob.Grid("row", "col", shape=(4, 4))])
    system = ([["0.9"]], [["0.1"]], [["1"]], [["0"]])
    plans = {
        "histogram": ob.histogram_plan(people, "age", unit=row, eps=1),
        "by-two": ob.histogram_plan(people, ["age", "sex"], unit=row, eps="0.5"),
        "persons": ob.histogram_plan(people, "sex", unit=ob.Unit.person("id", max_rows=2), eps=1),
        "table": ob.tables.plan(grid, unit=ob.Unit.cells(), eps=1),
        "wavelet": ob.tables.plan(grid, unit=ob.Unit.cells(), eps=1, strategy="wavelet"),
        "meter": ob.dynamics.plan(
            system, unit=ob.Unit.signal(distance=1), horizon=3, eps=1, delta="1e-2", alpha="1.5"
        ),
    }
    for name, plan in plans.items():
        ob.save_plan(plan, work / f"{name}.toml")
    oboro(work, "audit", *(f"{name}.toml" for name in plans), "--trials", "20000", "-o", "audit.html")
    photograph(work / "audit.html", "audit.png", 1180, 720)


def ages_at_three_prices(work: Path) -> None:
    """Counts of ages at eps = 1, 0.1 and 0.01, with their intervals, beside the truth."""
    draw = random.Random("people who do not exist")
    ages = [min(94, int(draw.gammavariate(4, 11))) for _ in range(2000)]
    truth = [sum(low <= age < low + 10 for age in ages) for low in range(0, 120, 10)]
    domain, edges = ob.Domain([ob.Integer("age", 0, 120)]), {"age": range(0, 121, 10)}
    ledger = ob.Ledger.create(
        work / "ages.ledger", dataset="ages", unit=ob.Unit.row(), budget=ob.Pure("1.11")
    )
    parts = []
    for place, eps in enumerate(("1", "0.1", "0.01")):
        plan = ob.histogram_plan(domain, "age", unit=ledger.unit, eps=eps, edges=edges)
        rows = ob.run(plan, {"age": ages}, ledger).interval().to_pylist()
        parts.append(_panel(36 + 304 * place, f"eps = {eps}", rows, truth))
    legend = (
        '<g font-size="13" fill="#5d6576"><rect x="30" y="318" width="14" height="12" fill="#8fb3d4"/>'
        '<text x="50" y="329">published</text><path d="M140 317v14M136 317h8M136 331h8" stroke="#1d2433" stroke-width="1.4"/>'
        '<text x="152" y="329">95% interval</text><path d="M262 324h18" stroke="#b4560f" stroke-width="3"/>'
        '<text x="288" y="329">truth: shown here because these 2,000 people are generated</text></g>'
    )
    (DOCS / "statistics-noise.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 936 345" role="img" font-family="system-ui, sans-serif" '
        'aria-label="How many people are of each age, published at eps = 1, 0.1 and 0.01: the smaller eps, the wider the intervals">\n'
        '<rect width="936" height="345" rx="14" fill="#fffefb"/>\n'
        + "\n".join((*parts, legend))
        + "\n</svg>\n",
        encoding="utf-8",
    )
    print("statistics-noise.svg")


def _panel(left: int, title: str, rows: list[dict[str, int]], truth: list[int]) -> str:
    top, bottom, high = 50, 280, 800
    wide = 270 / len(rows)

    def y(count: int) -> float:
        return round(bottom - (bottom - top) * min(high, max(0, count)) / high, 1)

    shapes = [f'<text x="{left}" y="34" font-size="16" font-weight="700" fill="#1d2433">{title}</text>']
    for rule in range(200, high, 200):
        shapes.append(f'<path d="M{left} {y(rule)}h270" stroke="#ddd8cc"/>')
        shapes.append(
            f'<text x="{left - 4}" y="{y(rule) + 4}" font-size="11" fill="#5d6576" text-anchor="end">{rule}</text>'
        )
    shapes.append(f'<path d="M{left} {bottom}h270" stroke="#5d6576"/>')
    for place, (row, true) in enumerate(zip(rows, truth, strict=True)):
        x = round(left + place * wide, 1)
        middle = round(x + wide / 2, 1)
        shapes.append(
            f'<rect x="{x + 2}" y="{y(row["count"])}" width="{wide - 4:.1f}" height="{bottom - y(row["count"]):.1f}" fill="#8fb3d4"/>'
            f'<path d="M{middle} {y(row["low"])}V{y(row["high"])}M{middle - 4} {y(row["low"])}h8M{middle - 4} {y(row["high"])}h8" stroke="#1d2433" stroke-width="1.4"/>'
            f'<path d="M{x + 1} {y(true)}h{wide - 2:.1f}" stroke="#b4560f" stroke-width="3"/>'
        )
        if place % 3 == 0:
            shapes.append(
                f'<text x="{x}" y="{bottom + 16}" font-size="12" fill="#5d6576">{10 * place}</text>'
            )
    shapes.append(
        f'<text x="{left + 270}" y="{bottom + 16}" font-size="12" fill="#5d6576" text-anchor="end">age</text>'
    )
    return "<g>" + "".join(shapes) + "</g>"


def oboro(work: Path, *words: str) -> None:
    """A command as a user types it, in English."""
    command = [sys.executable, "-m", "oboro", *words]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"oboro {' '.join(words)}\n{done.stderr}")


def photograph(page: Path, name: str, width: int, height: int) -> None:
    """In English, and as NAME.ja.png for readers of Japanese: the page follows the language of the browser."""
    _photograph(page, name, width, height, "en")
    _photograph(page, f"{Path(name).stem}.ja.png", width, height, "ja")


def _photograph(page: Path, name: str, width: int, height: int, language: str) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("Chromium is needed")
    target = DOCS / name
    size = f"--window-size={width},{height}"
    subprocess.run(
        [
            browser,
            *QUIET.split(),
            f"--user-data-dir={page.parent / f'profile-{language}'}",
            f"--lang={language}",
            f"--accept-lang={language}",
            size,
            f"--screenshot={target}",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
    )
    if target.stat().st_size > LARGEST:
        in_256_colours(target)
    taken = target.stat().st_size
    if taken > LARGEST:
        sys.exit(f"{name} has {taken} bytes: take a smaller part of the page")
    print(f"{name}  {width} x {height}, {taken:,} bytes")


def in_256_colours(picture: Path) -> None:
    try:
        from PIL import Image
    except ImportError:
        sys.exit(f"{picture.name} is too large: pip install pillow, which makes it smaller")
    with Image.open(picture) as taken:
        fewer = taken.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    fewer.save(picture, optimize=True)


PICTURES: dict[str, Callable[[Path], None]] = {
    "map": map_of_the_demo,
    "hours": hours_of_a_city,
    "forecast": forecast_of_a_table,
    "statistics": ages_at_three_prices,
    "synth": quality_of_synthetic_people,
    "dynamics": band_and_outliers,
    "audit": audit_of_a_few_plans,
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or PICTURES:
        with tempfile.TemporaryDirectory() as folder:
            PICTURES[wanted](Path(folder))
