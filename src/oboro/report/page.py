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
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from oboro._version import __version__
from oboro.errors import ParameterError, setting, told
from oboro.language import phrase, said

if TYPE_CHECKING:
    from oboro.arrays import Data

# What the pages say, in English and Japanese. Braces are filled in by Python or by the page's script.


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
            self.en.format(**{name: words.en for name, words in spoken.items()}),
            self.ja.format(**{name: words.ja for name, words in spoken.items()}),
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


LANGUAGES = ("en", "ja")

PAGE = {
    "theme": Words("Switch between light and dark", "明るい表示と暗い表示を切り替える"),
    "made": Words(
        "Made with oboro {version}. This page is complete in itself and asks nothing of any server.",
        "oboro {version} で作成。このページは単独で完結しており、外部との通信は一切ありません。",
    ),
    "old": Words(
        "This page needs JavaScript and a browser of 2023 or later.",
        "このページには JavaScript と 2023 年以降のブラウザーが必要です。",
    ),
}

# why a page must not be published
INTERNAL = {
    "counts": Words(
        "INTERNAL: contains true counts. Do not publish.", "内部用：真の値を含みます。公開しないでください。"
    ),
    "records": Words(
        "INTERNAL: shows real data. Do not publish.",
        "内部用：実データを示しています。公開しないでください。",
    ),
    "signal": Words(
        "INTERNAL: shows the true signal. Do not publish.",
        "内部用：真の信号を示しています。公開しないでください。",
    ),
    "made_up": Words(
        "INTERNAL: shows the true signal (here made up). Do not publish such a page of real data.",
        "内部用：真の信号（ここでは架空のもの）を示しています。実データのこのようなページは公開しないでください。",
    ),
}

PROMISE = {
    "promise": Words("The promise", "約束"),
    "released": Words("Released", "公開物"),
    "dataset": Words("Dataset", "データ"),
    "unit": Words("Protected", "守られるもの"),
    "guarantee": Words("Guarantee", "保証"),
    "noise": Words("Noise", "ノイズ"),
    "spent": Words("Privacy budget", "プライバシー予算"),
    "spent_of": Words(
        "{cost} for this release; {spent} of {budget} spent in all",
        "今回 {cost}、累計 {spent}（上限 {budget}）",
    ),
    "uncertified": Words(
        "No certificate was given with this table, so this page makes no promise about it.",
        "この表には証明書が添えられていないため、このページは何も約束しません。",
    ),
    "added_factor": Words(
        "Whether or not {who} is in the data, the chance of any result changes by a factor of at most {factor}.",
        "{who}がデータに含まれていてもいなくても、どの結果の起こりやすさも {factor} 倍までしか変わりません。",
    ),
    "replaced_factor": Words(
        "Whatever the data of {who} say, the chance of any result changes by a factor of at most {factor}.",
        "{who}のデータがどのような内容であっても、どの結果の起こりやすさも {factor} 倍までしか変わりません。",
    ),
    "signal_factor": Words(
        "Had the signal been another within distance {distance} of it ({norm}-norm), the chance of any result would be the same "
        "up to a factor of at most {factor}.",
        "距離 {distance}（{norm} ノルム）以内の別の信号であったとしても、どの結果の起こりやすさも {factor} 倍までしか変わりません。",
    ),
    "next_to_nothing": Words(
        "So what is published says next to nothing about {whom}.",
        "公開されるものから{whom}について分かることは、ほとんどありません。",
    ),
    "little": Words(
        "So what is published says little about {whom}.",
        "公開されるものから{whom}について分かることは、わずかです。",
    ),
    "other": Words(
        "How much the result can depend on the data of {who} is bounded: {promised}.",
        "結果が{who}のデータに左右される度合いは、{promised} に抑えられています。",
    ),
    "but_delta": Words(
        "An exception has a probability of at most {delta}.", "例外が起こる確率は {delta} 以下です。"
    ),
    "provided": Words(
        "This holds provided that {assumption}.", "ただし、次の仮定のもとで成り立ちます：{assumption}。"
    ),
    "any_one": Words("any one unit", "どの一単位"),
    "that_one": Words("that unit", "その一単位"),
    "any_cells": Words("any one of those counted", "数えられた誰か一人"),
    "that_cells": Words("that one", "その一人"),
    "any_row": Words("any one row", "どの 1 行"),
    "that_row": Words("that row", "その 1 行"),
    "any_person": Words("any one {column}", "どの一つの {column}"),
    "that_person": Words("that {column}", "その {column}"),
    "that_signal": Words("which of them it was", "そのどちらであったか"),
    "unit_row": Words("one row", "1 行"),
    "unit_person": Words(
        "all rows of one {column} (at most {max_rows} used)",
        "同じ {column} のすべての行（使うのは最大 {max_rows} 行）",
    ),
    "unit_cells": Words(
        "one unit, in at most {max_cells} cells with at most {max_per_cell} in each",
        "一単位（最大 {max_cells} セル、各セル最大 {max_per_cell}）",
    ),
    "added": Words("{who}, added or removed", "{who}の有無"),
    "replaced": Words("{who}, replaced", "{who}の置き換え"),
    "error": Words("Error by area", "面積別の誤差"),
    "error_note": Words(
        "As expected from public facts alone, before anything was released.",
        "公開前に、公開情報だけから見積もった誤差です。",
    ),
    "error_reach": Words("error, 95% within ±", "誤差（95% の範囲 ±）"),
    "error_side": Words("side of the area, in cells", "区域の一辺（セル数）"),
    "error_size": Words("size of the area", "区域の大きさ"),
    "error_cells": Words("cells of the area", "区域のセル数"),
    "scale": Words("scale", "尺度"),
    "strategy": Words("strategy", "方式"),
    "levels": Words("levels", "階層"),
    "sensitivity": Words("sensitivity", "感度"),
    "planned for": Words("planned for", "想定"),
    "step": Words("step", "刻み"),
    "calibration": Words("calibration", "較正"),
    "squared sensitivity": Words("squared sensitivity", "感度の二乗"),
    "rho in all": Words("rho in all", "rho 合計"),
    "verify": Words("Check it yourself", "自分で確かめる"),
    "verify_how": Words(
        "With the table and its certificate, anyone can check who signed it, what was promised, and that nothing was changed since:",
        "表と証明書があれば、誰が署名し、何を約束し、その後変更されていないことを、誰でも確かめられます。",
    ),
    "file": Words("File", "ファイル"),
    "key": Words("Public key", "公開鍵"),
}

MAP = {
    "published_table": Words("Published table", "公開表"),
    "map": Words("Map of the published counts", "公開された件数の地図"),
    "keys": Words(
        "Arrow keys move the marked cell, Shift with arrows moves the map, plus and minus zoom, 0 shows all.",
        "矢印キーで選択セルを移動、Shift と矢印で地図を移動、＋と－で拡大縮小、0 で全体を表示。",
    ),
    "all": Words("All", "すべて"),
    "block": Words("Block", "ブロック"),
    "cells": Words("{side} × {side} cells", "{side} × {side} セル"),
    "one_cell": Words("single cells", "1 セル"),
    "find": Words("Find a cell", "セルを探す"),
    "go": Words("Go", "移動"),
    "not_found": Words("No such cell here. Example: {example}", "そのセルはありません。例：{example}"),
    "zoom_in": Words("Zoom in", "拡大"),
    "zoom_out": Words("Zoom out", "縮小"),
    "fit": Words("Show all", "全体を表示"),
    "picture": Words("Save as a picture", "画像として保存"),
    "total": Words("Total", "合計"),
    "filled": Words(
        "{share} of {cells} blocks are published with a count above 0; the largest count is {most}.",
        "{cells} ブロックのうち {share} が 0 より大きい値で公開され、最大は {most} です。",
    ),
    "filled_cells": Words(
        "{share} of {cells} cells are published with a count above 0; the largest count is {most}.",
        "{cells} セルのうち {share} が 0 より大きい値で公開され、最大は {most} です。",
    ),
    "legend": Words("{what} in each block of {side}", "{side}ごとの {what}"),
    "legend_cell": Words("{what} in each cell", "セルごとの {what}"),
    "legend_difference": Words("Released minus true", "公開値 − 真の値"),
    "interval": Words("95% interval {low} to {high}", "95% 区間 {low} ～ {high}"),
    "in_cells": Words(
        "in published cells; more people are known to live in the area, at no cell of it",
        "公開されたセルの合計。このほかに、地域にいることだけが分かっている人がいます",
    ),
    "within": Words("± {width} expected error (95%)", "予想誤差 ± {width}（95%）"),
    "around": Words("{count} in the surrounding {side}", "周囲 {side}では {count}"),
    "outside": Words("Point at the map to read a count.", "地図を指すと件数が表示されます。"),
    "row_col": Words("{row_name} {row}, {col_name} {col}", "{row_name} {row}、{col_name} {col}"),
    "true": Words("Before: true counts", "公開前：真の値"),
    "after": Words("After: released", "公開後：公開値"),
    "after_eps": Words("After: released with {name}", "公開後：{name} の公開値"),
    "after_table": Words("After: the published table", "公開後：公開された表"),
    "difference": Words("Difference", "差"),
    "difference_of": Words("Difference, {name}", "差：{name}"),
    "published": Words("published", "公開"),
    "truly": Words("true {count}", "真の値 {count}"),
    "diff": Words("difference {count}", "差 {count}"),
    "show": Words("Right side", "右側"),
    "figures": Words("Measured error", "実測誤差"),
    "figures_at": Words("At {side}, for the present choice", "{side}、現在の選択について"),
    "rmse": Words("root mean square", "二乗平均平方根"),
    "mean_abs": Words("mean |error|", "平均 |誤差|"),
    "largest": Words("largest |error|", "最大 |誤差|"),
    "total_error": Words("error of the total", "合計の誤差"),
    "by_block": Words(
        "Root mean square error by side of the block, all together",
        "ブロックの一辺別の二乗平均平方根誤差（全体）",
    ),
    "block_side": Words("side of the block, in cells", "ブロックの一辺（セル数）"),
    "rmse_axis": Words("root mean square error", "二乗平均平方根誤差"),
    "coarse": Words(
        "The grid has {rows} × {cols} cells, more than a page can show. Each block here is the sum of {side} × {side} cells. "
        "The table itself has every cell.",
        "格子は {rows} × {cols} セルあり、1 ページには表示しきれません。ここでの最小ブロックは {side} × {side} セルの和です。"
        "表そのものには全セルがあります。",
    ),
    "coarse_layers": Words(
        "A single category is shown in blocks of {side} × {side} cells or more, to keep this page small.",
        "ページを小さく保つため、個々の分類は {side} × {side} セル以上のブロックで表示します。",
    ),
    "summed": Words("Summed over {names}.", "{names} については合計しています。"),
    "cropped": Words(
        "Only the part of the grid that is not empty is shown.", "空でない部分だけを表示しています。"
    ),
    "about": Words("About this map", "この地図について"),
    "rounded": Words("about {count}", "約 {count}"),
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
