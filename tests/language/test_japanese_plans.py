"""What plans and releases say about themselves in Japanese: every kind of plan, every strategy of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

import oboro as ob
from oboro.audit.samples import samples
from oboro.domain import Category, Domain, Grid, Integer, Mesh
from oboro.language import phrase, said
from oboro.privacy import Unit
from oboro.release import Forecast
from oboro.tables.plan import STRATEGIES

JAPANESE = re.compile("[ぁ-んァ-ヶ一-龠]")
NAMED_BY_USER = {"share of yes, version 1"}  # the name of somebody's own function


@lru_cache
def plans() -> dict[str, Any]:
    made = samples()
    for strategy in STRATEGIES:
        made[f"grid by {strategy}"] = _table(strategy)
    mesh = Domain([Mesh("mesh", level="1km", region=[5339]), Category("sex", ["F", "M"])])
    made["mesh by sex"] = ob.tables.plan(mesh, unit=Unit.cells(), eps=1, count="people")
    return made


@lru_cache
def forecasts() -> dict[str, Forecast]:
    return {name: plan.forecast() for name, plan in plans().items()}


def _table(strategy: str) -> Any:
    return ob.tables.plan(
        Domain([Grid("row", "col", shape=(8, 8))]),
        unit=Unit.cells(),
        eps=1,
        count="n",
        strategy=strategy,
    )


def english_left(plan: Any, forecast: Forecast) -> Iterator[str]:
    """Sentences that a reader of Japanese would see in English."""
    told = [forecast.title, *forecast.columns, *forecast.notes, str(plan.unit)]
    told += [text for text in [getattr(plan, "leaves_out", None)] if text]
    yield from (text for text in told if not JAPANESE.search(said(text)))
    released = plan.describe()["released"]
    if released not in NAMED_BY_USER and not JAPANESE.search(phrase(released)):
        yield released


@pytest.fixture(autouse=True)
def _japanese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")


@pytest.mark.long("words in Japanese")
def test_every_forecast_unit_and_title_is_in_japanese() -> None:
    left = {(n, text) for n, plan in plans().items() for text in english_left(plan, forecasts()[n])}
    assert not left
    planted = Forecast("a title that nobody translated", ("of each",), (), ("nor this note",))
    assert len(list(english_left(plans()["count"], planted))) == 2


@pytest.mark.parametrize("strategy", ["tree", "filtered", "wavelet"])
def test_what_a_guess_at_the_number_of_people_adds_is_in_japanese(strategy: str) -> None:
    plan = _table(strategy)
    assert not list(english_left(plan, plan.forecast(1000)))


@pytest.mark.long("words in Japanese")
def test_no_english_word_is_left_between_japanese_ones() -> None:
    """A pattern that matches too much leaves English joints behind."""
    for name, plan in plans().items():
        if name != "own function":
            printed = f"{forecasts()[name]}\n{phrase(plan.describe()['released'])}"
            joints = re.findall(r"\b(?:of|the|and|with|are|is|for|where|each|to)\b", printed)
            assert not joints, (name, joints, printed)


def test_a_release_prints_in_japanese(tmp_path: Any) -> None:
    import pyarrow as pa

    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="people", unit=Unit.row(), budget=ob.Pure(1))
    plan = ob.statistics.histogram_plan(Domain([Integer("age", 0, 3)]), "age", unit=Unit.row(), eps=1)
    printed = str(ob.run(plan, pa.table({"age": [0, 1, 2]}), ledger))
    for words in ("age のヒストグラム", "95% 区間", "保証", "1 行の有無", "ノイズによる誤差のみを反映"):
        assert words in printed
    assert "～" in printed
