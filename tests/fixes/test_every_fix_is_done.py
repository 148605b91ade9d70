"""Every fix that an error shows is done as it is written: it leads to success, or to the next honest refusal.

`fixes_calls`, `fixes_more`, `fixes_rest` and `fixes_far` bring the errors about, in Python and on the command line. Places of the
sources with a fix that they do not do fail here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import chdir

import pytest
from fixes_calls import CALLS
from fixes_doing import BROKEN, OTHER, SAME, SUCCESS, WORDS, do, outcome, typed_again
from fixes_far import FAR, PLACES
from fixes_more import MORE
from fixes_places import Place, places, places_of, remembered
from fixes_rest import RARE, REST
from fixes_world import Names, write_files

import oboro as ob

LINES = [line for line in (CALLS + MORE + REST + FAR).splitlines() if line and not line.startswith("# ")]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Names]:
    with chdir(tmp_path_factory.mktemp("fixes")), remembered():
        write_files()
        yield Names({**RARE, **PLACES})


def tried(line: str, names: Names) -> tuple[tuple[Place, ...], str, str]:
    """Where the fix of a call comes from, what became of it, and how."""
    call, _, then = line.partition(" ==> ")
    with pytest.raises(ob.OboroError) as refused:
        eval(call, dict(names), names)
    error = refused.value
    assert error.fix is not None, line
    fix = getattr(error, "typed", error.fix)
    if not then and hasattr(error, "line"):
        lines = typed_again(error.line, fix)
        if lines is None:
            return places_of(error), WORDS, fix
        again = names["typed"]
        return places_of(error), *outcome(lambda: [again(shlex.join(words)) for words in lines], error)
    if not then:
        return places_of(error), *do(error, dict(names))
    written = then.replace("{fix_call}", re.sub(r"(?<=\)),? .*$", "", fix)).replace("{fix}", fix)
    return places_of(error), *outcome(lambda: eval(written, {**names, "fix": fix}, names), error)


@pytest.mark.long("every fix, done")
def test_every_fix_is_done_and_leads_on(names: Names) -> None:
    wrong, done = [], set()
    for line in LINES:
        found, became, how = tried(line, names)
        done.update(place.name for place in found)
        if not found or became not in (SUCCESS, OTHER):
            wrong.append(f"{line}\n    {became}: {how}")
    assert not wrong, "\n".join(wrong)
    missing = [place.name for place in places() if place.name not in done]
    assert not missing, "fixes that nobody does, which need lines:\n" + "\n".join(missing)


# -- a wrong fix is seen ------------------------------------------------------------------------------------------------


def test_a_fix_that_changes_nothing_is_seen(names: Names) -> None:
    def asks(eps: object) -> None:
        raise ob.errors.ParameterError("never", given="x", fix=ob.errors.setting(eps="0.1"))

    with pytest.raises(ob.OboroError) as refused:
        asks(0)
    assert outcome(lambda: asks("0.1"), refused.value)[0] == SAME


def test_a_fix_that_is_no_python_is_seen(names: Names) -> None:
    with pytest.raises(ob.OboroError) as refused:
        ob.Pure(-1)
    refused.value.fix = ob.errors.told(eps="2026-01-01")
    assert do(refused.value, dict(names))[0] == BROKEN


@pytest.mark.long("fixes")
def test_a_fix_is_done_to_the_call_that_was_refused(names: Names) -> None:
    for call in ("ob.Pure(-1)", 'ob.Date("d", "2026-01-01", "2026-02-01", missing="2027-01-01")'):
        assert tried(call, names)[1] == SUCCESS
    assert (
        tried('typed("ledger create z.ledger --dataset x --unit row --eps 1 --rho 1")', names)[1] == SUCCESS
    )
