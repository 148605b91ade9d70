"""`oboro reproduce`: the papers' tables, computed again and set beside what was printed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Annotated

import typer

from oboro.cli.options import Json, show_json
from oboro.cli.terminal import echo
from oboro.errors import ParameterError
from oboro.kinds import nearest

if TYPE_CHECKING:
    from oboro.release import Reproducible

CAPABILITIES = (
    "oboro.tables.papers.terada",
    "oboro.secure.papers.kii",
    "oboro.dynamics.papers.ito",
    "oboro.synth.papers.miura",
)  # modules with a list REPRODUCTIONS


def reproductions() -> dict[str, Reproducible]:
    """Everything that can be reproduced, by name."""
    found = [one for module in CAPABILITIES for one in importlib.import_module(module).REPRODUCTIONS]
    return {one.name: one for one in found}


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which table; without it, the list.", metavar="NAME")
    ] = None,
    json: Json = False,
) -> None:
    """Reproduces a table of a paper, and marks where the paper errs."""
    known = reproductions()
    if name is None:
        if json:
            show_json([{"name": one.name, "title": one.title} for one in known.values()])
            return
        width = max(len(key) for key in known)
        for one in known.values():
            echo(f"  {one.name.ljust(width)}  {one.title}")
        return
    if name not in known:
        close = nearest(name, known)
        raise ParameterError(
            "no such table" + (f": did you mean {close!r}?" if close else ""),
            given=name,
            needed=", ".join(known),
            fix=f"oboro reproduce {close or next(iter(known))}",
        )
    table = known[name].make()
    if json:
        show_json(table.to_dict())
    else:
        echo(str(table))
