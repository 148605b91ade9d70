"""`oboro table ask`: questions to a published table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oboro.cli.options import Json, show_json
from oboro.cli.terminal import echo
from oboro.language import said

Published = Annotated[
    Path,
    typer.Argument(
        help="The published table: the Parquet or Arrow file, by strategy tree, filtered or adaptive.",
        metavar="PUBLISHED",
    ),
]
Question = Annotated[
    list[str] | None,
    typer.Argument(
        help="COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH. What is not named is taken as a whole.",
        metavar="QUESTION",
    ),
]
Level = Annotated[float, typer.Option("--level", help="How sure the interval is.", metavar="NUMBER")]


def ask(published: Published, question: Question = None, level: Level = 0.95, json: Json = False) -> None:
    """How many a published table counts in a part of it, with an interval. Needs the file alone."""
    from oboro.tables import ask as ask_table
    from oboro.tables.tree.asking import read_question

    answer = ask_table(published, read_question(question or []), level=level)
    if json:
        show_json(answer.to_dict())
        return
    echo(said(str(answer)))
