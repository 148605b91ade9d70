"""Every example runs in an empty folder, and leaves what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
LEAVES = {
    "mesh_release.py": ("published.parquet", "published.parquet.certificate.json", "map.html"),
    "database_session.py": ("people.ledger",),
    "synthetic_people.py": ("people.oboro", "synthetic.csv"),
    "meter_readings.py": ("published.csv", "published.csv.certificate.json"),
    "two_party_noise.py": ("carrier.public", "city.ledger", "city.urns", "carrier.urns"),
}
NOTEBOOKS = {"first_question.ipynb": 3, "population_mesh.ipynb": 2, "meter_readings.ipynb": 2}  # tables shown

# runs the cells one after the other in one process, and shows what the last line of each gives, as a notebook does
RUN = """
import ast, json, sys
shared = {}
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] != "code":
        continue
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), shared)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), shared) if last else None
    if value is not None:
        print(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
"""


def test_the_list_is_complete() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(LEAVES)
    assert {path.name for path in EXAMPLES.glob("*.ipynb")} == set(NOTEBOOKS)
    for page in ("examples.md", "examples.ja.md"):
        told = (EXAMPLES.parent / "docs" / page).read_text(encoding="utf-8")
        assert all(name in told for name in (*LEAVES, *NOTEBOOKS)), page


@pytest.mark.long("examples")
@pytest.mark.parametrize("name", LEAVES)
def test_an_example_runs_in_an_empty_folder(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Warning" not in done.stderr
    for left in LEAVES[name]:
        assert (tmp_path / left).stat().st_size > 0, left


@pytest.mark.long("examples")
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_in_an_empty_folder_and_shows_interval_and_price(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(EXAMPLES / name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("<table>") == NOTEBOOKS[name]
    assert "<th>95% interval</th>" in done.stdout
    assert "price: <b>eps = " in done.stdout
    assert "spent in all: <b>eps = " in done.stdout


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_one_and_carries_no_output(name: str) -> None:
    record = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))
    assert (record["nbformat"], record["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in record["cells"]}) == len(record["cells"])
    for cell in record["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)
