"""The Japanese catalogue keeps to the glossary, docs/words.ja.md."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from oboro import language

ROOT = Path(__file__).parents[2]


def unwanted() -> list[str]:
    rows = [
        line.split("|")[1:-1]
        for line in (ROOT / "docs/words.ja.md").read_text("utf-8").splitlines()
        if line.startswith("|")
    ]
    return [word.strip() for row in rows[2:] for word in row[2].split("、")]


def breaches(sentence: str) -> list[str]:
    mixed = re.findall(r"[ぁ-んァ-ヶ一-龠]:(?=\s|$)", sentence)
    return [word for word in unwanted() if word in sentence] + mixed


def without_code(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```|^    .*?$|`[^`]*`", "", page.read_text("utf-8"), flags=re.M | re.S)
    return text.splitlines()


def test_no_sentence_uses_a_word_that_the_glossary_rules_out() -> None:
    catalogue = tomllib.loads((Path(language.__file__).parent / "ja.toml").read_text("utf-8"))
    said = [*catalogue.pop("parts").values(), *catalogue.pop("pages").values()]
    said += [*catalogue.pop("papers").values(), *catalogue.values()]
    pages = [ROOT / "README.ja.md", *(ROOT / "docs").rglob("*.ja.md")]
    prose = [line for page in pages if page.name != "words.ja.md" for line in without_code(page)]
    found = {sentence: wrong for sentence in (*said, *prose) if (wrong := breaches(sentence))}
    assert not found


def test_the_glossary_is_read() -> None:
    assert len(unwanted()) > 12
    assert breaches("1 セルの一単位の有無")
    assert breaches("注: 公開します")
    assert not breaches("保護対象 1 件の有無")
