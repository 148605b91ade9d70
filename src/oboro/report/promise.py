"""What a certificate promises, in plain words, with the expected error and how to check it: for any report."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from oboro.errors import InputError
from oboro.exact import about
from oboro.privacy.guarantee import guarantee_from
from oboro.privacy.unit import unit_from
from oboro.records import Facts
from oboro.release.certificate import laws_of
from oboro.report import chart
from oboro.report.page import PROMISE, Words, escape, say

_CLOSENESS = (
    (1.5, "next_to_nothing"),
    (3.0, "little"),
)  # what a factor means to a reader; above, it stands alone


def promise(record: Facts, note: Words | None = None) -> str:
    """The promise as a card: who is protected, and what that means; `note` says what else is to be known of it."""
    rows = [
        ("released", Words.name(record.get("released", ""))),
        ("dataset", Words.same(record.get("dataset", ""))),
        ("unit", unit_words(_part(record, "unit"))),
        ("guarantee", _guarantee_words(record)),
        ("noise", in_line(record.get("noise", ""))),
        ("spent", _spent(_part(record, "ledger"))),
    ]
    listed = "".join(say(PROMISE[key], "dt") + say(words, "dd") for key, words in rows if words.en)
    said = "".join(say(sentence, "p") for sentence in in_words(record))
    more = "" if note is None else say(note, "p", 'class="quiet"')
    return f'<section class="card promise">{say(PROMISE["promise"], "h2")}{said}<dl class="facts">{listed}</dl>{more}</section>'


def in_words(record: Facts) -> list[Words]:
    """The guarantee as sentences that need no mathematics."""
    unit, guarantee = _part(record, "unit"), _part(record, "guarantee")
    which = str(unit.get("kind", ""))
    names = {"column": str(unit.get("column", ""))}
    who = PROMISE.get(f"any_{which}", PROMISE["any_one"]).fill(**names)
    whom = PROMISE.get(f"that_{which}", PROMISE["that_one"]).fill(**names)
    assumed: Sequence[str] = ()
    if guarantee.get("kind") == "conditional":
        assumed = [str(text) for text in guarantee.get("assumptions", ())]
        guarantee = _part(guarantee, "guarantee")
    factor = _factor(guarantee)
    if factor is not None:
        how = "replaced_factor" if unit.get("adjacency") == "replace" else "added_factor"
        how = "signal_factor" if which == "signal" else how
        said = [PROMISE[how].fill(who=who, factor=_above(factor), **_reach(unit))]
        said += [PROMISE[key].fill(whom=whom) for limit, key in _CLOSENESS if factor <= limit][:1]
    else:
        promised = _guarantee_words(record)
        said = [PROMISE["other"].fill(who=who, promised=promised)]
    if guarantee.get("kind") == "approx":
        said.append(PROMISE["but_delta"].fill(delta=guarantee.get("delta", "")))
    known = _part(record, "noise").get("known")
    if isinstance(known, str):  # totals that were public beforehand are not protected
        told = Words.sentence(known)
        said.append(Words(f"{told.en[:1].upper()}{told.en[1:]}.", f"{told.ja}。"))
    return [*said, *(PROMISE["provided"].fill(assumption=Words.sentence(text)) for text in assumed)]


def unit_words(unit: Facts) -> Words:
    """Who is protected, as the parts of the certificate say it: in the words of the command line, which has them once."""
    try:
        own = str(unit_from({key: value for key, value in unit.items() if key != "in_words"}))
    except (KeyError, TypeError, InputError):
        return Words.same("")
    return Words.sentence(own)


def _guarantee_words(record: Facts) -> Words:
    """The guarantee as its numbers say it: never the words that stand beside them."""
    written = {key: value for key, value in _part(record, "guarantee").items() if key != "in_words"}
    try:
        return Words.sentence(str(guarantee_from(written)))
    except (KeyError, TypeError, InputError):
        return Words.same("")


def error_by_size(forecast: Facts, labels: Mapping[str, str] | None = None) -> str:
    """The forecast as a card: a chart and a table. Columns are called by their labels."""
    found = chart.forecast_of(forecast)
    if found is None:
        return ""
    found = found.in_labels(labels or {})
    notes = "".join(
        say(note, "li") for note in chart.note_words(found.notes, [str(row[0]) for row in found.rows])
    )
    return (
        f'<section class="card error">{say(PROMISE["error"], "h2")}{say(PROMISE["error_note"], "p")}'
        f"{chart.error_chart(found)}{chart.error_table(found, leave_out=('cells',))}"
        f"{f'<ul class=notes>{notes}</ul>' if notes else ''}</section>"
    )


def widths(forecast: Facts) -> dict[str, float]:
    """How far the error of a block reaches in 95% of cases, by its side ("4") or the name of its mesh ("1 km")."""
    columns = [str(name) for name in forecast.get("columns", [])]
    found = [index for index, name in enumerate(columns) if "95" in name]
    reach: dict[str, float] = {}
    for row in forecast.get("rows", []) if found else []:
        square, mesh = (
            re.match(r"\s*(\d+)\s*[x×]\s*\1\b", str(row[0])),
            re.match(r"\s*(\d+)\s*(k?m)\b", str(row[0])),
        )
        width = _number(row[found[0]])
        if width is not None and (square or mesh):
            reach[square[1] if square else f"{mesh[1]} {mesh[2]}" if mesh else ""] = width
    return reach


def verify(record: Facts, name: str | None = None) -> str:
    """How anyone can check the certificate."""
    file = _part(record, "file")
    target = name or (f"{file['name']}.certificate.json" if file.get("name") else "FILE")
    rows = [("file", file.get("name", "")), ("key", record.get("public_key", ""))]
    listed = "".join(
        say(PROMISE[key], "dt") + f'<dd class="code">{escape(value)}</dd>' for key, value in rows if value
    )
    digest = f'<dt>SHA-256</dt><dd class="code">{escape(file["sha256"])}</dd>' if file.get("sha256") else ""
    return (
        f'<section class="card verify">{say(PROMISE["verify"], "h2")}{say(PROMISE["verify_how"], "p")}'
        f'<pre class="command"><code>oboro certificate verify {escape(_quoted(target))}</code></pre>'
        f'<dl class="facts">{listed}{digest}</dl></section>'
    )


def title(record: Facts) -> Words | None:
    """The name of the dataset, or else of what is released."""
    if record.get("dataset"):
        return Words.same(record["dataset"])
    return Words.name(record["released"]) if record.get("released") else None


def chip(record: Facts, *, titled: bool = True) -> str:
    """What is released and the guarantee in a few words, for the title band; the dataset where it is not the title."""
    parts = [
        Words.same("" if titled else record.get("dataset") or ""),
        Words.name(record.get("released") or "") if record.get("dataset") else Words.same(""),
        _guarantee_words(record),
    ]
    return "".join(say(part, "span", 'class="chip"') for part in parts if part.en)


def _reach(unit: Facts) -> dict[str, str]:
    """How far apart two signals are that cannot be told apart."""
    return {"distance": str(unit.get("distance", "")), "norm": str(unit.get("norm", "")).replace("inf", "∞")}


def _spent(ledger: Facts) -> Words:
    try:
        said = {key: Words.sentence(guarantee_from(ledger[key])) for key in ("cost", "spent", "budget")}
    except (KeyError, TypeError, InputError):
        return Words.same("")
    return PROMISE["spent_of"].fill(**said)


def _factor(guarantee: Facts) -> float | None:
    if guarantee.get("kind") not in ("pure", "approx"):
        return None
    try:
        return math.exp(float(Fraction(str(guarantee["eps"]))))
    except (KeyError, ValueError, OverflowError, ZeroDivisionError):
        return None


def _above(factor: float) -> str:
    """Rounded up: a promise must not be rounded in its own favour."""
    if factor >= 1000:
        return f"{math.ceil(factor):,}" if factor < 1e15 else f"{factor:.1e}"
    places = 2 if factor < 10 else 1 if factor < 100 else 0
    return f"{math.ceil(factor * 10**places - 1e-9) / 10**places:.{places}f}"


def _number(value: object) -> float | None:
    try:
        number = float(str(value).replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def in_line(value: object) -> Words:
    """The law of a noise with its parameters, as a certificate has them."""
    if not isinstance(value, Mapping):
        return Words.same(value)
    told = [
        Words.sentence(part)
        if key in ("law", "kind")
        else _several(part)
        if "law" not in value and laws_of(part)
        else _parameter(str(key), part)
        for key, part in value.items()
        if key
        not in (
            "known",
            "form",
        )  # said with the promise; how sums are laid out, for those who read the record
    ]
    return Words(", ".join(one.en for one in told), "、".join(one.ja for one in told))


def _several(parts: object) -> Words:
    """The laws of several noises, and how many there are."""
    many = len(parts) if isinstance(parts, Sequence | Mapping) else 1
    laws = [Words.sentence(law) for law in laws_of(parts)]
    return Words(
        f"{', '.join(law.en for law in laws)} ({many})", f"{'、'.join(law.ja for law in laws)}（{many}）"
    )


def _parameter(key: str, value: object) -> Words:
    """One parameter; of several alike, such as levels, only how many; a fraction also as a decimal."""
    if isinstance(value, Mapping):
        told = in_line(value)
    elif isinstance(value, list | tuple):
        counted = any(isinstance(part, Mapping) for part in value)
        told = Words.same(len(value) if counted else ", ".join(map(str, value)))
    elif re.fullmatch(r"\d+/\d*[1-9]\d*", str(value)):
        told = Words.same(f"{value} ({about(Fraction(str(value)))})")
    elif re.fullmatch(r"\d+\.\d{6,}", str(value)):
        told = Words.same(about(float(str(value)), 5))
    elif key == "radius" and (
        found := re.fullmatch(r"(\S+) for (\S+)", str(value))
    ):  # on the grid, and as it was given
        told = PROMISE["steps_for"].fill(steps=found[1], value=found[2])
    else:
        told = Words.sentence(value)
        told = Words.name(value) if told.ja == told.en else told
    named = PROMISE.get(key, Words.sentence(key))
    return Words(f"{named.en} {told.en}", f"{named.ja} {told.ja}")


def _quoted(name: str) -> str:
    """As a shell needs it."""
    import shlex

    return name if name == "FILE" else shlex.quote(name)


def _part(record: Facts, key: str) -> Facts:
    part = record.get(key)
    return part if isinstance(part, Mapping) else {}
