"""Every example runs in an empty folder, and leaves what it says."""

from __future__ import annotations

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


def test_the_list_is_complete() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(LEAVES)
    told = (EXAMPLES.parent / "docs" / "examples.md").read_text(encoding="utf-8")
    assert all(name in told for name in LEAVES)


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
