"""The documents build as a site, offline: every link leads somewhere, and nothing is fetched from outside."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

pytestmark = pytest.mark.long("documents")
ROOT = Path(__file__).parent.parent


class Seen(HTMLParser):
    """What a page links to, loads and names."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.names.add(str(found["id"]))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        if tag in ("img", "script") and found.get("src"):
            self.loads.append(str(found["src"]))
        if tag == "link" and found.get("href"):
            self.loads.append(str(found["href"]))


@pytest.fixture(scope="module")
def builder() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import build_site

        yield build_site
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def site(builder: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Seen]:
    return {page.resolve(): Seen(page) for page in builder.build(tmp_path_factory.mktemp("built") / "site")}


def broken(site: dict[Path, Seen]) -> list[str]:
    """Every link or file of a page that leads nowhere."""
    found = []
    for page, seen in site.items():
        for link in (*seen.links, *seen.loads):
            if "://" in link:
                continue
            path, _, name = unquote(link).partition("#")
            aim = (page.parent / path).resolve() if path else page
            if not aim.is_file() or (name and aim in site and name not in site[aim].names):
                found.append(f"{page.name}: {link}")
    return found


def test_every_page_of_the_documents_is_there(site: dict[Path, Seen]) -> None:
    names = {page.name for page in site}
    assert {"index.html", "guide.html", "known-limits.html", "terada.html", "mesh_release.html"} <= names
    assert len(site) >= len(list((ROOT / "docs").rglob("*.md")))


def test_every_page_has_a_section_of_its_own(builder: ModuleType) -> None:
    assert builder.FOUND_BESIDE not in builder.pages(), (
        "name the new page in NAVIGATION of docs/build_site.py"
    )


def test_every_link_leads_somewhere(site: dict[Path, Seen]) -> None:
    assert broken(site) == []


def test_a_broken_link_would_be_seen(builder: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(builder.render("# A\n\n[b](#a) [c](#nowhere) [d](absent.html)", "page.md", {"page.md"}))
    assert broken({page: Seen(page)}) == ["page.html: #nowhere", "page.html: absent.html"]


def test_nothing_is_loaded_from_outside(site: dict[Path, Seen]) -> None:
    assert not [
        load for seen in site.values() for load in seen.loads if "://" in load or load.startswith("//")
    ]
    style = next(iter(site)).parent / "style.css"
    assert "url(" not in style.read_text(encoding="utf-8")
    assert "@import" not in style.read_text(encoding="utf-8")


def test_code_is_coloured_and_tables_scroll(builder: ModuleType) -> None:
    drawn = builder.render("```python\nimport oboro\n```\n\n| a |\n|---|\n| b |\n", "page.md", set())
    assert '<span class="kn">import</span>' in drawn
    assert '<div class="scroll"><table>' in drawn


def test_only_a_site_of_ours_is_overwritten(builder: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(SystemExit, match="not a site of ours"):
        builder.build(tmp_path)
    assert (tmp_path / "precious.txt").exists()


def test_the_search_finds_every_page_and_stays_small(builder: ModuleType) -> None:
    sections = builder.pages()
    index = builder._index(sections)
    assert len(index.encode()) < 500_000
    entries = json.loads(index.removeprefix("oboroSearch(").removesuffix(");\n"))
    every = [page for group in sections.values() for page in group]
    assert [[page.place, page.title, page.language] for page in every] == [one[:3] for one in entries]
    assert all(headings for *_, headings in entries)
    assert any(
        "mesh.ja.html" in place and "KEY_CODE" in shown + rest
        for place, _, _, headings in entries
        for _, _, shown, rest in headings
    )


def test_every_page_in_japanese_has_its_twin_and_the_switch_leads_there(builder: ModuleType) -> None:
    every = {page.source: page for group in builder.pages().values() for page in group}
    for page in every.values():
        if page.language == "ja" and page.source != "docs/words.ja.md":
            assert page.twin in every, page.source
            assert every[page.twin].twin == page.source
    tutorials = [Path(source).stem for source in builder.NAVIGATION["Capabilities"]]
    pages = (ROOT / "docs/readers").glob("*.md")
    readers = [f"readers/{page.stem}" for page in pages if not page.stem.endswith(".ja")]
    assert len(readers) == 6
    assert {
        f"docs/{name}.ja.md"
        for name in (
            *tutorials,
            *readers,
            "guide",
            "start",
            "readers",
            "examples",
            "one-point-zero",
            "promise",
            "known-limits",
        )
    } <= set(every)
