"""`oboro certificate`: checks what was published, with the public key alone."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from oboro.cli.options import Json, Language, argument, option, show_json, show_valid
from oboro.cli.terminal import echo, progress
from oboro.errors import CertificateError, DataError, OboroError, ParameterError
from oboro.files import check_output, reads
from oboro.kinds import nearest
from oboro.language import aligned, labelled, left, phrase, reproduced, said

if TYPE_CHECKING:
    from oboro.audit import AuditReport, Covered
    from oboro.release import Reproducible


app = typer.Typer(help="Check the signed page that goes out with a release.", no_args_is_help=True)


@app.command(epilog="Example: oboro certificate verify published.csv.certificate.json")
def verify(
    file: Annotated[
        Path, argument("FILE", "The certificate, a model, which has its own within, or a folder of parts.")
    ],
    data: Annotated[
        Path | None, option("--data FILE", "The released file; by default the one beside the certificate.")
    ] = None,
    key: Annotated[
        str | None, option("--key HEX", "The public key you trust, in hex. Without it, the one in the file.")
    ] = None,
    json: Json = False,
) -> None:
    """Checks the signature and the hash of the released file."""
    from oboro.release import verify_certificate
    from oboro.release.certificate import laws_of, promised

    _no_mark(file)
    record = verify_certificate(file, data=data, public_key=key)
    if json:
        show_json({"valid": True, "key_checked": key is not None, "certificate": record})
        return
    bound = record.get("file")
    unit, guarantee = promised(record)
    facts = {
        "released": phrase(record["released"]),
        "dataset": record["dataset"],
        "unit": said(str(unit)),
        "guarantee": said(str(guarantee)),
        "noise": ", ".join(said(law) for law in laws_of(record["noise"])) or said("none"),
        "file": bound["name"] if bound else said("none"),
        "ledger": said(f"entry {record['ledger']['reserved_at']} of {record['ledger']['id']}"),
        "time": record["time"],
        "signed by": record["public_key"],
    }
    show_valid(facts, key)


def _no_mark(file: Path) -> None:
    """Refuses the mark of synthetic records: it is not signed, and another command looks at it."""
    from oboro.synth.marks import BESIDE

    if file.name.endswith(BESIDE) and file.is_file():
        raise CertificateError(
            f"{file} is the mark of synthetic records, and no certificate",
            given=str(file),
            needed="a certificate; or the records, which another command checks",
            fix=f"oboro synth check {shlex.quote(str(file)[: -len(BESIDE)])}",
        )


# `oboro audit`: attacks plans with neighbouring data, and says what it could certify.

TRIALS = 200_000


def audit(
    plans: Annotated[list[Path], argument("PLAN", "Plans in TOML.")] = [],
    everything: Annotated[bool, option("--all", "A small sample of every kind of plan there is.")] = False,
    coverage: Annotated[
        bool,
        option(
            "--coverage",
            "How often printed intervals cover the truth, for all that has one; --trials runs of each, 200.",
        ),
    ] = False,
    trials: Annotated[
        int | None,
        option(
            "--trials NUMBER",
            "Measurements in each of the two worlds: 200,000, or with --all 40,000 and fewer where one is slow.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        option(
            "--data FILE",
            "With --coverage and the plan of a table: a file of your own to try it on. What is shown is for you alone.",
        ),
    ] = None,
    output: Annotated[Path | None, option("-o --output FILE", "Also write a page.")] = None,
    json: Json = False,
) -> None:
    """Attacks plans on worst-case neighbours and random ones. Spends nothing: the data are made up."""
    if data is not None:
        _coverage_of(plans, data, trials, coverage=coverage, json=json)
        return
    if coverage:
        _coverage(trials, json=json)
    if not plans and not everything:
        if coverage:
            return
        raise ParameterError(
            "nothing to audit", given="no plan", needed="a plan file, or --all", fix="oboro audit --all"
        )
    if output is not None:  # before the work: an audit of everything takes an hour
        for plan in plans:
            reads(plan)
        check_output(output)
    reports = []
    for report, brief in _reports(plans, everything, trials):
        reports.append(report)
        if not json:
            echo(_line(report) if brief and report.verdict == "holds" else said(str(report)))
    if output is not None:
        from oboro.report.audit import write_audit

        write_audit(reports, output)
    if json:
        show_json([report.to_dict() for report in reports])
    if any(report.verdict != "holds" for report in reports):
        raise OboroError(
            "a promise is broken: see above",
            needed="every verdict to be 'holds'",
            fix="do not release with that plan",
        )


def _coverage(trials: int | None, *, json: bool) -> None:
    """One line for each kind of interval: the smallest share that was covered, at each level."""
    from oboro.audit.coverage import RUNS
    from oboro.audit.coverage import coverage as measured

    with progress() as watch:
        found = list(measured(trials or RUNS, watch=watch))
    _show_coverage(found, json=json)


def _coverage_of(plans: list[Path], data: Path, trials: int | None, *, coverage: bool, json: bool) -> None:
    """The same for a table of one's own."""
    from oboro.audit.coverage import RUNS
    from oboro.audit.coverage import coverage as measured
    from oboro.release import load_plan
    from oboro.tables.plan import TablePlan

    if len(plans) != 1 or not coverage:
        raise ParameterError(
            "a file is tried with one plan, for coverage",
            given=f"--data {data}, {len(plans)} plans",
            needed="--coverage and the plan of a table",
            fix="oboro audit plan.toml --coverage --data FILE",
        )
    plan = load_plan(plans[0])
    with progress() as watch:
        found = list(measured(trials or RUNS, plan=cast(TablePlan, plan), data=data, watch=watch))
    _show_coverage(found, json=json)


def _show_coverage(found: list[Covered], *, json: bool) -> None:
    from oboro.audit.coverage import LEVELS, summary
    from oboro.exact import percent

    short = [one for one in found if not one.holds]
    if json:
        show_json([one.to_dict() for one in found])
    else:
        echo(said(f"covered at least, for {', '.join(percent(level) for level in LEVELS)}"))
        for what, holds, shares in summary(found):
            verdict = said("holds" if holds else "falls short")
            echo(f"{verdict}  {left(what, 40)} {'  '.join(f'{100 * share:.1f}%' for share in shares)}")
        for one in short:
            echo(str(one))
    if short:
        raise OboroError(
            "intervals cover less often than they say: see above",
            needed="every kind to hold",
            fix="do not publish these intervals",
        )


def _reports(plans: list[Path], everything: bool, trials: int | None) -> Iterator[tuple[AuditReport, bool]]:
    """Reports, each as soon as it is there, and whether one line says enough."""
    from oboro.audit import everything as all_of_them
    from oboro.audit import run
    from oboro.audit.samples import TRIALS as EACH
    from oboro.release import load_plan

    loaded = [(path, load_plan(path)) for path in plans]
    for path, plan in loaded:
        yield replace(run(plan, trials or TRIALS), name=path.stem), False
    if everything:
        with progress() as watch:
            for report in all_of_them(trials or EACH, watch=watch):
                yield report, True


def _line(report: AuditReport) -> str:
    closest = report.closest
    share = 100 * closest.eps_lower / max(float(closest.promised), 1e-12)
    found = said(f"{share:4.0f}% of {report.guarantee.unconditional}")
    return f"{said(report.verdict)}  {left(report.name, 40)} {said(report.how)} {found}"


# `oboro reproduce`: the papers' tables, computed again and set beside what was printed.

CAPABILITIES = (
    "oboro.tables.papers.terada",
    "oboro.statistics.papers.kashima",
    "oboro.secure.papers.kii",
    "oboro.dynamics.papers.ito",
    "oboro.synth.papers.miura",
)  # modules with a list REPRODUCTIONS


def reproductions() -> dict[str, Reproducible]:
    """Everything that can be reproduced, by name."""
    found = [one for module in CAPABILITIES for one in importlib.import_module(module).REPRODUCTIONS]
    return {one.name: one for one in found}


def reproduce(
    name: Annotated[str | None, argument("NAME", "Which table; without it, the list.")] = None,
    data: Annotated[
        list[Path] | None,
        option(
            "--data FILE", "A file of your own to compute it on, where the table takes one; may be repeated."
        ),
    ] = None,
    everything: Annotated[bool, option("--all", "Every table and figure of every paper.")] = False,
    output: Annotated[Path | None, option("--output -o FILE", "Write a page with the pictures.")] = None,
    language: Language = None,
    json: Json = False,
) -> None:
    """Reproduces a table or figure of a paper, and marks where the paper errs."""
    known = reproductions()
    if name is None and not everything:
        if data:
            raise ParameterError(
                "nothing is asked for",
                given=f"--data {shlex.quote(str(data[0]))}",
                needed=", ".join(one.name for one in known.values() if one.given),
                fix=f"oboro reproduce terada-table2 --data {shlex.quote(str(data[0]))}",
            )
        if output is not None:
            raise ParameterError(
                "nothing is asked for",
                given=f"-o {shlex.quote(str(output))}",
                needed="a name, or --all",
                fix=f"oboro reproduce --all -o {shlex.quote(str(output))}",
            )
        if json:
            show_json([{"name": one.name, "title": one.title} for one in known.values()])
            return
        echo("\n".join(aligned([[one.name, reproduced(one.title)] for one in known.values()], "<")))
        return
    if name is not None and everything:
        raise ParameterError(
            "one table is asked for, and all of them",
            given=f"oboro reproduce {shlex.quote(name)} --all",
            needed="a name, or --all",
            fix="oboro reproduce --all",
        )
    if name is not None and name not in known:
        close = nearest(name, known)
        if close is None:  # the name of a paper: its first table
            close = next((one for one in known if one.startswith(f"{name}-")), None)
        raise ParameterError(
            "no such table" + (f": did you mean {close!r}?" if close else ""),
            given=name,
            needed=", ".join(known),
            fix=f"oboro reproduce {close or next(iter(known))}",
        )
    chosen = [known[name]] if name is not None else list(known.values())
    if data and (everything or chosen[0].given is None):
        taking = [one.name for one in known.values() if one.given]
        raise ParameterError(
            "this table takes no data",
            given=f"oboro reproduce {name or '--all'} --data",
            needed=", ".join(taking),
            fix=f"oboro reproduce {taking[0]} --data FILE",
        )
    for path in data or ():
        if not path.is_file():
            raise DataError(
                f"no such file: {path}",
                given=f"--data {shlex.quote(str(path))}",
                fix="the path of a file",
            )
        reads(path)
    if data and len({path.resolve() for path in data}) < len(data):
        raise DataError(
            "a file is given twice: its rows would count twice",
            given=f"--data {shlex.join(map(str, data))}",
            needed="each file once",
            fix=f"oboro reproduce {name} --data {shlex.quote(str(data[0]))}",
        )
    if output is not None:
        check_output(output)
    found = []
    with progress() as watch:
        for done, one in enumerate(chosen):
            if watch is not None:
                watch(one.name, done, len(chosen))
            found.append(one.given([str(path) for path in data]) if data and one.given else one.make())
    if output is not None:
        from oboro.report.papers import write_papers

        write_papers(found, output, language=language)
    if json:
        show_json([one.to_dict() for one in found] if everything else found[0].to_dict())
    elif output is not None:
        echo(labelled("written", str(output)))
    else:
        echo("\n\n".join(map(str, found)))
