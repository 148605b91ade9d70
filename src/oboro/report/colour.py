"""Colour scales of equal perceptual steps, made in OKLab; safe for the colour-blind because lightness alone orders them.

On a light page few is pale and many is dark; on a dark page few is dim and many shines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

Lch = tuple[float, float, float]  # lightness 0..1, chroma, hue in degrees
Lab = tuple[float, float, float]

CLASSES = 10  # colours of a sequential scale
SIDES = 4  # colours on each side of a diverging one

_SEQUENTIAL: dict[str, Sequence[Lch]] = {
    "light": ((0.93, 0.05, 100), (0.80, 0.09, 172), (0.63, 0.11, 222), (0.45, 0.13, 262), (0.27, 0.10, 285)),
    "dark": ((0.29, 0.06, 278), (0.44, 0.12, 268), (0.60, 0.11, 235), (0.78, 0.10, 178), (0.96, 0.07, 100)),
}
_DIVERGING: dict[str, tuple[Sequence[Lch], Sequence[Lch]]] = {  # from the middle outwards: too few, too many
    "light": (
        ((0.90, 0.04, 70), (0.70, 0.13, 60), (0.45, 0.12, 45)),
        ((0.90, 0.03, 250), (0.68, 0.11, 250), (0.42, 0.14, 262)),
    ),
    "dark": (
        ((0.32, 0.04, 60), (0.58, 0.12, 58), (0.86, 0.11, 75)),
        ((0.32, 0.06, 265), (0.58, 0.12, 255), (0.87, 0.07, 230)),
    ),
}


def sequential(theme: str, size: int = CLASSES) -> list[str]:
    """`size` colours from few to many."""
    return [_hex(lab) for lab in _even(_SEQUENTIAL[theme], size)]


def diverging(theme: str, size: int = SIDES) -> list[str]:
    """`size` colours for too few, strongest first, then `size` for too many, strongest last."""
    below, above = (_even(side, size) for side in _DIVERGING[theme])
    return [_hex(lab) for lab in (*reversed(below), *above)]


def lightness(colour: str) -> float:
    """The OKLab lightness of a colour such as #1b2a4e."""
    return to_lab(colour)[0]


def to_lab(colour: str) -> Lab:
    red, green, blue = (_linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    long = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    middle = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def _even(stops: Sequence[Lch], size: int) -> list[Lab]:
    """Points at equal distances along the path through the stops."""
    fine = 200
    path = [_between(stops, i * (len(stops) - 1) / fine) for i in range(fine + 1)]
    along = [0.0]
    for one, other in pairwise(path):
        along.append(along[-1] + math.dist(one, other))
    wanted = [along[-1] * i / max(size - 1, 1) for i in range(size)]
    return [path[min(range(fine + 1), key=lambda i, goal=goal: abs(along[i] - goal))] for goal in wanted]  # type: ignore[misc]


def _between(stops: Sequence[Lch], at: float) -> Lab:
    index = min(int(at), len(stops) - 2)
    rest = at - index
    light, chroma, hue = (a + (b - a) * rest for a, b in zip(stops[index], stops[index + 1], strict=True))
    return light, chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))


def _hex(lab: Lab) -> str:
    light, a, b = lab
    for _ in range(60):  # towards grey until the screen can show it
        colour = _rgb((light, a, b))
        if all(-1e-4 <= part <= 1.0001 for part in colour):
            break
        a, b = a * 0.96, b * 0.96
    return "#" + "".join(f"{round(255 * min(max(part, 0.0), 1.0)):02x}" for part in colour)


def _rgb(lab: Lab) -> tuple[float, float, float]:
    light, a, b = lab
    long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        _gamma(4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short),
        _gamma(-1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short),
        _gamma(-0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short),
    )


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def _gamma(part: float) -> float:
    return 12.92 * part if part <= 0.0031308 else float(1.055 * part ** (1 / 2.4) - 0.055)
