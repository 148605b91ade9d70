"""The page, the container and the examples say the same, and what they say is so."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from service_town import DATASET, listening, town

import oboro as ob
from oboro.cli.main import app  # noqa: F401  # commands are there
from oboro.cli.terminal import whole_command

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")


def commands(text: str) -> set[str]:
    return set(
        re.findall(
            r"^(oboro [^\n#]*?)\s*$", "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)), re.M
        )
    )


def test_the_container_runs_what_the_page_says() -> None:
    said = commands(PAGE)
    docker = re.search(r"^CMD \[(.*)\]$", (ROOT / "deploy" / "Dockerfile").read_text(), re.M)
    compose = re.search(r"command: \[(.*)\]", (ROOT / "deploy" / "compose.yaml").read_text())
    assert docker is not None
    assert compose is not None
    for found in (docker[1], compose[1]):
        assert " ".join(re.findall(r'"([^"]*)"', found)) in said
    assert "docker compose --file deploy/compose.yaml up --detach" in PAGE
    assert "[service,postgres]" in (ROOT / "deploy" / "Dockerfile").read_text()


def test_commands_of_the_page_exist() -> None:
    known = whole_command("en")
    for line in commands(PAGE):
        words, here = line.split()[1:], known
        while words and words[0] in getattr(here, "commands", {}):
            here = here.commands[words.pop(0)]
        options = {one for parameter in here.params for one in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", line)) <= options, line


def test_the_lines_of_the_page_run_as_they_are_written(tmp_path: Path) -> None:
    lines = "\n".join(re.findall(r"^```py\n(.*?)^```", PAGE, re.M | re.S))
    with town(tmp_path / "here") as found, listening(found) as address:
        exec(
            lines.replace("http://127.0.0.1:8750", address),
            {"TOKEN": found.tokens["lab-3"], "print": lambda *_: None},
        )
        assert found.ledger.spent == ob.Pure("0.5")


@pytest.mark.long("examples")
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_script_for_curl_asks_a_question(tmp_path: Path) -> None:
    with town(tmp_path / "here") as found, listening(found) as address:
        script = ["sh", str(ROOT / "examples" / "ask.sh"), address, found.tokens["lab-3"]]
        done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        record = ob.verify_certificate(
            tmp_path / "answer.csv.certificate.json", public_key=found.ledger.public_key
        )
        assert record["dataset"] == DATASET


def has_r() -> bool:
    packages = ["Rscript", "-e", "library(httr2); library(jsonlite)"]
    return (
        shutil.which("Rscript") is not None and subprocess.run(packages, capture_output=True).returncode == 0
    )


@pytest.mark.long("examples")
def test_the_script_for_r_asks_a_question(tmp_path: Path) -> None:
    if not has_r():
        pytest.skip("needs R with httr2 and jsonlite")
    with town(tmp_path / "here") as found, listening(found) as address:
        script = ["Rscript", str(ROOT / "examples" / "ask.R"), address, found.tokens["lab-3"]]
        done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "answer.csv").read_text().startswith('"value"')
        assert found.ledger.spent == ob.Pure("0.1")
