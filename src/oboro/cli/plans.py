"""Running, pricing and forecasting any plan: the path that every releasing command takes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from oboro import files
from oboro.cli.options import (
    DataFile,
    Delivery,
    Json,
    LedgerAt,
    Shown,
    argument,
    open_ledger,
    show_json,
    with_options,
)
from oboro.cli.terminal import budget_text, echo, typed, unit_text
from oboro.exact import show as show_number
from oboro.kinds import path_of
from oboro.language import aligned, labelled, phrase, said
from oboro.payment import delivered

if TYPE_CHECKING:
    from oboro.ledger import Ledger
    from oboro.release import Forecast, Plan, Release

PlanFile = Annotated[Path, argument("PLAN", "A plan in TOML.")]


def forecast(plan: PlanFile, json: Json = False) -> None:
    """The error that a plan will have. Free; reads no data."""
    from oboro.release import load_plan

    show_forecast(load_plan(plan), Shown(json=json))


@with_options
def run(plan: PlanFile, data: DataFile, ledger: LedgerAt, delivery: Delivery) -> None:
    """Runs a plan file on data, once, and pays for it from the ledger."""
    from oboro.release import load_plan

    made = load_plan(plan)
    account = open_ledger(ledger, unit=unit_text(made.unit), budget=budget_text(made.guarantee))
    release(made, data, account, delivery)


def show_forecast(plan: Plan, how: Shown, forecast: Forecast | None = None) -> None:
    """Prints what a plan promises and how far off it will be; writes it as TOML if asked."""
    forecast = plan.forecast() if forecast is None else forecast
    if how.save_plan is not None:
        from oboro.release import save_plan

        save_plan(plan, how.save_plan)
    if how.json:
        show_json({**_facts(plan), "forecast": forecast.to_dict()})
        return
    echo(phrase(plan.describe()["released"]))
    echo(
        f"  {labelled('guarantee', said(str(plan.guarantee)))}\n  {labelled('unit', said(str(plan.unit)))}\n"
    )
    echo(typed(str(in_labels(plan, forecast))))


def in_labels(plan: Plan, forecast: Forecast) -> Forecast:
    """The forecast with columns called by their labels, as the release calls them."""
    return forecast.in_labels(dict(getattr(getattr(plan, "domain", None), "labels", ())))


def release(
    plan: Plan,
    data: object,
    ledger: Ledger,
    delivery: Delivery,
    *,
    not_negative: bool = False,
    read: Sequence[str] = (),
    forecast: Callable[[Forecast], Forecast] = lambda found: found,
    keep: Callable[[Release], Path] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Shows the forecast, spends once, writes the release and its certificate; counts also at 0 or more if asked.

    `forecast` is another one than the plan's, `notes` say more of it, from public facts. `keep` writes a release that goes into a folder.
    """
    from oboro.release import quote
    from oboro.release import run as run_plan
    from oboro.release.release import check_counts

    if not_negative:
        check_counts(plan)
    name, json = delivery.name, delivery.json
    given_again = is_given_again(ledger, delivery)
    if delivery.output is not None:
        check_output(plan, delivery.output, getattr(data, "data", data))  # with workers: what they read
    notes = (*of_unit(plan, ledger), *notes)
    if delivery.dry_run:
        check_columns(plan, data)
        terms = quote(plan, ledger)
        remaining = ledger.remaining
        found = with_notes(forecast(terms.forecast), notes)
        if json:
            dry = {"dry_run": True, "cost": terms.cost.to_dict(), "remaining": remaining.to_dict()}
            show_json({**_facts(plan), **dry, "forecast": found.to_dict()})
            return
        show_forecast(plan, Shown(), found)
        echo(f"\n{labelled('would cost', str(terms.cost))}\n{labelled('remaining', str(remaining))}")
        echo(said("nothing was spent"))
        return

    def tell(found: Forecast) -> None:
        echo(typed(f"{in_labels(plan, with_notes(forecast(found), notes))}\n"), err=True)

    released = run_plan(plan, data, ledger, name, tell=None if json else tell)
    output = delivery.output
    if keep is not None:
        output = keep(released).parent
        delivered()
    give(
        released,
        ledger,
        output=output,
        kept=keep is not None,
        json=json,
        given_again=given_again,
        not_negative=not_negative,
    )


def with_notes(forecast: Forecast, notes: Sequence[str]) -> Forecast:
    """The forecast with more that is said of it."""
    return replace(forecast, notes=(*forecast.notes, *notes)) if notes else forecast


def of_unit(plan: Plan, ledger: Ledger) -> tuple[str, ...]:
    """Why more is paid than was asked for, where the ledger counts other steps than the plan."""
    if plan.unit.adjacency == ledger.unit.adjacency:
        return ()
    return (
        "the ledger pays for replaced units, and a replacement is two steps, one out and one in: it costs at least twice",
    )


def of_delta(plan: Plan, ledger: Ledger) -> tuple[str, ...]:
    """Says that a delta would make the noise smaller, where it was forgotten: the plan spends eps alone, and the ledger has delta left."""
    from oboro.privacy import Approx, Pure
    from oboro.privacy.proposals import usual_delta

    asked, left = plan.guarantee, ledger.available.unconditional
    if not isinstance(asked, Pure) or not asked.eps or not isinstance(left, Approx) or not left.delta:
        return ()
    delta = usual_delta(left.delta)
    while delta > left.delta / 1000:
        if ledger.covers(ledger.price(plan.unit, Approx(asked.eps, delta))):
            return (
                f"with --delta {show_number(delta)} the noise is smaller, often by far; the ledger has some left",
            )
        delta /= 10
    return ()


def check_columns(plan: Plan, data: object) -> None:
    """Refuses a file that is not there, or lacks a column, as the real run would. No row is read."""
    from oboro.engine import open_data

    data = getattr(data, "data", data)  # with workers: what they read
    if not isinstance(data, str | Path):  # opened, and looked at, by whoever made the plan
        return
    n = _public_n(plan.to_dict())
    plan.look(open_data(data).without_rows(None if n is None else {plan.unit.column: n}))


def _public_n(record: object) -> int | None:
    """How many units the plan, or a part of it, says that there are."""
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("n"), int):
        return int(record["n"])
    return next((n for one in record.values() if (n := _public_n(one)) is not None), None)


def check_delta(ledger: Ledger, delta: str | None) -> None:
    """Of a command that does without: a delta cannot be paid from a ledger of eps alone."""
    from oboro.errors import GuaranteeError, setting, told

    if delta is not None and ledger.budget.unconditional.kind == "pure":
        raise GuaranteeError(
            "the ledger keeps eps alone, and a delta cannot be paid from it",
            given=told(delta=delta),
            needed="eps alone",
            fix=setting(delta=None),
        )


def is_given_again(ledger: Ledger, delivery: Delivery) -> bool:
    """Whether the name has its release already. Then, and where it is told to, the command may write over a release."""
    again = delivery.name is not None and ledger.find(delivery.name) is not None
    if delivery.force or again:
        files.replaces_releases()
    return again


def give(
    released: Release,
    ledger: Ledger,
    *,
    output: Path | None,
    json: bool,
    given_again: bool = True,
    paid_before: bool = False,
    not_negative: bool = False,
    kept: bool = False,
) -> None:
    """Writes a release with its certificate if asked, and says what it is, what it cost and what remains.

    `paid_before`: as a part of what was reserved earlier, as a tick of a series is. `kept`: it is in the folder `output` already.
    """
    certificate = output if kept else None
    if output is not None and not kept:
        certificate = released.save(output, not_negative=True) if not_negative else released.save(output)
    if output is not None and not kept:
        delivered()
    if json:
        record = {
            **_facts(released.plan),
            "name": released.name,
            "cost": released.cost.to_dict(),
            "given_again": given_again,
            "remaining": ledger.remaining.to_dict(),
        }
        where = (
            {"output": str(output), "certificate": str(certificate)}
            if output is not None
            else {"table": (released.not_negative() if not_negative else released.outgoing()).to_pylist()}
        )
        value = released.value
        number = {"value": value} if isinstance(value, int | float) else {}
        show_json({**record, **number, **where, "ledger": released.certificate.record["ledger"]})
        return
    echo(str(released))
    if not_negative:
        echo("\n" + "\n".join(_at_zero_or_more(released)))
    if output is None and (released.is_cut or not released.plan.readable):
        echo(labelled("all rows" if released.is_cut else "fetch it", _fetched(released, ledger)))
    if output is not None:
        echo("\n" + labelled("written", str(output)))
        if certificate != output:
            echo(labelled("", str(certificate)))
    again = said("nothing: given again as it was stored")
    nothing = said("nothing: the whole series was paid for when it was opened")
    spent = again if given_again else nothing if paid_before else str(released.cost)
    echo(labelled("spent", spent))
    echo(labelled("remaining", str(ledger.remaining)))


_MOST_SHOWN = 20


def _at_zero_or_more(released: Release) -> list[str]:
    """The first counts at 0 or more, each with its interval, as lines."""
    table = released.not_negative()
    every = table.column_names
    ends = {f"{name} {side}" for name in every for side in ("low", "high")} | {"low", "high", "number"}
    names = [name for name in every if name not in ends]
    cut = {name for name in names if f"{name} low" in every and "at 0 or more" in name}
    rows = [
        [
            part
            for name in names
            for part in ([said(name), said("95% interval")] if name in cut else [said(name)])
        ]
    ]
    for row in table.slice(0, _MOST_SHOWN).to_pylist():
        figures = list[str]()
        for name in names:
            figures.append(f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]))
            if name in cut:
                figures.append(phrase(" to ".join(f"{row[f'{name} {side}']:,}" for side in ("low", "high"))))
        rows.append(figures)
    whole = {name for name in names if str(table.schema.field(name).type).startswith("int")}
    sides = "".join(">>" if name in cut else ">" if name in whole else "<" for name in names)
    return aligned(rows, sides)


def _fetched(released: Release, ledger: Ledger) -> str:
    """The line that gives all of a release that was printed short, or not at all, at no cost."""
    # an address is shown without its options, among which may be a password: so it is not one to be typed again
    where = "LEDGER" if "://" in ledger.where else ledger.where
    entry = released.certificate.record["ledger"]["reserved_at"]
    formats = released.plan.formats
    # what is still encrypted goes into a file of any name
    ending = ".csv" if ".csv" in formats else formats[0] if formats else ".enc"
    file = f"{Path(where).stem}-{entry}{ending}"
    return f"oboro ledger fetch {shlex.quote(where)} --entry {entry} -o {shlex.quote(file)}"


def check_output(plan: Plan, output: Path, *inputs: Any, rows: int | None = None) -> None:
    """Refuses a release that cannot be written, or would be written over an input, before anything is spent.

    `rows`: how many it has, where it is there already.
    """
    from oboro.files import CERTIFICATE
    from oboro.release.release import checked_ending

    plan.check_file(checked_ending(plan, output, "-o {}"), rows)
    check_place(output, *inputs, beside=(CERTIFICATE,))
    if rows is None:
        files.refuse_release(output)


def check_place(output: Path, *inputs: Any, beside: tuple[str, ...] = ()) -> None:
    """The same for any file; `inputs` are about to be read, `beside` are endings of files that go out with it."""
    from oboro.errors import ParameterError

    path_of("--output", output)
    for one in inputs:
        if isinstance(one, str | Path):
            files.reads(one)
    if not output.parent.is_dir() or not os.access(output.parent, os.W_OK):
        raise ParameterError(
            "the folder of --output does not exist, or may not be written",
            given=f"-o {output}",
            needed="a folder that exists",
            fix=f"-o {shlex.quote(output.name)}",
        )
    files.check_output(output, *beside)


def _facts(plan: Plan) -> dict[str, object]:
    return {
        "released": plan.describe()["released"],
        "guarantee": plan.guarantee.to_dict(),
        "unit": plan.unit.to_dict(),
    }
