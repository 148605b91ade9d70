"""A signal plan proves itself: what its noise keeps is computed from its scale, and whatever was altered is refused."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro.dynamics import SignalPlan, calibrate, delta, plan, release
from oboro.dynamics.calibration import from_above, gaussian, mixture
from oboro.dynamics.mixing_variable import nodes
from oboro.dynamics.sigma import kept_delta, needed_scale
from oboro.errors import GuaranteeError, InputError, ParameterError
from oboro.privacy import Approx, Pure
from oboro.release import plan_from
from support import forged

LAG = ([["0.9"]], [["0.1"]], [["1"]], [["0"]])
UNIT = ob.Unit.signal(distance=1)
ASKED: dict[str, Any] = {"unit": UNIT, "horizon": 5, "eps": 1, "delta": "1e-3"}
KINDS: list[dict[str, Any]] = [
    {},
    {"alpha": 2},
    {"alpha": "0.3"},
    {"noise": "shared"},
    {"noise": "shared", "method": "theorem1"},
    {"noise": "shared", "method": "exact"},
    {"noise": "shared", "delta": None},
    {"noise": "shared", "delta": None, "alpha": 1},
    {"noise": "discrete"},
    {"where": "output"},
    {"sigma": 300 * np.eye(6)},
]


def made(**said: Any) -> SignalPlan:
    return plan(LAG, **{**ASKED, **said})


@pytest.mark.parametrize("said", KINDS, ids=lambda said: ", ".join(f"{k} {v}"[:20] for k, v in said.items()))
def test_the_cost_follows_from_the_scale(said: dict[str, Any]) -> None:
    own = made(**said)
    (part,) = own.parts
    assert part.noise is own.mechanism
    assert part.moves == own.sensitivity
    assert own.guarantee.covers(own.cost)
    assert isinstance(own.cost, Approx)
    if said.get("delta", "") is None:
        assert own.cost == Approx(1, 0)
    elif "sigma" not in said:  # tight: the margin is all that is left over
        assert float(own.cost.delta) == pytest.approx(1e-3, rel=1e-7)
    if "sigma" in said:
        less: dict[str, Any] = {"sigma": tuple(tuple(x / 10**9 for x in row) for row in own.sigma)}
    else:
        less = {"scale": own.scale * (1 - Fraction(2, 10**9))}
        if said.get("method") != "exact":
            with pytest.raises(GuaranteeError, match="does not keep its promise"):
                dataclasses.replace(own, **less)
        less = {"scale": own.scale / 10**6}
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        dataclasses.replace(own, **less)
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        dataclasses.replace(own, guarantee=type(own.guarantee)(*_halved(own.guarantee)))  # type: ignore[call-arg]
    wider = {} if "sigma" in said else {"scale": own.scale * 10**12, "step": own.step * 10**12}
    assert own.guarantee.covers(dataclasses.replace(own, **wider).cost)


def _halved(guarantee: Any) -> tuple[Fraction, ...]:
    return (guarantee.eps / 50, *([guarantee.delta] if isinstance(guarantee, Approx) else []))


@pytest.mark.parametrize(
    "careless",
    [
        {"scale": Fraction(1, 10**6)},
        {"scale": Fraction(0)},
        {"unit": ob.Unit.signal(100)},
        {"unit": ob.Unit.signal(1, "inf")},
        {"unit": ob.Unit.row()},
        {"guarantee": Approx("0.01", "1e-9")},
        {"guarantee": Pure(1)},
        {"alpha": Fraction(1, 100)},
        {"alpha": Fraction(3)},
        {"where": "nowhere"},
        {"where": "output", "noise": "discrete"},
        {"noise": "shared"},
        {"method": "mixture"},
        {"protect": ("u", "x0")},
        {"protect": ("u", "u")},
        {"protect": ()},
        {"horizon": -1},
        {"step": Fraction(1, 10**40)},
        {"limit": Fraction(-1)},
        {"limit": Fraction(10) ** 400},
        {"start": (Fraction(1),)},
        {"columns": ("a", "b")},
        {"columns": ("",)},
        {"sigma": ((Fraction(1),),)},
    ],
    ids=str,
)
def test_what_went_past_the_constructor_is_not_run(careless: dict[str, Any], tmp_path: Path) -> None:
    own = made()
    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="l", unit=UNIT, budget=Approx(10, "0.5"))
    with pytest.raises(InputError):
        dataclasses.replace(own, **careless)
    altered = forged(own, **careless)
    with pytest.raises(InputError):
        release(np.zeros(3), altered, ledger=ledger)
    with pytest.raises(InputError):
        ob.dynamics.stream(altered, ledger=ledger)
    assert ledger.spent == Approx(0, 0)


def test_a_scale_beside_sigma_is_refused() -> None:
    """Sigma alone says how large the noise is: a scale that is not used would prove what is not drawn."""
    own = made(sigma=300 * np.eye(6))
    with pytest.raises(ParameterError, match="sigma says"):
        dataclasses.replace(own, scale=Fraction(1000))
    weak = tuple(tuple(x / 1000 for x in row) for row in own.sigma)
    with pytest.raises(InputError):
        dataclasses.replace(own, scale=Fraction(1000), sigma=weak)


def test_a_record_without_defaults_reads_back_and_an_unknown_field_is_refused() -> None:
    own = made()
    record = own.to_dict()
    assert "sigma" not in record
    assert plan_from(record) == own
    for wrong in (
        {"sigmas": []},
        {"system": {**record["system"], "E": []}},
        {"system": {k: v for k, v in record["system"].items() if k != "D"}},
        {"system": {**record["system"], "A": [["0.9", "1"]]}},
        {"system": {**record["system"], "A": [["1e101"]]}},
        {"scale": None},
        {"horizon": True},
    ):
        with pytest.raises(InputError):
            plan_from({**record, **wrong})


def test_where_doubles_cannot_follow_delta_is_not_too_small() -> None:
    """At an eps of 228 the contour once gave z = 129 for a delta of 5e-4: the truth there is 0.9985."""
    rule = nodes(1.954)
    truth = float(rule.weight @ gaussian(129.12**2 / rule.value, 228.0))
    assert truth > 0.99
    assert mixture(1.954, 228.0, (228.0 / 129.12) ** 1.954) >= truth
    with pytest.raises(ParameterError, match="no noise can be calibrated"):
        calibrate(alpha="1.954", eps="228.272907", delta="0.0005271609570793508")
    for alpha, eps, z in ((1.5, 1.0, 0.3), (1.9, 50.0, 8.281), (0.5, 3.0, 0.01), (1.2, 0.01, 0.001)):
        rule = nodes(alpha)
        direct = float(rule.weight @ gaussian(z * z / rule.value, eps))
        assert delta(alpha=alpha, eps=eps, z=z) == pytest.approx(direct, rel=1e-9)


def test_gaussian_delta_from_above_is_above_and_close() -> None:
    """The two parts of g all but cancel for a small eps; its integral, without cancellation, is the reference."""
    for eps in (1e-4, 1e-2, 1.0, 20.0):
        for m in np.geomspace(eps / 20, 3 * math.sqrt(eps) + eps, 8):
            s = np.linspace(0, m, 200_001)[1:]
            density = np.exp(-((s / 2 - eps / s) ** 2) / 2) / math.sqrt(2 * math.pi)
            truth = float((density.sum() - density[-1] / 2) * (s[1] - s[0]))
            found = from_above(m * m, eps)
            assert truth * (1 - 1e-6) <= found <= truth * (1 + 1e-5), (eps, m)


@pytest.mark.parametrize("method", ["theorem1", "mixture", "independent", "exact", "discrete", "pure"])
@pytest.mark.few(2, "calibrations read again")
def test_no_plan_refuses_its_own_scale(method: str) -> None:
    random = np.random.default_rng(7)
    tried = 0
    for _ in range(60):
        alpha = Fraction(str(round(random.uniform(0.3, 2), 3)))
        eps = Fraction(str(round(10 ** random.uniform(-3, 1.5), 6)))
        small = Fraction(str(10 ** random.uniform(-20, -0.5))).limit_denominator(10**30)
        promise = Pure(eps) if method == "pure" else Approx(eps, small)
        dims = int(random.choice([1, 3, 40]))
        try:
            scale = needed_scale(Fraction(3, 7), promise, alpha, method, dims)
        except ParameterError:
            continue
        tried += 1
        found = kept_delta(Fraction(3, 7), scale, eps, alpha, method, dims)
        assert found <= (0 if method == "pure" else small)
        assert kept_delta(Fraction(3, 7), scale / 2, eps, alpha, method, dims) > found
    assert tried > 30


def test_a_release_computes_everything_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapped)

    own = made(where="output")
    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="l", unit=UNIT, budget=Approx(10, "0.5"))
    here = sys.modules["oboro.dynamics.plan"]
    for owner, name in (
        (SignalPlan, "forecast"),
        (here, "sensitivity"),
        (here, "kept_delta"),
        (here, "error_scales"),
        (sys.modules["oboro.release.run"], "price"),
    ):
        count(owner, name)
    done = release(np.zeros(6), own, ledger=ledger)
    done.interval()
    assert calls == Counter(forecast=1, sensitivity=1, kept_delta=1, error_scales=1, price=1)
