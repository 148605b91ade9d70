"""Published tables as files that GIS reads: every cell a polygon where it lies, or a raster with a band for each number.

GeoParquet needs nothing beyond oboro where the coordinates are degrees; GeoPackage, GeoJSON, FlatGeobuf and GeoTIFF, and any
other system of coordinates, need the extra `geo`. Cells are polygons in their own system of coordinates: JGD2011 for meshes of
JIS X 0410, what `crs` says for a grid. GeoJSON alone is always in degrees (RFC 7946).

All of this is post-processing of what is published.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from oboro.arrays import Bytes, Floats, Integers, Table
from oboro.domain import Areas, Domain, Grid, Mesh
from oboro.errors import DataError, DomainError, ParameterError, setting, told
from oboro.files import reads

VECTOR = (".geoparquet", ".gpkg", ".geojson", ".fgb")
RASTER = (".tif",)
_DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".fgb": "FlatGeobuf"}
_MOST_BANDS = 96
_JGD2011 = "EPSG:6668"
_CRS = b"oboro.crs"  # of a table whose rows have shapes


def encoded_places(table: Table, domain: Domain, count: str, ending: str) -> bytes:
    """The bytes of such a file. `table` has a row for each cell, and may have `low` and `high`; or a row for each area, with its shape."""
    crs = (table.schema.metadata or {}).get(_CRS)
    if crs is not None and ending in VECTOR:
        kept = {key: value for key, value in table.schema.metadata.items() if key != _CRS}
        return encoded_shapes(table.replace_schema_metadata(kept), crs.decode(), ending)
    cells = {name for column in domain if isinstance(column, Areas) for name in column.sources}
    if not cells <= set(table.column_names):
        raise ParameterError(
            "areas are drawn where their outlines are given",
            given=told(
                by=", ".join(name for name in table.column_names if name not in (count, "low", "high"))
            ),
            needed="their outlines, and one of " + ", ".join(VECTOR),
            fix=setting(outlines="municipalities.geojson"),
        )
    place = _place(domain)
    return _raster(table, domain, place, count) if ending in RASTER else _vector(table, place, ending)


def with_outlines(table: Table, level: str, path: Path) -> Table:
    """A table of areas with the shape of each, from a file that GIS reads with a property `level`; none where it has none.

    Several shapes of one area are one.
    """
    import pyarrow as pa

    geopandas = needed_for("outlines", "geopandas")
    reads(path)
    if not path.is_file():  # GDAL would follow an address
        raise DataError(
            f"no such file: {path}",
            given=told(outlines=str(path)),
            needed="GeoJSON, GeoPackage, FlatGeobuf or GeoParquet with polygons",
            argument="outlines",
        )
    try:
        found = (
            geopandas.read_parquet(path)
            if path.suffix in (".parquet", ".geoparquet")
            else geopandas.read_file(path)
        )
    except Exception as error:  # of GDAL, of pyarrow, of GeoPandas: whatever reads the file
        raise DataError(
            "the outlines cannot be read",
            given=told(outlines=str(path)) + f": {str(error).partition(chr(10))[0]}",
            needed="GeoJSON, GeoPackage, FlatGeobuf or GeoParquet with polygons",
            argument="outlines",
        ) from None
    if not isinstance(found, geopandas.GeoDataFrame) or level not in found.columns or found.crs is None:
        raise DataError(
            "the outlines do not say which area each is of"
            if level not in found.columns
            else "the outlines do not say where they lie",
            given=", ".join(map(str, found.columns)),
            needed=f"a property {level}, and a system of coordinates",
            argument="outlines",
        )
    shapes = found.assign(**{level: found[level].astype(str)}).dissolve(by=level).geometry
    known = dict(zip(shapes.index, shapes.to_wkb(), strict=True))
    own = pa.array([known.get(str(area)) for area in table[level].to_pylist()], pa.binary())
    crs = (":".join(found.crs.to_authority()) if found.crs.to_authority() else found.crs.to_wkt()).encode()
    return table.append_column("geometry", own).replace_schema_metadata(
        {**(table.schema.metadata or {}), _CRS: crs}
    )


def check_places(domain: Domain, ending: str) -> None:
    """Refuses, before anything is paid for, a domain without places, and a file that nothing here can write."""
    place = _place(domain)
    if ending in RASTER:
        needed_for(ending, "rasterio")
    elif ending != ".geoparquet":
        needed_for(ending, "geopandas")
    elif _crs(place) != _JGD2011:
        needed_for(ending, "pyproj")


def _place(domain: Domain) -> Grid | Mesh:
    """The column of the places: a mesh, or a grid that says where it lies."""
    for column in domain:
        own = column.of if isinstance(column, Areas) else column
        if isinstance(own, Mesh) or (isinstance(own, Grid) and own.crs is not None):
            return own
    raise DomainError(
        "the domain does not say where its cells lie",
        given=", ".join(domain.names),
        needed="a Mesh, or a Grid with crs, origin, cell and rows",
        fix='ob.Grid("row", "col", shape=(512, 512), crs="EPSG:3035", origin=(900000, 900000), cell=1000, rows="north")',
    )


def _crs(place: Grid | Mesh) -> str:
    return _JGD2011 if isinstance(place, Mesh) else str(place.crs)


def _boxes(table: Table, place: Grid | Mesh) -> tuple[Floats, Floats, float, float]:
    """The south-west corner of the cell of each row, and how wide and high a cell is."""
    columns = [np.asarray(table[name].to_numpy(), np.int64) for name in place.sources]
    x, y = place.corners(*columns)
    if isinstance(place, Mesh):
        return x, y, *place.sides
    width, height = place.cell or (1, 1)
    return x, y, float(width), float(height)


def polygons(x: Floats, y: Floats, width: float, height: float) -> Bytes:
    """Rectangles as well-known binary, one row of 93 bytes each: little endian, a polygon, one ring of five points."""
    head = np.frombuffer(bytes([1, 3, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0]), np.uint8)
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
    points = np.stack([part for corner in corners for part in corner], axis=1).astype("<f8")
    body = np.ascontiguousarray(points).view(np.uint8).reshape(x.size, 80)
    return np.concatenate([np.broadcast_to(head, (x.size, head.size)), body], axis=1)


def _vector(table: Table, place: Grid | Mesh, ending: str) -> bytes:
    import pyarrow as pa

    shapes = polygons(*_boxes(table, place))
    size = shapes.shape[1]
    offsets = pa.py_buffer(np.arange(0, size * (shapes.shape[0] + 1), size, dtype=np.int32))
    geometry = pa.Array.from_buffers(
        pa.binary(), shapes.shape[0], [None, offsets, pa.py_buffer(np.ascontiguousarray(shapes))]
    )
    return encoded_shapes(table.append_column("geometry", geometry), _crs(place), ending)


def encoded_shapes(table: Table, crs: str, ending: str) -> bytes:
    """A table with a column `geometry` of polygons, as one of these files."""
    if ending == ".geoparquet":
        return _geoparquet(table, crs)
    geopandas = needed_for(ending, "geopandas")
    frame = table.drop_columns(["geometry"]).to_pandas()
    for name in frame.columns:  # categories are texts in such files
        if str(frame[name].dtype) == "category":
            frame[name] = frame[name].astype(str)
    shapes = geopandas.GeoSeries.from_wkb(table["geometry"].to_pylist(), crs=crs)
    found = geopandas.GeoDataFrame(frame, geometry=shapes)
    if ending == ".geojson":
        found = found.to_crs("OGC:CRS84")
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"cells{ending}"
        # a shape may be missing, which FlatGeobuf has no place for in its index
        more = {"SPATIAL_INDEX": "NO"} if ending == ".fgb" and shapes.isna().any() else {}
        found.to_file(path, driver=_DRIVERS[ending], engine="pyogrio", **more)
        return path.read_bytes()


def _geoparquet(table: Table, crs: str) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    facts = {
        "version": "1.1.0",
        "primary_column": "geometry",
        "columns": {"geometry": {"encoding": "WKB", "geometry_types": _kinds(table), "crs": _projjson(crs)}},
    }
    kept = dict(table.schema.metadata or {}) | {b"geo": json.dumps(facts).encode()}
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(kept), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _kinds(table: Table) -> list[str]:
    """Which kinds of shapes there are: the fifth byte of well-known binary says it, in the order of bytes that we write."""
    found = {shape[1] for shape in table["geometry"].to_pylist() if shape is not None}
    return [name for number, name in ((3, "Polygon"), (6, "MultiPolygon")) if number in found]


def _projjson(crs: str) -> Any:
    """A system of coordinates as GeoParquet has it. JGD2011 is written out, as what meshes need; others are looked up."""
    if crs == _JGD2011:
        return {
            "type": "GeographicCRS",
            "name": "JGD2011",
            "datum": {
                "type": "GeodeticReferenceFrame",
                "name": "Japanese Geodetic Datum 2011",
                "ellipsoid": {
                    "name": "GRS 1980",
                    "semi_major_axis": 6378137,
                    "inverse_flattening": 298.257222101,
                },
            },
            "coordinate_system": {
                "subtype": "ellipsoidal",
                "axis": [
                    {
                        "name": "Geodetic latitude",
                        "abbreviation": "Lat",
                        "direction": "north",
                        "unit": "degree",
                    },
                    {
                        "name": "Geodetic longitude",
                        "abbreviation": "Lon",
                        "direction": "east",
                        "unit": "degree",
                    },
                ],
            },
            "id": {"authority": "EPSG", "code": 6668},
        }
    pyproj = needed_for(".geoparquet", "pyproj")
    return pyproj.CRS.from_user_input(crs).to_json_dict()


def _raster(table: Table, domain: Domain, place: Grid | Mesh, count: str) -> bytes:
    """A band for each number of each combination of the other columns: count, and the ends of its interval."""
    rasterio = needed_for(".tif", "rasterio")
    numbers = [name for name in (count, "low", "high") if name in table.column_names]
    others = [column for column in domain if not set(column.sources) & set(place.sources)]
    combos, which = _combinations(table, [name for column in others for name in column.sources])
    if len(combos) * len(numbers) > _MOST_BANDS:
        raise ParameterError(
            "the raster would have too many bands",
            given=f"{len(combos) * len(numbers)}",
            needed=f"at most {_MOST_BANDS}: a table of places alone, or by few other values",
            fix="published.gpkg",
        )
    x, y, width, height = _boxes(table, place)
    west, top = (float(x.min()), float(y.max())) if x.size else (0.0, 0.0)
    col, row = np.rint((x - west) / width), np.rint((top - y) / height)
    across, down = (int(each.max(initial=0)) + 1 for each in (col, row))
    facts = {
        "driver": "GTiff",
        "width": across,
        "height": down,
        "count": len(combos) * len(numbers),
        "dtype": "int32",
        "nodata": -1,
        "compress": "deflate",
        "crs": _crs(place),
        "transform": rasterio.transform.from_origin(west, top + height, width, height),
    }
    at = (row.astype(np.int64), col.astype(np.int64))
    with rasterio.MemoryFile() as memory:
        with memory.open(**facts) as file:
            band = 0
            for number, combo in enumerate(combos):
                some = which == number
                for name in numbers:
                    band += 1
                    picture = np.full((down, across), -1, np.int32)
                    values = np.asarray(table[name].to_numpy(), np.int64)
                    picture[at[0][some], at[1][some]] = np.minimum(values[some], 2**31 - 1)
                    file.write(picture, band)
                    file.set_band_description(band, " ".join([domain.label(name), *combo]))
        return bytes(memory.read())


def _combinations(table: Table, names: Sequence[str]) -> tuple[list[tuple[str, ...]], Integers]:
    """The combinations of some columns that there are, and which each row has."""
    if not names:
        return [()], np.zeros(table.num_rows, np.int64)
    rows = list(zip(*(map(str, table[name].to_pylist()) for name in names), strict=True))
    known = {combo: i for i, combo in enumerate(sorted(set(rows)))}
    return list(known) or [("",) * len(names)], np.array([known[row] for row in rows], np.int64)


def needed_for(ending: str, package: str) -> Any:
    """A package of the extra `geo`."""
    import importlib

    try:
        found = importlib.import_module(package)
        if package == "rasterio":
            importlib.import_module("rasterio.transform")
        return found
    except ImportError:
        raise ParameterError(
            f"{ending} needs the extra geo",
            given=told(package=package),
            needed="GeoPandas, pyogrio, rasterio and pyproj",
            fix="pip install 'oboro[geo]'",
        ) from None
