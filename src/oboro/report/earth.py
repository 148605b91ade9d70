"""Where the cells of a map lie on earth: coordinates, lengths, and what is drawn beneath them.

Beneath the cells lies the land of Natural Earth, vendored from the npm package world-atlas, or an outline that the user gives as
GeoJSON. Only what is near the map comes along, in rows and columns of the grid. Borders of states are not drawn: they are disputed.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.domain import Grid, Mesh
from oboro.errors import DataError, ParameterError, told
from oboro.files import reads
from oboro.report.cells import Place, Window
from oboro.report.packed import folded

_DEGREES = ("EPSG:4326", "OGC:CRS84", "EPSG:6668", "EPSG:4612", "EPSG:4258")  # read without pyproj
_KNOTS = 33  # a side: between them latitudes and longitudes are interpolated
_FAR = 60.0  # degrees: the land farther from the map than this is nobody's
_MOST_POINTS = 150_000
_FINEST = 8  # points are kept to an 8th of a cell

Ring = Floats  # [point, (x, y)]


@dataclass(frozen=True)
class Earth:
    """How rows and columns, fractions too, become longitude and latitude, and back."""

    crs: str
    degrees: bool  # whether x and y are longitude and latitude
    metres: float  # of one unit of y
    origin: tuple[float, float]  # x and y of row 0, column 0
    steps: tuple[float, float]  # x of a column, y of a row; negative where rows run south
    there: Callable[[Floats, Floats], tuple[Floats, Floats]] | None = None  # from degrees to x and y
    back: Callable[[Floats, Floats], tuple[Floats, Floats]] | None = None

    @classmethod
    def of(cls, place: Place) -> Earth | None:
        """None where the grid does not say where it lies, or says it in coordinates that cannot be read here."""
        column = place.column
        if isinstance(column, Mesh):
            width, height = column.sides
            return cls("JGD2011", True, math.radians(1) * 6_371_000, (100.0, 0.0), (width, height))
        if column.crs is None or column.origin is None or column.cell is None:
            return None
        x, y = (float(part) for part in column.origin)
        width, height = (float(part) for part in column.cell)
        lies = (x, y), (width, height if column.rows == "north" else -height)
        if column.crs.upper() in _DEGREES:
            return cls(column.crs, True, math.radians(1) * 6_371_000, *lies)
        return _projected(column.crs, *lies)

    def cells(self, ring: Ring) -> Ring:
        """Longitudes and latitudes as columns and rows."""
        x, y = (ring[:, 0], ring[:, 1]) if self.there is None else self.there(ring[:, 0], ring[:, 1])
        return np.stack([(x - self.origin[0]) / self.steps[0], (y - self.origin[1]) / self.steps[1]], axis=1)

    def lon_lat(self, row: Floats, col: Floats) -> tuple[Floats, Floats]:
        x, y = self.origin[0] + col * self.steps[0], self.origin[1] + row * self.steps[1]
        return (x, y) if self.back is None else self.back(x, y)

    def knots(self, window: Window) -> tuple[Floats, Floats]:
        rows = np.linspace(window.row, window.row + window.rows, _KNOTS)
        cols = np.linspace(window.col, window.col + window.cols, _KNOTS)
        row, col = (each.reshape(-1) for each in np.meshgrid(rows, cols, indexing="ij"))
        return self.lon_lat(row, col)

    def aspect(self, window: Window) -> float:
        """Width of a cell for a height of 1, in the middle of the window."""
        wide = abs(self.steps[0] / self.steps[1])
        if not self.degrees:
            return wide
        middle = self.origin[1] + (window.row + window.rows / 2) * self.steps[1]
        return wide * max(math.cos(math.radians(middle)), 0.01)

    def to_dict(self, window: Window) -> dict[str, object]:
        """What the page needs for coordinates and the scale bar."""
        found: dict[str, object] = {
            "crs": self.crs,
            "degrees": self.degrees,
            "metres": self.metres,
            "origin": list(self.origin),
            "steps": list(self.steps),
        }
        if not self.degrees:
            lon, lat = self.knots(window)
            known = np.isfinite(lon) & np.isfinite(lat)
            found["knots"] = _KNOTS
            found["lon"] = [round(v, 4) if ok else None for v, ok in zip(lon.tolist(), known, strict=True)]
            found["lat"] = [round(v, 4) if ok else None for v, ok in zip(lat.tolist(), known, strict=True)]
        return found


@lru_cache(maxsize=8)
def _projected(crs: str, origin: tuple[float, float], steps: tuple[float, float]) -> Earth | None:
    try:
        import pyproj
    except ImportError:
        return None
    try:
        system = pyproj.CRS.from_user_input(crs)
        there = pyproj.Transformer.from_crs("OGC:CRS84", system, always_xy=True).transform
        back = pyproj.Transformer.from_crs(system, "OGC:CRS84", always_xy=True).transform
    except pyproj.exceptions.ProjError:
        return None
    if system.is_geographic:
        return Earth(crs, True, math.radians(1) * 6_371_000, origin, steps)
    unit = float(system.axis_info[0].unit_conversion_factor or 1.0)
    return Earth(crs, False, unit, origin, steps, there, back)


def needs_extra(place: Place) -> bool:
    """Whether the place of the grid is said in coordinates that need the extra `geo`, which is not there."""
    return isinstance(place.column, Grid) and place.column.crs is not None and Earth.of(place) is None


# What lies beneath.


@dataclass(frozen=True)
class Beneath:
    """Closed rings, which are filled, and lines: columns and rows in units of 1/`fine` of a cell."""

    fine: float
    rings: tuple[Integers, ...]
    lines: tuple[Integers, ...] = ()

    @cached_property
    def streams(self) -> tuple[Integers, ...]:
        """How many points each has, then the steps from point to point: x, then y, each as a number of 0 or more."""
        every = [*self.rings, *self.lines]
        sizes = np.array([len(one) for one in every], np.int64)
        if not every:
            return (sizes,)
        points = np.concatenate(every)
        steps = np.diff(points, axis=0, prepend=np.zeros((1, 2), np.int64))
        return sizes, *(folded(steps[:, axis]) for axis in (0, 1))

    def to_dict(self) -> dict[str, object]:
        sizes = self.streams[0]
        return {
            "rings": len(self.rings),
            "lines": len(self.lines),
            "points": int(sizes.sum()),
            "fine": self.fine,
        }


def beneath(earth: Earth, window: Window, outline: str | Path | None = None) -> Beneath:
    """The land near a window, or the user's outline."""
    if outline is None:
        return _drawn(earth, window, [(ring, True) for ring in _land()])
    return _drawn(earth, window, list(_shapes_in(Path(outline))))


def _drawn(earth: Earth, window: Window, shapes: list[tuple[Ring, bool]]) -> Beneath:
    lon, lat = earth.knots(window)
    known = np.isfinite(lon) & np.isfinite(lat)
    if not known.any():
        return Beneath(1.0, ())
    margin = 0.5 + 0.05 * max(float(np.ptp(lon[known])), float(np.ptp(lat[known])))
    box = (
        float(lon[known].min()) - margin,
        float(lat[known].min()) - margin,
        float(lon[known].max()) + margin,
        float(lat[known].max()) + margin,
    )
    if box[2] - box[0] > 3 * _FAR and earth.there is not None:  # around a pole: nothing is cut off by degrees
        box = (-180.0, box[1], 180.0, box[3])
    frame = (
        window.col - window.cols * 0.03 - 1.0,
        window.row - window.rows * 0.03 - 1.0,
        window.col + window.cols * 1.03 + 1.0,
        window.row + window.rows * 1.03 + 1.0,
    )
    near = []
    for ring, closed in shapes:
        if not _meet(ring, box):
            continue
        if earth.there is not None:
            ring = _dense(_clipped(ring, box) if closed else ring)
        if len(ring) < 2:
            continue
        found = earth.cells(ring)
        found = found[np.isfinite(found).all(axis=1)]
        if len(found) < 2 or not _meet(found, frame):
            continue
        if closed:
            near.append((_clipped(found, frame), True))
        else:
            near += [(part, False) for part in _cut(found, frame)]
    fine = float(_FINEST)
    while True:
        rings: list[Integers] = []
        lines: list[Integers] = []
        for ring, closed in near:
            points = np.rint(ring * fine).astype(np.int64)
            if len(points) > 1:
                points = points[np.append(True, (np.diff(points, axis=0) != 0).any(axis=1))]
            if len(points) >= (3 if closed else 2):
                (rings if closed else lines).append(points)
        if sum(len(one) for one in [*rings, *lines]) <= _MOST_POINTS or fine < 0.01:
            return Beneath(fine, tuple(rings), tuple(lines))
        fine /= 2


def _meet(ring: Ring, box: tuple[float, float, float, float]) -> bool:
    low, high = ring.min(axis=0), ring.max(axis=0)
    return bool(low[0] <= box[2] and high[0] >= box[0] and low[1] <= box[3] and high[1] >= box[1])


def _clipped(ring: Ring, box: tuple[float, float, float, float]) -> Ring:
    """The part of a closed ring within a box: side by side, and what lies beyond runs along the side."""
    for axis, at, sign in ((0, box[0], 1), (0, box[2], -1), (1, box[1], 1), (1, box[3], -1)):
        if len(ring) == 0:
            return ring
        before = np.roll(ring, 1, axis=0)
        inside, was = sign * (ring[:, axis] - at) >= 0, sign * (before[:, axis] - at) >= 0
        if inside.all():
            continue
        crossing = inside != was
        step = np.where(crossing, ring[:, axis] - before[:, axis], 1.0)
        crossed = before + ((at - before[:, axis]) / step)[:, None] * (ring - before)
        both = np.stack([crossed, ring], axis=1).reshape(-1, 2)
        ring = both[np.stack([crossing, inside], axis=1).reshape(-1)]
    return ring


def _cut(line: Ring, box: tuple[float, float, float, float]) -> Iterator[Ring]:
    """The parts of a line near a box: whole steps, so that they end outside."""
    low, high = np.minimum(line[1:], line[:-1]), np.maximum(line[1:], line[:-1])
    kept = (low[:, 0] <= box[2]) & (high[:, 0] >= box[0]) & (low[:, 1] <= box[3]) & (high[:, 1] >= box[1])
    ends = np.flatnonzero(np.diff(kept.astype(np.int8), prepend=0, append=0))
    for start, end in ends.reshape(-1, 2).tolist():
        yield line[start : end + 1]


def _dense(ring: Ring) -> Ring:
    """With a point every half degree: what is straight in degrees is bent on the map."""
    after = np.roll(ring, -1, axis=0)
    times = np.maximum(np.ceil(np.abs(after - ring).max(axis=1, initial=0) / 0.5), 1).astype(np.int64)
    if int(times.sum()) == len(ring):
        return ring
    place = np.repeat(np.arange(len(ring)), times)
    part = (np.arange(place.size) - np.repeat(np.cumsum(times) - times, times)) / times[place]
    return np.asarray(ring[place] + part[:, None] * (after - ring)[place])


@lru_cache(maxsize=1)
def _land() -> tuple[Ring, ...]:
    """The rings of the land: TopoJSON, arcs of whole steps that rings put together."""
    packed = resources.files("oboro.report").joinpath("assets", "land", "land-10m.json.gz").read_bytes()
    found = json.loads(gzip.decompress(packed))
    scale, shift = np.array(found["transform"]["scale"]), np.array(found["transform"]["translate"])
    arcs = [np.cumsum(np.array(arc), axis=0) * scale + shift for arc in found["arcs"]]

    def joined(indices: list[int]) -> Ring:
        parts = [arcs[i] if i >= 0 else arcs[~i][::-1] for i in indices]
        return np.concatenate([parts[0], *(part[1:] for part in parts[1:])])

    rings = []
    for geometry in found["objects"]["land"]["geometries"]:
        polygons = geometry["arcs"] if geometry["type"] == "MultiPolygon" else [geometry["arcs"]]
        rings += [joined(ring) for polygon in polygons for ring in polygon]
    return tuple(rings)


def _shapes_in(path: Path) -> Iterator[tuple[Ring, bool]]:
    """Polygons and lines of a GeoJSON file: longitudes and latitudes."""
    reads(path)
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
        shapes = list(_shapes(found))
    except FileNotFoundError:
        raise DataError(
            f"no such file: {path}", given=told(outline=str(path)), needed="GeoJSON", argument="outline"
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read", given=error.strerror or str(error)) from None
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        shapes = []
    if not shapes:
        raise ParameterError(
            "the outline has no polygon and no line",
            given=told(outline=str(path)),
            needed="GeoJSON with polygons or lines, in degrees of longitude and latitude",
            argument="outline",
        )
    yield from shapes


def _shapes(found: Any) -> Iterator[tuple[Ring, bool]]:
    kind = found["type"]
    if kind == "FeatureCollection":
        for each in found["features"]:
            yield from _shapes(each)
    elif kind == "Feature":
        if found.get("geometry") is not None:
            yield from _shapes(found["geometry"])
    elif kind == "GeometryCollection":
        for each in found["geometries"]:
            yield from _shapes(each)
    elif kind in ("Polygon", "MultiPolygon"):
        for polygon in [found["coordinates"]] if kind == "Polygon" else found["coordinates"]:
            yield from ((_points(ring), True) for ring in polygon)
    elif kind in ("LineString", "MultiLineString"):
        for line in [found["coordinates"]] if kind == "LineString" else found["coordinates"]:
            yield _points(line), False


def _points(given: Any) -> Ring:
    points = np.array([[float(point[0]), float(point[1])] for point in given])
    if len(points) < 2 or not np.isfinite(points).all() or (np.abs(points) > 360).any():
        raise ValueError("not degrees")
    return points
