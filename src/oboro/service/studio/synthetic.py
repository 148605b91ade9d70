"""Synthetic data: a model is learned once and paid for; records are drawn from it, as many as wanted, at no further cost."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from oboro.errors import ParameterError
from oboro.exact import whole
from oboro.privacy import Pure
from oboro.records import Record
from oboro.service.desk import Unknown
from oboro.service.edition import Opened
from oboro.service.questions import Facts
from oboro.service.studio.declare import EXAMPLE_RULES, rules_in, rules_text
from oboro.service.studio.page import Form, Visit, fields, for_roles, shown
from oboro.service.studio.price import LEAST, MOST, Way, chosen_dataset, forecast_part
from oboro.service.studio.releases import download, given

if TYPE_CHECKING:
    from oboro.synth import Model

router = APIRouter()
Here = Annotated[Visit, Depends(for_roles("analyst", "steward"))]
Steward = Annotated[Visit, Depends(for_roles("steward"))]
Fields = Annotated[Form, Depends(fields)]
_DRAWN = 1_000_000  # records at a time
_COMPARED = 20_000


@router.get("/synthetic")
def synthetic(here: Here) -> Response:
    return chosen_dataset(here, "synthetic", here.say("Synthetic data"))


@router.get("/synthetic/{dataset}")
def form_of(dataset: str, here: Here, asked: Fields) -> Response:
    opened = here.desk.dataset(dataset, here.person)
    names = [column.name for column in opened.facts.domain]
    return shown(
        here,
        "synthetic.html",
        dataset=dataset,
        facts=opened.facts,
        columns=[(column.name, f"{column.size:,}") for column in opened.facts.domain],
        picked=[name for name in asked.get("columns", "").split("\n") if name in names] or names,
        methods=[
            ("quality", here.say("tables of two or three columns, chosen by what they add: the closest")),
            ("marginals", here.say("each column, and pairs of columns that belong together: quick")),
            ("moments", here.say("each column, and correlations")),
        ],
        asked={**dict.fromkeys(("within", "eps", "delta", "method", "first"), ""), **asked},
        rules=asked.get("rules", rules_text(opened.facts.domain.to_dict())),
        example=EXAMPLE_RULES,
        pure=not _takes_delta(opened),
        eps_alone=isinstance(opened.ledger.budget.unconditional, Pure),
        least=LEAST,
        most=MOST,
    )


def opening(opened: Opened) -> Form:
    """What the page asks when it is opened."""
    delta = "1e-6" if _takes_delta(opened) else ""
    return {"columns": "\n".join(opened.facts.domain.names), "delta": delta, "first": "eps"}


def _takes_delta(opened: Opened) -> bool:
    return hasattr(opened.ledger.budget.unconditional, "delta")


def question_of(asked: Form, facts: Facts) -> Record:
    """Rules are sent only where they are not those of the dataset, and then all of them: they stand in place of what it declares."""
    made: Record = {"question": "synthetic", "method": asked.get("method") or "quality"}
    if names := [name for name in asked.get("columns", "").split("\n") if name]:
        made["columns"] = names
    if delta := asked.get("delta", "").strip():
        made["delta"] = delta
    declared = rules_text(facts.domain.to_dict())
    if "rules" in asked and asked["rules"].replace("\r", "").strip() != declared.strip():
        made |= {"impossible": [], "known": {}, "sums": {}, **rules_in(asked["rules"])}
    return made


WAY = Way("synthetic", question_of, "1")


@router.get("/synthetic/{dataset}/forecast")
def forecast(dataset: str, here: Here, asked: Fields) -> Response:
    """The part of the page that follows the slider."""
    return forecast_part(here, dataset, {**asked, "first": "eps"}, WAY)


# Records of a model that was released


@router.get("/synthetic/{dataset}/{entry:int}/records")
def records(dataset: str, entry: int, here: Here, asked: Fields) -> Response:
    """Records that nobody is, drawn from the model. Free, and as many as wanted."""
    from oboro.synth.marks import BESIDE, write_records

    many = whole("records", _count(asked.get("n", "10000")), least=1, most=_DRAWN)
    table = _model(here, dataset, entry).sample(many)
    ending = ".parquet" if asked.get("format") == "parquet" else ".csv"
    with tempfile.TemporaryDirectory(prefix="oboro-") as folder:
        path = Path(folder, f"records{ending}")
        write_records(table, path)
        content = path.read_bytes()
        beside = path.with_name(path.name + BESIDE)
        if beside.exists():  # CSV cannot carry its mark: both leave together
            packed, name = io.BytesIO(), f"synthetic-{entry}{ending}"
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
                file.writestr(name, content)
                file.writestr(name + BESIDE, beside.read_bytes())
            return download(packed.getvalue(), "application/zip", f"{name}.zip")
    return download(
        content,
        "application/vnd.apache.parquet",
        f"synthetic-{entry}{ending}",
    )


def _count(text: str) -> int:
    if not text.isdigit() or len(text) > 9:
        raise ParameterError(
            "the number of records is not understood", given=text[:50], needed="a whole number", fix="10000"
        )
    return int(text)


def _model(here: Visit, dataset: str, entry: int) -> Model:
    from oboro.synth.model import model_of
    from oboro.synth.plan import ModelPlan

    _, release, _ = given(here, dataset, entry)
    if not isinstance(release.plan, ModelPlan):
        raise Unknown("there is no model in this release", needed="a release of synthetic data")
    return model_of(release)


@router.get("/synthetic/{dataset}/{entry:int}/quality")
def quality(dataset: str, entry: int, here: Steward) -> Response:
    """How good records of the model are. INTERNAL: it looks at real data, and is marked so. For the steward alone."""
    import re

    import pyarrow.parquet as pq

    from oboro.report.quality import write_quality
    from oboro.synth import quality as measure

    opened, release, _ = given(here, dataset, entry)
    model = _model(here, dataset, entry)
    kept = io.BytesIO()
    pq.write_table(model.sample(_COMPARED), kept)
    with tempfile.TemporaryDirectory(prefix="oboro-") as folder:
        made, page = Path(folder, "synthetic.parquet"), Path(folder, "quality.html")
        made.write_bytes(kept.getvalue())
        write_quality(
            measure(opened.settings.data, made), page, certificate=release.certificate, language=here.language
        )
        text = page.read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    headers = {"content-security-policy": f"{policy[1]}; frame-ancestors 'none'"}
    return Response(text, media_type="text/html; charset=utf-8", headers=headers)
