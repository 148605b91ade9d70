"""Every planted fault is caught by the test that it names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mutants import page
from mutants.planting import Mutant, find
from mutants.registry import KNOWN, LAYERS
from support import mostly_long

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


Plant = Callable[[Mutant], dict[str, Any]]


@pytest.fixture(scope="module")
def planted() -> Iterator[Plant]:
    """Says what becomes of a mutant: one process imports everything, and forks for each."""
    if not hasattr(os, "fork"):
        pytest.skip("mutants need a system with fork")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, str(HERE / "runner.py"), "--serve"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=clean, **pipes) as runner:  # type: ignore[call-overload]

        def plant(mutant: Mutant) -> dict[str, Any]:
            print(mutant.name, file=runner.stdin, flush=True)
            return dict(json.loads(runner.stdout.readline()))

        yield plant


ONE_OF_EACH_LAYER = {mutant.layer: mutant for mutant in reversed(KNOWN.values())}.values()


@pytest.mark.parametrize(
    "mutant",
    mostly_long("planted faults", KNOWN.values(), ONE_OF_EACH_LAYER),
    ids=lambda mutant: mutant.name,
)
def test_each_fault_is_caught_by_the_test_it_names(
    mutant: Mutant, planted: Plant, record_property: Callable[[str, object], None]
) -> None:
    """And the controls are not: a change that changes nothing, a fault that is not reached, a mere breakdown."""
    found = planted(mutant)
    record_property("cpu elsewhere", found["seconds"])
    assert found["name"] == mutant.name
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
