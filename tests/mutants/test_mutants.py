"""Every planted fault is caught by the test that it names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mutants import page
from mutants.planting import Mutant, find
from mutants.registry import KNOWN, LAYERS

HERE = Path(__file__).parent
LEAST = {
    "noise": 5,
    "privacy": 4,
    "ledger": 5,
    "release": 5,
    "engine": 3,
    "tables": 8,
    "statistics": 8,
    "secure": 4,
    "synth": 5,
    "dynamics": 5,
}
# faults that reached the users of other libraries, or stand in a paper, and must be here whatever else is
WANTED = {
    "a scale off by 20%": "laplace scale 20 percent short",
    "a sensitivity halved": "wavelet sensitivity halved",
    "raw data used after clipping": "raw data after clipping",
    "two shares of the budget swapped": "two shares of the budget swapped",
    "noise reused": "noise reused",
    "a branch that depends on the neighbour": "branch on private data",
    "float noise": "float noise",
    "a level of the tree left without noise": "level of the tree without noise",
    "a zero child left without noise": "zero child without noise",
    "eqs. 38-39 of Terada as printed": "terada as printed",
    "the printed stop rule of Kii": "kii stop rule as printed",
    "Lap(S*/eps)": "laplace of smooth sensitivity over eps",
    "an eigenvalue measured instead of promised": "eigenvalue measured instead of promised",
    "the ridge in the wrong formula": "ridge in the wrong formula",
    "one scale for two records": "one scale for two records",
    "independent noise under the shared calibration": "independent noise under the shared calibration",
    "re-randomisation left out": "re randomisation left out",
    "the best Rényi order chosen at the end": "best renyi order at the end",
    "drawn before reserved": "drawn before reserved",
    "a spend recorded after the release": "spent only if it worked",
    "a total that is not checked": "total not checked",
    "a certificate with a private n": "certificate carries a private count",
    "a signature that is not checked": "signature not checked",
    "a name that is used again": "name used again",
    "missing values dropped before the count": "missing values dropped before the count",
    "contributions bounded by value": "contributions bounded by value",
    "an edge mass of a threshold not counted": "empty cells never published",
    "a reading that depends on other values": "one value decides how others are read",
    "a mechanism under another's proof": "gaussian noise under the proof of laplace",
}


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """What became of the mutants that were asked for: one process imports everything, and forks for each."""
    if not hasattr(os, "fork"):
        pytest.skip("mutants need a system with fork")
    chosen = [
        item.callspec.params["mutant"].name
        for item in request.session.items
        if isinstance(getattr(getattr(item, "callspec", None), "params", {}).get("mutant"), Mutant)
    ]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, str(HERE / "runner.py"), "--json", *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {result["name"]: result for result in found}


@pytest.mark.parametrize("mutant", KNOWN.values(), ids=lambda mutant: mutant.name)
def test_each_fault_is_caught_by_the_test_it_names(
    mutant: Mutant, results: dict[str, dict[str, Any]]
) -> None:
    """And the controls are not: a change that changes nothing, a fault that is not reached, a mere breakdown."""
    found = results[mutant.name]
    assert found["verdict"] == mutant.expected, f"{found['ends']}\n{found['said']}"


def test_every_layer_and_every_known_fault_is_there() -> None:
    counts = Counter(mutant.layer for mutant in KNOWN.values() if mutant.expected == "caught")
    assert set(LEAST) | {"controls"} == set(LAYERS)
    assert all(counts[layer] >= least for layer, least in LEAST.items()), counts
    assert all(KNOWN[name].expected == "caught" for name in WANTED.values())


def test_every_place_is_in_the_program() -> None:
    for place in (place for mutant in KNOWN.values() for place in mutant.places):
        assert place.startswith("oboro."), place
        find(place)


def test_the_page_is_fresh() -> None:
    assert page.build() == page.TARGET.read_text(encoding="utf-8"), "run python tests/mutants/page.py"
