"""Builds the documents as a site: `make docs`, or `python docs/build_site.py FOLDER`.

Every Markdown page becomes an HTML page at the same place, so that relative links stay what they are but for
their ending. One stylesheet, shared with the reports; nothing is fetched from anywhere.
"""

from __future__ import annotations

import html
import json
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
        "docs/start.md": "First steps",
        "docs/guide.md": "Guide",
        "docs/readers.md": "Who reads what",
        "docs/from-others.md": "From other tools",
        "docs/examples.md": "Notebooks and examples",
    },
    "Readers": {
        "docs/readers/office.md": "Statistical office",
        "docs/readers/carrier.md": "Carrier",
        "docs/readers/data-team.md": "Data team",
        "docs/readers/control.md": "Control engineer",
        "docs/readers/cryptography.md": "Cryptographer",
        "docs/readers/audit.md": "Auditor",
    },
    "Capabilities": {
        "docs/tables.md": "Tables",
        "docs/mesh.md": "A mesh from e-Stat",
        "docs/series.md": "Tables every hour",
        "docs/statistics.md": "Statistics: questions",
        "docs/sql.md": "Statistics: SQL",
        "docs/statistics-two.md": "Statistics beyond sums",
        "docs/synth.md": "Synthetic data",
        "docs/dynamics.md": "Dynamics: linear systems",
        "docs/secure.md": "Secure: two parties",
        "docs/cluster.md": "Data on a cluster",
        "docs/huge-tables.md": "Tables beyond one process",
        "docs/service.md": "A service for analysts",
        "docs/studio.md": "The studio",
    },
    "Trust": {
        "docs/promise.md": "What oboro promises",
        "docs/known-limits.md": "Known limits",
        "docs/one-point-zero.md": "What 1.0 needs",
        "docs/audit.md": "Audit",
        "docs/faults.md": "Bad input and faults",
        "docs/mutants.md": "Planted faults",
        "docs/comparison.md": "How it compares",
        "docs/measured.md": "Measured",
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
        "docs/decisions.md": "Decisions",
        "CONTRIBUTING.md": "Contributing",
        "docs/upgrading.md": "Upgrading",
        "docs/releasing.md": "Releasing",
        "CHANGELOG.md": "Changelog",
    },
    "日本語": {
        "README.ja.md": "oboro 朧",
        "docs/start.ja.md": "最初の一歩",
        "docs/guide.ja.md": "手引き",
        "docs/readers.ja.md": "誰が何を読むか",
        "docs/readers/office.ja.md": "統計の作成機関",
        "docs/readers/carrier.ja.md": "携帯電話事業者",
        "docs/readers/data-team.ja.md": "データ分析部門",
        "docs/readers/control.ja.md": "制御の技術者",
        "docs/readers/cryptography.ja.md": "暗号の研究者",
        "docs/readers/audit.ja.md": "監査する人",
        "docs/from-others.ja.md": "ほかの道具から",
        "docs/examples.ja.md": "ノートブックと例",
        "docs/tables.ja.md": "集計表",
        "docs/mesh.ja.md": "e-Stat のメッシュから",
        "docs/series.ja.md": "毎時の表",
        "docs/statistics.ja.md": "統計：質問",
        "docs/sql.ja.md": "統計：SQL",
        "docs/statistics-two.ja.md": "統計：合計の先へ",
        "docs/synth.ja.md": "合成データ",
        "docs/dynamics.ja.md": "線形システム",
        "docs/secure.ja.md": "二者の計算",
        "docs/cluster.ja.md": "クラスターのデータ",
        "docs/huge-tables.ja.md": "一つのプロセスに収まらない表",
        "docs/service.ja.md": "分析者のためのサービス",
        "docs/studio.ja.md": "スタジオ",
        "docs/promise.ja.md": "oboro の約束",
        "docs/known-limits.ja.md": "知られている限界",
        "docs/one-point-zero.ja.md": "1.0 に足りないもの",
        "docs/comparison.ja.md": "ほかの道具との比較",
        "docs/measured.ja.md": "測ったもの",
        "docs/words.ja.md": "用語集",
    },
}
REFERENCE = "Reference"
JAPANESE = "日本語"
IN_JAPANESE = {  # what sections are called beside a page in Japanese
    "Start": "はじめに（英語）",
    "Readers": "読み手別（英語）",
    "Capabilities": "機能（英語）",
    "Trust": "信頼（英語）",
    "Papers": "論文（英語）",
    "Inside": "内部（英語）",
    REFERENCE: "リファレンス（英語）",
    "Examples": "例（コード）",
}
WORDS = {
    "en": {
        "subtitle": "Publish statistics about people without publishing people",
        "text": "To the text",
        "theme": "light or dark",
        "pages": "Pages",
        "search": "Search",
        "none": "Nothing found.",
        "before": "Before",
        "next": "Next",
        "scrolls": "Code, which scrolls sideways",
    },
    "ja": {
        "subtitle": "人を公開せずに、人についての統計を公開する",
        "text": "本文へ",
        "theme": "明・暗",
        "pages": "ページ一覧",
        "search": "検索",
        "none": "見つかりませんでした。",
        "before": "前へ",
        "next": "次へ",
        "scrolls": "コード（横にスクロールできます）",
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

    @property
    def language(self) -> str:
        return "ja" if self.source.endswith(".ja.md") else "en"

    @property
    def twin(self) -> str:
        """The source of the same page in the other language."""
        if self.language == "ja":
            return self.source.removesuffix(".ja.md") + ".md"
        return self.source.removesuffix(".md") + ".ja.md"


def place_of(source: str) -> str:
    """Where a source stands in the site."""
    if source == "README.md":
        return "index.html"
    return re.sub(r"\.(md|py|ipynb)$", ".html", source)


def pages() -> dict[str, list[Page]]:
    """All pages by section, in order."""
    named = {source for sources in NAVIGATION.values() for source in sources}
    beside = [p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "docs").rglob("*.md"))]
    examples = tuple(
        p.relative_to(ROOT).as_posix()
        for p in sorted((ROOT / "examples").iterdir())
        if p.suffix in (".py", ".ipynb")
    )
    sections = {name: [_read(source) for source in sources] for name, sources in NAVIGATION.items()}
    reference = [source for source in beside if source.startswith("docs/reference")]
    sections[REFERENCE] = [_read(source) for source in sorted(reference, key=len)]
    more = [_read(source) for source in beside if source not in {*named, *reference}]
    if more:
        sections[FOUND_BESIDE] = more
    sections["Examples"] = [_read(source) for source in examples]
    return sections


def _read(source: str) -> Page:
    text = (ROOT / source).read_text(encoding="utf-8")
    if source.endswith(".py"):
        name = Path(source).name
        return Page(source, name, f"# {name}\n\n```python\n{text}```\n")
    if source.endswith(".ipynb"):
        return Page(source, Path(source).name, _notebook(Path(source).name, json.loads(text)))
    first = re.search(r"^# (.+)$", text, re.M)
    return Page(source, first[1] if first else source, text)


def _notebook(name: str, record: dict[str, Any]) -> str:
    """A notebook as Markdown: its words and its code."""
    parts = [f"# {name}"]
    for cell in record["cells"]:
        body = "".join(cell["source"])
        parts.append(
            f"```python\n{body}\n```"
            if cell["cell_type"] == "code"
            else re.sub(r"^#", "##", body, flags=re.M)
        )
    return "\n\n".join(parts) + "\n"


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
    (target / "search.js").write_text(_index(sections), encoding="utf-8")
    return written


def _whole(page: Page, sections: dict[str, list[Page]], sources: set[str]) -> str:
    top = os.path.relpath(".", Path(page.place).parent.as_posix())
    words = WORDS[page.language]
    other = "README.md" if page.language == "ja" else "README.ja.md"
    twin = place_of(page.twin if page.twin in sources else other)
    switch = ("English", "en") if page.language == "ja" else ("日本語", "ja")
    return f"""<!DOCTYPE html>
<html lang="{page.language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src 'self' data: file:; style-src 'self' file:; script-src 'self' file:">
<title>{html.escape(page.title)} · oboro</title>
<link rel="stylesheet" href="{top}/style.css">
<script src="{top}/site.js" data-top="{top}" data-none="{words["none"]}"></script>
</head>
<body>
<a class="spoken" href="#text">{words["text"]}</a>
<header class="title-band">{MARK.format(more="")}
<div class="titles"><p class="name"><a href="{top}/{place_of("README.ja.md") if page.language == "ja" else "index.html"}">oboro 朧</a></p><p class="subtitle">{words["subtitle"]}</p></div>
<form class="search" role="search"><input type="search" id="search" placeholder="{words["search"]}  /" aria-label="{words["search"]}" autocomplete="off" spellcheck="false"><ol id="found" hidden></ol></form>
<div class="switches"><a class="button" lang="{switch[1]}" hreflang="{switch[1]}" href="{top}/{twin}">{switch[0]}</a><button type="button" id="theme">{words["theme"]}</button></div></header>
<div class="columns">
<nav aria-label="{words["pages"]}"><details id="pages" open><summary>{words["pages"]}</summary>{_navigation(page, sections, top)}</details></nav>
<main id="text">
{render(page.text, page.source, sources)}{_around(page, sections, top)}</main>
</div>
</body>
</html>
"""


def _around(page: Page, sections: dict[str, list[Page]], top: str) -> str:
    """The pages before and after this one, in the order of the navigation."""
    ordered = [
        (name, one) for name, group in sections.items() for one in group if one.language == page.language
    ]
    at = next(number for number, (_, one) in enumerate(ordered) if one == page)
    words, links = WORDS[page.language], []
    for place, word, sign in ((at - 1, "before", "← {}"), (at + 1, "next", "{} →")):
        if 0 <= place < len(ordered):
            name, one = ordered[place]
            told = sign.format(html.escape(_label(name, one)))
            links.append(
                f'<a rel="{"prev" if word == "before" else "next"}" href="{top}/{one.place}" aria-label="{words[word]}">{told}</a>'
            )
    return f'<footer class="around">{"".join(links)}</footer>'


def _navigation(page: Page, sections: dict[str, list[Page]], top: str) -> str:
    parts = []
    ordered = sorted(sections, key=lambda name: name != JAPANESE) if page.language == "ja" else list(sections)
    for name in ordered:
        group = sections[name]
        here = page in group
        links = "".join(
            f'<li><a href="{top}/{one.place}"{" aria-current=page" if one == page else ""}>{html.escape(_label(name, one))}</a>'
            f"{_parts_of(page) if one == page else ''}</li>"
            for one in group
        )
        folded = not here and (
            name in ("Examples", REFERENCE, "Readers", "Papers", "Inside")
            or (name == JAPANESE) != (page.language == "ja")
        )
        told = IN_JAPANESE.get(name, name) if page.language == "ja" else name
        parts.append(
            f"<details{'' if folded else ' open'}><summary>{told}</summary><ul>{links}</ul></details>"
        )
    return "".join(parts)


def _parts_of(page: Page) -> str:
    """The headings of the page itself."""
    found = [heading for depth, heading, _, _ in _sections(page) if depth == 2]
    if not 2 <= len(found) <= 40:
        return ""
    anchors = {heading: anchor for depth, heading, anchor, _ in _sections(page) if depth == 2}
    links = "".join(
        f'<li><a href="#{anchors[heading]}">{html.escape(_plain(heading))}</a></li>' for heading in found
    )
    return f'<ul class="parts">{links}</ul>'


def _sections(page: Page) -> list[tuple[int, str, str, str]]:
    """Every heading of a page: its depth, its text, its anchor, and the words below it, code left out."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page.text)
    taken: set[str] = set()
    found: list[tuple[int, str, str, list[str]]] = []
    for token, before in zip(tokens, [None, *tokens], strict=False):
        if token.type != "inline":
            continue
        if before is not None and before.type == "heading_open":
            found.append((int(before.tag[1]), token.content, _anchor(token.content, taken), []))
        elif found:
            found[-1][3].append(_plain(token.content))
    return [(depth, heading, anchor, " ".join(words)) for depth, heading, anchor, words in found]


def _plain(text: str) -> str:
    """Markdown without its marks."""
    return re.sub(
        r"\s+", " ", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("*", "")
    ).strip()


_EXCERPT = 170


def _index(sections: dict[str, list[Page]]) -> str:
    """What the search looks through: for each page its headings, the first words below, and the other words once each."""
    entries = [
        [page.place, page.title, page.language, _headings(page)] for one in sections.values() for page in one
    ]
    return f"oboroSearch({json.dumps(entries, ensure_ascii=False, separators=(',', ':'))});\n"


def _headings(page: Page) -> list[tuple[str, str, str, str]]:
    if page.source.endswith((".py", ".ipynb")):
        return [("", page.title, "", "")]
    found = []
    for _, heading, anchor, text in _sections(page):
        shown = text[:_EXCERPT]
        if page.language == "ja":  # no spaces between words
            rest = " ".join(piece for piece in text[_EXCERPT:].split() if any(map(str.isalpha, piece)))
        else:
            known = set(re.findall(r"[\w-]+", f"{heading} {shown}".lower()))
            later = re.findall(r"[\w-]{3,}", text[_EXCERPT:].lower())
            rest = " ".join(dict.fromkeys(word for word in later if word not in known and not word.isdigit()))
        found.append((f"#{anchor}", _plain(heading), shown, rest))
    return found


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
    scrolls = WORDS["ja" if source.endswith(".ja.md") else "en"]["scrolls"]
    drawn = drawn.replace("<pre>", f'<pre tabindex="0" role="region" aria-label="{scrolls}">')
    drawn = re.sub(r"(<tr>\n)<td>(\d+)</td>", r'\1<td class="number">\2</td>', drawn)
    drawn = re.sub(r"<code>[^<\n]*</code>", _unbroken, drawn)  # blocks have spans or several lines
    return drawn.replace('<table class="sheet">', '<div class="scroll"><table>').replace(
        "</table>", "</table></div>"
    )


def _unbroken(code: re.Match[str]) -> str:
    """Options stay whole at the end of a line: a browser would break after their hyphens."""
    return re.sub(r"(?<=[ >])--?[a-z][a-z-]*", r'<span class="option">\g<0></span>', code[0])


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
        re.sub(r"[^\w\- ]", "", re.sub(r"[`*]|\]\([^)]*\)", "", heading).lower()).strip().replace(" ", "-")
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
