"""What must hold before a release: `make release-check`, or `python tools/release_check.py dist`.

Builds the source distribution, and the wheel from it; looks into both; installs the wheel in an empty environment;
and does there what a new user does, outside the source tree.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
IN_SDIST = (
    "LICENSE",
    "README.md",
    "README.ja.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "Makefile",
    "pyproject.toml",
    "src/oboro/__init__.py",
    "tests/conftest.py",
    "examples/mesh_release.py",
    "docs/promise.md",
    "docs/build_site.py",
    "tools/lowest.py",
)
IN_WHEEL = (
    "oboro/py.typed",
    "oboro/report/assets/page.css",
    "oboro/report/assets/map.js",
    "oboro/report/assets/band.js",
    "oboro/language/ja.toml",
)


def main(target: Path) -> None:
    check_versions()
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        sdist, wheel = build(work)
        look_into(sdist, wheel)
        use(wheel, work)
        target.mkdir(parents=True, exist_ok=True)
        for made in (sdist, wheel):
            shutil.copy(made, target)
    print(f"ready: {target / sdist.name}, {target / wheel.name}")


def check_versions() -> None:
    """The version is the same wherever it is written."""
    version = re.findall(r'"(.+)"', (ROOT / "src/oboro/_version.py").read_text(encoding="utf-8"))[0]
    for name, pattern in (("CITATION.cff", rf"^version: {version}$"), ("CHANGELOG.md", rf"^## {version}\b")):
        if not re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.M):
            sys.exit(f"{name} does not know version {version}")
    say("version", version)


def build(work: Path) -> tuple[Path, Path]:
    """The source distribution, and the wheel made from nothing but it."""
    python = environment(work / "builder", "hatchling")
    run(python, "-m", "hatchling", "build", "-t", "sdist", "-d", work / "dist", at=ROOT)
    sdist = next((work / "dist").glob("*.tar.gz"))
    with tarfile.open(sdist) as packed:
        packed.extractall(work / "unpacked", filter="data")
    source = next((work / "unpacked").iterdir())
    run(python, "-m", "hatchling", "build", "-t", "wheel", "-d", work / "dist", at=source)
    return sdist, next((work / "dist").glob("*.whl"))


def look_into(sdist: Path, wheel: Path) -> None:
    """Nothing is missing, and nothing is there that should not be."""
    with tarfile.open(sdist) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    with zipfile.ZipFile(wheel) as packed_wheel:
        installed = set(packed_wheel.namelist())
    missing = [name for name in IN_SDIST if name not in inside] + [
        name for name in IN_WHEEL if name not in installed
    ]
    # our own licence, and that of whatever is vendored, beside it and among the licences of the wheel
    for licence in (ROOT / "LICENSE", *(ROOT / "src").rglob("*LICENSE*")):
        place = licence.relative_to(ROOT).as_posix()
        if not any(name.endswith(f".dist-info/licenses/{place}") for name in installed):
            missing.append(f"{place} among the licences of the wheel")
        if place.startswith("src/") and place.removeprefix("src/") not in installed:
            missing.append(place)
    stray = [
        name
        for name in (*inside, *installed)
        if not name.startswith("tests/fixtures/")  # what 0.1 left in the world, for the tests of upgrading
        and re.search(r"__pycache__|\.nb[ic]$|\.ledger|\.key$|\.secret$|^site/|\.venv", name)
    ]
    if missing or stray:
        sys.exit(f"missing: {missing}; should not be there: {stray[:5]}")
    say("sdist", f"{len(inside)} files, {sdist.stat().st_size / 1e6:.1f} MB")
    say("wheel", f"{len(installed)} files, {wheel.stat().st_size / 1e6:.1f} MB")


def use(wheel: Path, work: Path) -> None:
    """What a new user does, in an empty folder with the wheel alone."""
    python = environment(work / "user", str(wheel))
    empty = work / "empty"
    empty.mkdir()
    place = run(python, "-c", "import oboro; print(oboro.__file__)", at=empty).strip()
    if not Path(place).is_relative_to(work):
        sys.exit(f"oboro was found at {place}, not in the new environment")
    command = python.with_name("oboro")
    run(command, at=empty)
    run(command, "demo", "-o", "city", at=empty)
    run(command, "certificate", "verify", "city/published.parquet.certificate.json", at=empty)
    run(command, "ledger", "verify", "city/city.ledger", at=empty)
    say("demo", "runs from the wheel; certificate and ledger verify")
    for notebook in sorted((ROOT / "examples").glob("*.ipynb")):
        folder = work / f"notebook-{notebook.stem}"
        folder.mkdir()
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        run(python, "-c", code, at=folder)
        say("notebook", notebook.name)
    for script in sorted((ROOT / "examples").glob("*.py")):
        folder = work / script.stem
        folder.mkdir()
        run(python, shutil.copy(script, folder), at=folder)
        say("example", script.name)


def environment(where: Path, *packages: str) -> Path:
    """An empty environment with some packages, made without ensurepip."""
    venv.create(where, with_pip=False)
    python = where / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *packages, at=where)
    return python


def run(*command: object, at: Path) -> str:
    """What a command prints; the whole check ends where one fails."""
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command], cwd=at, env=clean, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def say(what: str, text: str) -> None:
    print(f"{what:10} {text}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
