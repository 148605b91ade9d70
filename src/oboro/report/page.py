"""The frame that all reports share: head, style, script, and the title band with the moon behind haze.

A page is complete in itself. Its content security policy names its own scripts and styles by their hashes and
forbids everything else, so nothing is fetched from anywhere, and a hostile name could not run even if it
slipped through the escaping.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import shlex
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from oboro._version import __version__
from oboro.errors import ParameterError, setting, told
from oboro.files import next_to, write_whole
from oboro.language import chosen, filled, of_pages, phrase, said

if TYPE_CHECKING:
    from oboro.arrays import Data

# What the pages say, in English; the catalogue has the Japanese. Braces are filled in by Python or by the page's script.


class Words(NamedTuple):
    """One thing said in both languages."""

    en: str
    ja: str

    def fill(self, **values: object) -> Words:
        """The same with its braces filled; what is itself said in both languages goes in language by language."""
        spoken = {
            name: value if isinstance(value, Words) else Words.same(value) for name, value in values.items()
        }
        return Words(
            filled(self.en, {name: words.en for name, words in spoken.items()}),
            filled(self.ja, {name: words.ja for name, words in spoken.items()}),
        )

    @classmethod
    def same(cls, text: object) -> Words:
        """A name or number that is not translated."""
        return cls(str(text), str(text))

    @classmethod
    def sentence(cls, text: object) -> Words:
        """What code says in English, with the Japanese of the catalogue."""
        return cls(str(text), said(str(text), "ja"))

    @classmethod
    def name(cls, text: object) -> Words:
        """What something is called, such as "mean of age by region"."""
        return cls(str(text), phrase(str(text), "ja"))

    @classmethod
    def of(cls, text: str | Words) -> Words:
        return text if isinstance(text, Words) else cls.same(text)


def both(text: str) -> Words:
    """A sentence of a page, with the Japanese that the catalogue has for pages: it must have one."""
    return Words(text, of_pages(text, "ja"))


LANGUAGES = ("en", "ja")

PAGE = {
    "theme": both("Switch between light and dark"),
    "made": both(
        "Made with oboro {version}. This page is complete in itself and asks nothing of any server."
    ),
    "old": both("This page needs JavaScript and a browser of 2023 or later."),
}

# why a page must not be published
INTERNAL = {
    "counts": both("INTERNAL: contains true counts. Do not publish."),
    "records": both("INTERNAL: shows real data. Do not publish."),
    "signal": both("INTERNAL: shows the true signal. Do not publish."),
    "made_up": both(
        "INTERNAL: shows the true signal (here made up). Do not publish such a page of real data."
    ),
}

PROMISE = {
    "promise": both("The promise"),
    "released": both("Released"),
    "dataset": both("Dataset"),
    "unit": both("Protected"),
    "guarantee": both("Guarantee"),
    "noise": both("Noise"),
    "spent": both("Privacy budget"),
    "spent_of": both("{cost} for this release; {spent} of {budget} spent in all"),
    "uncertified": both("No certificate was given with this table, so this page makes no promise about it."),
    "added_factor": both(
        "Whether or not {who} is in the data, the chance of any result changes by a factor of at most {factor}."
    ),
    "replaced_factor": both(
        "Whatever the data of {who} say, the chance of any result changes by a factor of at most {factor}."
    ),
    "signal_factor": both(
        "Had the signal been another within distance {distance} of it ({norm}-norm), the chance of any result would be the same "
        "up to a factor of at most {factor}."
    ),
    "next_to_nothing": both("So what is published says next to nothing about {whom}."),
    "little": both("So what is published says little about {whom}."),
    "other": both("How much the result can depend on the data of {who} is bounded: {promised}."),
    "but_delta": both("An exception has a probability of at most {delta}."),
    "provided": both("This holds provided that {assumption}."),
    "any_one": both("any one unit"),
    "that_one": both("that unit"),
    "any_cells": both("any one of those counted"),
    "that_cells": both("that one"),
    "any_row": both("any one row"),
    "that_row": both("that row"),
    "any_person": both("any one {column}"),
    "that_person": both("that {column}"),
    "that_signal": both("which of them it was"),
    "error": both("Error by block size"),
    "error_note": both("As expected from public facts alone, before anything was released."),
    "error_reach": both("error, 95% within ±"),
    "error_side": both("side of the block, in cells"),
    "error_size": both("block size"),
    "error_cells": both("cells of the block"),
    "scale": both("scale"),
    "strategy": both("strategy"),
    "levels": both("levels"),
    "sensitivity": both("sensitivity"),
    "planned for": both("planned for"),
    "counted": both("counted"),
    "step": both("step"),
    "calibration": both("calibration"),
    "squared sensitivity": both("squared sensitivity"),
    "rho in all": both("rho in all"),
    "eps in all": both("eps in all"),
    "counts": both("counts"),
    "sums": both("sums"),
    "radius": both("radius"),
    "steps_for": both("{steps} for {value}"),
    "variance": both("variance"),
    "off the diagonal": both("off the diagonal"),
    "ways": both("ways"),
    "urns": both("urns"),
    "plan": both("plan"),
    "terms": both("terms"),
    "order": both("order"),
    "about": both("centre"),
    "method": both("method"),
    "parameter": both("parameter"),
    "copies": both("copies"),
    "clipped to": both("clipped to"),
    "verify": both("Check it yourself"),
    "verify_how": both(
        "With the table and its certificate, anyone can check who signed it, what was promised, and that nothing was changed since:"
    ),
    "file": both("File"),
    "key": both("Public key"),
}

MAP = {
    "published_table": both("Published table"),
    "map": both("Map of the published counts"),
    "keys": both(
        "Arrow keys move the marked cell, Shift with arrows moves the map, plus and minus zoom, 0 shows all."
    ),
    "all": both("All"),
    "block": both("Block"),
    "cells": both("{side} × {side} cells"),
    "one_cell": both("single cells"),
    "find": both("Find a cell"),
    "go": both("Go"),
    "not_found": both("No such cell here. Example: {example}"),
    "zoom_in": both("Zoom in"),
    "zoom_out": both("Zoom out"),
    "fit": both("Show all"),
    "picture": both("Save as a picture"),
    "total": both("Total"),
    "filled": both(
        "{share} of {cells} blocks are published with a count above 0; the largest count is {most}."
    ),
    "filled_cells": both(
        "{share} of {cells} cells are published with a count above 0; the largest count is {most}."
    ),
    "legend": both("{what} in each block of {side}"),
    "legend_cell": both("{what} in each cell"),
    "count": both("count"),
    "legend_difference": both("Released minus true"),
    "interval": both("95% interval {low} to {high}"),
    "unanswered": both(
        "not on this page: `oboro table ask` answers it from the Parquet file, with its interval"
    ),
    "sum": both("a sum of cells, without an interval"),
    "own_intervals": both(
        "Each cell has its own interval. Blocks and areas are sums of cells, without an interval: the file carries none for them."
    ),
    "no_intervals": both("Intervals of cells are left out, to keep this page small. The table has them."),
    "within": both("± {width} expected error (95%)"),
    "around": both("{count} in the surrounding {side}"),
    "outside": both("Point at the map to read a count."),
    "row_col": both("{row_name} {row}, {col_name} {col}"),
    "mesh_cell": both("{name} {code} ({side})"),
    "true": both("Before: true counts"),
    "after": both("After: released"),
    "after_eps": both("After: released with {name}"),
    "after_table": both("After: the published table"),
    "difference": both("Difference"),
    "difference_of": both("Difference, {name}"),
    "published": both("published"),
    "truly": both("true {count}"),
    "diff": both("difference {count}"),
    "show": both("Right side"),
    "figures": both("Measured error"),
    "figures_at": both("At {side}, for the present choice"),
    "rmse": both("root mean square"),
    "mean_abs": both("mean |error|"),
    "largest": both("largest |error|"),
    "total_error": both("error of the total"),
    "by_block": both("Root mean square error by side of the block, all together"),
    "block_side": both("side of the block, in cells"),
    "rmse_axis": both("root mean square error"),
    "coarse": both(
        "The grid has {rows} × {cols} cells, more than a page can show. Each block here is the sum of {side} × {side} cells. "
        "The table itself has every cell."
    ),
    "coarse_layers": both(
        "A single category is shown in blocks of {side} × {side} cells or more, to keep this page small."
    ),
    "rows_down": both(
        '{row_name} 0 is at the top. If it is the southernmost row, declare the grid with rows = "north".'
    ),
    "rows_up": both("{row_name} 0 is at the bottom, in the south."),
    "summed": both("Summed over {names}."),
    "cropped": both("Only the part of the grid that is not empty is shown."),
    "about": both("About this map"),
    "land": both("Land: Natural Earth. It is drawn roughly, and coasts may be a few hundred metres off."),
    "outlined": both("The outline beneath the counts is not part of what was released."),
    "no_land": both("Land and coordinates are not shown: the grid's coordinates need the extra geo."),
    "north": both("N"),
    "metres": both("{length} m"),
    "kilometres": both("{length} km"),
    "cells_long": both("{length} cells"),
    "lat_lon": both("{lat}, {lon}"),
    "north_of": both("{degrees}° N"),
    "south_of": both("{degrees}° S"),
    "east_of": both("{degrees}° E"),
    "west_of": both("{degrees}° W"),
    "area": both("{level} {name}: {count}"),
    "area_interval": both("{level} {name}: {count} (95% interval {low} to {high})"),
    "rounded": both("about {count}"),
}


# A full moon, and three bands of haze that drift across its lower half.
MARK = (
    '<svg class="mark" viewBox="0 0 48 48" aria-hidden="true" {more}>'
    '<defs><radialGradient id="glow"><stop offset=".5" stop-color="#f6edc9" stop-opacity=".55"/>'
    '<stop offset="1" stop-color="#f6edc9" stop-opacity="0"/></radialGradient>'
    '<linearGradient id="haze"><stop offset="0" stop-color="#c5d0e6" stop-opacity="0"/><stop offset=".45" stop-color="#c5d0e6"/>'
    '<stop offset="1" stop-color="#c5d0e6" stop-opacity="0"/></linearGradient></defs>'
    '<circle cx="24" cy="22" r="22" fill="url(#glow)"/><circle cx="24" cy="22" r="13.5" fill="#f6edc9"/>'
    '<g fill="url(#haze)"><rect x="2" y="22" width="40" height="3.2" rx="1.6" opacity=".75"/>'
    '<rect x="8" y="28" width="40" height="3.6" rx="1.8" opacity=".9"/>'
    '<rect x="0" y="34.5" width="38" height="3" rx="1.5" opacity=".7"/></g></svg>'
)


def escape(value: object) -> str:
    """Text that may stand in HTML, also between quotes."""
    return html.escape(str(value), quote=True)


def named(name: object) -> str:
    """The name of a column as HTML: one that is too long for its line is broken where its words end."""
    return escape(name).replace("_", "_<wbr>")


def say(words: Words, tag: str = "span", attributes: str = "") -> str:
    """An element that speaks both languages; the page's script picks one."""
    opening = f"{tag} {attributes}".strip()
    if words.en == words.ja:
        return f"<{opening}>{escape(words.en)}</{tag}>"
    return f'<{opening} data-en="{escape(words.en)}" data-ja="{escape(words.ja)}">{escape(words.en)}</{tag}>'


def label(words: Words) -> str:
    """The attributes of an element that has a name but no text, such as a button with a picture."""
    return f'aria-label="{escape(words.en)}" data-label-en="{escape(words.en)}" data-label-ja="{escape(words.ja)}"'


def safe_json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def asset(name: str) -> str:
    """One of the files beside this module."""
    return resources.files("oboro.report").joinpath("assets", name).read_text(encoding="utf-8")


def check_language(language: str | None) -> str | None:
    if language is not None and language not in LANGUAGES:
        raise ParameterError(
            "language is unknown",
            given=told(language=repr(language)),
            needed='"en", "ja", or None for the reader\'s own',
            fix=setting(language="ja"),
        )
    return language


def write_page(path: str | Path, page: str) -> None:
    """Writes a page, over nothing but a page of oboro's."""
    check_page(path)
    write_whole(Path(path), page.encode("utf-8"))


def check_page(path: str | Path) -> None:
    """Refuses to write over what somebody else has made: a page can be made again, and that cannot."""
    where = Path(path)
    if where.is_file() and not _is_page(where):
        raise ParameterError(
            f"{where} is there, and is no page that oboro made",
            given=told(output=str(path)),
            needed="a new name, or that of a page of oboro's",
            fix=f"-o {shlex.quote(str(next_to(where)))}",
        )


_GENERATOR = '<meta name="generator" content="oboro '  # by which a page is known again
_HEAD = 4096  # bytes within which it stands


def _is_page(where: Path) -> bool:
    try:
        with where.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return head.startswith(b"<!DOCTYPE html>") and _GENERATOR.encode() in head


def render(
    *,
    title: str | Words,
    body: str,
    subtitle: str = "",
    language: str | None = None,
    internal: Words | None = None,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    words: Mapping[str, Words] | None = None,
    data: Data = None,
    payloads: Mapping[str, str] | None = None,
) -> str:
    """A whole page.

    `title` is plain text, in both languages if it is `Words`; `body` and `subtitle` are HTML whose parts are
    escaped already. `internal` says why the page must not be published: it stands in a red bar on every screen
    and on paper, and in the name of the window. `styles` and `scripts` name the report's own files among the
    assets; they come after the shared ones. `data` and `words` reach the scripts as JSON, `payloads` as packed
    integers by their names.
    """
    style = "\n".join(asset(name) for name in ("page.css", *styles))
    shared, own = asset("page.js"), "\n".join(asset(name) for name in scripts)
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data: blob:; "
        f"style-src '{_hash(style)}'; script-src '{_hash(shared)}' '{_hash(own)}'"
    )
    spoken = {key: list(pair) for key, pair in {**PAGE, **(words or {})}.items()}
    # who makes a page in Japanese surroundings opens it in Japanese; elsewhere the reader's browser decides
    fixed = check_language(language) or (chosen() if chosen() != "en" else None)
    named = Words.of(title)
    warned = Words.same("{warning} {title}").fill(warning=internal or "", title=named)
    band = say(internal, "p", 'class="internal-band" role="alert"') if internal else ""
    blobs = "".join(
        f'<script type="application/octet-stream" id="{escape(name)}">{text}</script>\n'
        for name, text in (payloads or {}).items()
    )
    return f"""<!DOCTYPE html>
<html lang="{fixed or "en"}"{f' data-language="{fixed}"' if fixed else ""}{' class="internal"' if internal else ""}>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
{_GENERATOR}{escape(__version__)}">
{say(warned if internal else named, "title")}
<link rel="icon" href="data:image/svg+xml,{quote(MARK.format(more='xmlns="http://www.w3.org/2000/svg"'))}">
<style>{style}</style>
<script type="application/json" id="oboro-words">{safe_json(spoken)}</script>
<script>{shared}</script>
</head>
<body>
{band}
<header class="title-band">
{MARK.format(more="")}
<div class="titles">{say(named, "h1")}<p class="subtitle">{subtitle}</p></div>
<nav class="switches">
<button type="button" id="language" class="quiet">日本語</button>
<button type="button" id="theme" class="quiet" {label(PAGE["theme"])}><svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="8.5" fill="none" stroke="currentColor" stroke-width="1.8"/><path d="M12 3.5a8.5 8.5 0 0 1 0 17z" fill="currentColor"/></svg></button>
</nav>
</header>
{say(PAGE["old"], "p", 'id="trouble" class="trouble" role="alert"')}
{body}
<footer class="made">{say(PAGE["made"].fill(version=__version__))}</footer>
<script type="application/json" id="oboro-data">{safe_json(data)}</script>
{blobs}<script>{own}</script>
</body>
</html>
"""


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
