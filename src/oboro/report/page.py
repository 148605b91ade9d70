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
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any
from urllib.parse import quote

from oboro._version import __version__
from oboro.errors import ParameterError, setting, told
from oboro.report.words import LANGUAGES, PAGE, Words

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


def say(words: Words, tag: str = "span", attributes: str = "") -> str:
    """An element that speaks both languages; the page's script picks one."""
    opening = f"{tag} {attributes}".strip()
    if words.en == words.ja:
        return f"<{opening}>{escape(words.en)}</{tag}>"
    return f'<{opening} data-en="{escape(words.en)}" data-ja="{escape(words.ja)}">{escape(words.en)}</{tag}>'


def label(words: Words) -> str:
    """The attributes of an element that has a name but no text, such as a button with a picture."""
    return f'aria-label="{escape(words.en)}" data-label-en="{escape(words.en)}" data-label-ja="{escape(words.ja)}"'


def safe_json(value: Any) -> str:
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
    data: Any = None,
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
    fixed = check_language(language)
    named = Words.of(title)
    warned = Words("{warning} {title}", "{warning} {title}").fill(warning=internal or "", title=named)
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
<meta name="generator" content="oboro {escape(__version__)}">
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
