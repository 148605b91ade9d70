"""Builds the documents as a site: `make docs`, or `python docs/build_site.py FOLDER`.

Every Markdown page becomes an HTML page at the same place, so that relative links stay what they are but for
their ending. One stylesheet, shared with the reports; nothing is fetched from anywhere.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from oboro.report.page import MARK, asset

ROOT = Path(__file__).parent.parent
NAVIGATION: dict[str, dict[str, str]] = {
    "Start": {
        "README.md": "oboro",
        "README.ja.md": "日本語",
        "docs/guide.md": "Guide",
        "docs/examples.md": "Examples",
    },
    "Capabilities": {
        "docs/tables.md": "Tables",
        "docs/statistics.md": "Statistics: questions",
        "docs/sql.md": "Statistics: SQL",
        "docs/statistics-two.md": "Statistics beyond sums",
        "docs/secure.md": "Secure: two parties",
        "docs/synth.md": "Synthetic data",
        "docs/dynamics.md": "Dynamics: linear systems",
        "docs/cluster.md": "Data on a cluster",
        "docs/service.md": "A service for analysts",
    },
    "Trust": {
        "docs/promise.md": "What oboro promises",
        "docs/known-limits.md": "Known limits",
        "docs/audit.md": "Audit",
        "docs/faults.md": "Bad input and faults",
        "docs/mutants.md": "Planted faults",
        "docs/comparison.md": "How it compares",
        "docs/patents.md": "Patents",
        "SECURITY.md": "Security",
    },
    "Papers": {
        "docs/papers/terada.md": "Tables: Terada et al.",
        "docs/papers/kashima.md": "Statistics: Kashima",
        "docs/papers/kii.md": "Secure: Kii",
        "docs/papers/miura.md": "Synth: Miura et al.",
        "docs/papers/ito.md": "Dynamics: Ito et al.",
    },
    "Inside": {
        "docs/architecture.md": "Architecture",
        "docs/adding-a-plan.md": "Add a plan",
        "docs/modules.md": "Every module",
        "docs/reference.md": "Reference",
        "docs/decisions.md": "Decisions",
        "CONTRIBUTING.md": "Contributing",
        "docs/upgrading.md": "Upgrading",
        "docs/words.ja.md": "用語集",
        "docs/releasing.md": "Releasing",
        "CHANGELOG.md": "Changelog",
    },
}
FOUND_BESIDE = "More"  # pages in docs/ that no section names


@dataclass(frozen=True)
class Page:
    """One page: where its source lies in the project, its title, its Markdown."""

    source: str
    title: str
    text: str

    @property
    def place(self) -> str:
        return place_of(self.source)


def place_of(source: str) -> str:
    """Where a source stands in the site."""
    if source == "README.md":
        return "index.html"
    return re.sub(r"\.(md|py)$", ".html", source)


def pages() -> dict[str, list[Page]]:
    """All pages by section, in order."""
    named = {source for sources in NAVIGATION.values() for source in sources}
    beside = [p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "docs").rglob("*.md"))]
    examples = tuple(p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "examples").glob("*.py")))
    sections = {name: [_read(source) for source in sources] for name, sources in NAVIGATION.items()}
    more = [_read(source) for source in beside if source not in named]
    if more:
        sections[FOUND_BESIDE] = more
    sections["Examples"] = [_read(source) for source in examples]
    return sections


def _read(source: str) -> Page:
    text = (ROOT / source).read_text(encoding="utf-8")
    if source.endswith(".py"):
        name = Path(source).name
        return Page(source, name, f"# {name}\n\n```python\n{text}```\n")
    first = re.search(r"^# (.+)$", text, re.M)
    return Page(source, {"README.ja.md": "日本語"}.get(source, first[1] if first else source), text)


def build(target: Path) -> list[Path]:
    """Writes the whole site into a folder of its own, and says which pages there are."""
    if target.exists():
        if any(target.iterdir()) and not (target / "style.css").exists():
            sys.exit(f"{target} is not empty, and is not a site of ours")
        shutil.rmtree(target)
    sections = pages()
    sources = {page.source for group in sections.values() for page in group}
    written = []
    for group in sections.values():
        for page in group:
            path = target / page.place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_whole(page, sections, sources), encoding="utf-8")
            written.append(path)
    for picture in (*(ROOT / "docs").rglob("*.png"), *(ROOT / "docs").rglob("*.svg"), ROOT / "LICENSE"):
        path = target / picture.relative_to(ROOT)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, path)
    (target / "style.css").write_text(_style(), encoding="utf-8")
    shutil.copyfile(ROOT / "docs" / "site.js", target / "site.js")
    return written


def _whole(page: Page, sections: dict[str, list[Page]], sources: set[str]) -> str:
    top = os.path.relpath(".", Path(page.place).parent.as_posix())
    language = "ja" if page.source.endswith(".ja.md") else "en"
    return f"""<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src 'self' data: file:; style-src 'self' file:; script-src 'self' file:">
<title>{html.escape(page.title)} · oboro</title>
<link rel="stylesheet" href="{top}/style.css">
<script src="{top}/site.js"></script>
</head>
<body>
<a class="spoken" href="#text">To the text</a>
<header class="title-band">{MARK.format(more="")}
<div class="titles"><p class="name"><a href="{top}/index.html">oboro 朧</a></p><p class="subtitle">Publish statistics about people without publishing people</p></div>
<div class="switches"><button type="button" id="theme">light or dark</button></div></header>
<div class="columns">
<nav aria-label="Pages"><details id="pages" open><summary>Pages</summary>{_navigation(page, sections, top)}</details></nav>
<main id="text">
{render(page.text, page.source, sources)}</main>
</div>
</body>
</html>
"""


def _navigation(page: Page, sections: dict[str, list[Page]], top: str) -> str:
    parts = []
    for name, group in sections.items():
        here = page in group
        links = "".join(
            f'<li><a href="{top}/{one.place}"{" aria-current=page" if one == page else ""}>{html.escape(_label(name, one))}</a></li>'
            for one in group
        )
        folded = name == "Examples" and not here
        parts.append(
            f"<details{'' if folded else ' open'}><summary>{name}</summary><ul>{links}</ul></details>"
        )
    return "".join(parts)


def _label(section: str, page: Page) -> str:
    return NAVIGATION.get(section, {}).get(page.source, page.title)


def render(text: str, source: str, sources: set[str]) -> str:
    """The Markdown of one page as HTML, its links pointing into the site."""
    parser = MarkdownIt("commonmark", {"highlight": _coloured}).enable("table")
    tokens = parser.parse(text)
    taken: set[str] = set()
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            token.attrSet("id", _anchor(following.content, taken))
        if token.type == "table_open":
            token.attrSet("class", "sheet")
    for inline in _inline(tokens):
        for name in ("href", "src"):
            link = inline.attrGet(name)
            if isinstance(link, str):
                inline.attrSet(name, _link(link, source, sources))
    drawn = parser.renderer.render(tokens, parser.options, {})
    return drawn.replace('<table class="sheet">', '<div class="scroll"><table>').replace(
        "</table>", "</table></div>"
    )


def _inline(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _inline(token.children or [])


def _link(link: str, source: str, sources: set[str]) -> str:
    path, hash_sign, anchor = link.partition("#")
    if not path or "://" in link or link.startswith("mailto:"):
        return link
    aim = os.path.normpath(Path(source).parent / path).replace(os.sep, "/")
    if aim not in sources:
        return link
    return os.path.relpath(place_of(aim), Path(place_of(source)).parent) + hash_sign + anchor


def _anchor(heading: str, taken: set[str]) -> str:
    plain = (
        re.sub(r"[^\w\- ]", "", re.sub(r"[`*_]|\]\([^)]*\)", "", heading).lower()).strip().replace(" ", "-")
    )
    name, number = plain, 1
    while name in taken:
        name, number = f"{plain}-{number}", number + 1
    taken.add(name)
    return name


def _coloured(code: str, language: str, _: Any) -> str:
    try:
        lexer = get_lexer_by_name("toml" if language == "toml" else language)
    except ClassNotFound:
        return ""
    return highlight(code, lexer, HtmlFormatter(nowrap=True))


def _style() -> str:
    light = HtmlFormatter(style="friendly").get_style_defs(":root:not([data-theme=dark]) code")
    dark = HtmlFormatter(style="github-dark").get_style_defs(":root[data-theme=dark] code")
    colours = "\n".join(
        line for line in f"{light}\n{dark}".splitlines() if " code ." in line and ".err" not in line
    )
    return "\n".join((asset("page.css"), (ROOT / "docs" / "site.css").read_text(encoding="utf-8"), colours))


if __name__ == "__main__":
    aim = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    print(f"{len(build(aim))} pages: open {aim / 'index.html'}")
