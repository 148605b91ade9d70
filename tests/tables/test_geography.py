"""Files that GIS reads, read back by libraries that are not ours."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro.cli.options import Delivery
from oboro.cli.plans import release
from support import repeatable

GRID = ob.Grid(
    "row", "col", shape=(4, 5), crs="EPSG:3035", origin=(4_000_000, 3_000_000), cell=1000, rows="north"
)


def published(domain: ob.Domain, data: dict[str, Any]) -> tuple[Any, Any]:
    plan = ob.tables.plan(domain, unit=ob.Unit.cells(), eps=20, count="people")
    return plan, plan.publish(plan.measure(plan.prepare(data), repeatable("geography")))


def of_grid() -> tuple[Any, Any]:
    return published(ob.Domain([GRID]), {"row": [0, 3], "col": [0, 4], "people": [700, 300]})


def test_a_grid_says_where_it_lies_or_does_not() -> None:
    assert ob.Domain.from_dict(ob.Domain([GRID]).to_dict()) == ob.Domain([GRID])
    x, y = GRID.corners([0, 3], [0, 4])
    assert x.tolist() == [4_000_000, 4_004_000]
    assert y.tolist() == [3_000_000, 3_003_000]
    south = ob.Grid("row", "col", shape=(4, 5), crs="EPSG:3035", origin=(0, 4000), cell=1000)
    assert south.corners([0, 3], [0, 0])[1].tolist() == [3000, 0]
    assert ob.Grid("row", "col", shape=(4, 5)).to_dict() == {
        "kind": "grid",
        "names": ["row", "col"],
        "shape": [4, 5],
    }
    for wrong in ({"crs": "EPSG:3035"}, {"rows": "up"}, {"crs": "EPSG:3035", "origin": (1, 2)}, {"cell": 3}):
        with pytest.raises(ob.OboroError, match="in full, or not at all"):
            ob.Grid("row", "col", shape=(4, 5), **wrong)  # type: ignore[arg-type]


def test_a_table_without_places_has_no_such_file(tmp_path: Path) -> None:
    plan, table = published(
        ob.Domain([ob.Grid("row", "col", shape=(4, 4))]), {"row": [0], "col": [0], "people": [9]}
    )
    with pytest.raises(ob.OboroError, match="does not say where its cells lie"):
        plan.encoded(table, ".geoparquet")


@pytest.mark.parametrize(
    ("ending", "module"), [(".gpkg", "geopandas"), (".tif", "rasterio"), (".geoparquet", "pyproj")]
)
def test_what_nothing_here_can_write_is_refused_before_it_is_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, module: str
) -> None:
    """Without the extra, and of a domain without places."""
    monkeypatch.setitem(sys.modules, module, None)
    ledger = ob.Ledger.create(tmp_path / "l", dataset="l", unit=ob.Unit.cells(), budget=ob.Pure(20))
    data = {"row": [0, 3], "col": [0, 4], "people": [700, 300]}
    for place, said in (
        (GRID, r"oboro\[geo\]"),
        (ob.Grid("row", "col", shape=(4, 5)), "where its cells lie"),
    ):
        plan = ob.tables.plan(ob.Domain([place]), unit=ob.Unit.cells(), eps=1, count="people")
        how = Delivery(output=tmp_path / f"x{ending}", name=None, dry_run=False, json=False)
        with pytest.raises(ob.OboroError, match=said):
            release(plan, data, ledger, how)
    assert ledger.spent == ob.Pure(0)
    assert not (tmp_path / f"x{ending}").exists()


@pytest.mark.long("files of GIS")
@pytest.mark.parametrize("ending", [".geoparquet", ".gpkg", ".geojson", ".fgb"])
def test_geopandas_reads_cells_where_they_lie(tmp_path: Path, ending: str) -> None:
    geopandas = pytest.importorskip("geopandas")
    plan, table = of_grid()
    content = plan.encoded(table, ending)
    if ending == ".geoparquet":
        found = geopandas.read_parquet(io.BytesIO(content))
    else:
        (tmp_path / f"x{ending}").write_bytes(content)
        found = geopandas.read_file(tmp_path / f"x{ending}")
    assert sorted(found["people"]) == sorted(
        table["people"].to_pylist()
    )  # FlatGeobuf has an order of its own
    assert (found["low"] <= found["people"]).all()
    found = found.to_crs("EPSG:3035")
    first = found[(found["row"] == 0) & (found["col"] == 0)].geometry.iloc[0]
    assert np.allclose(first.bounds, (4_000_000, 3_000_000, 4_001_000, 3_001_000), atol=0.01)
    far = found[(found["row"] == 3) & (found["col"] == 4)].geometry.iloc[0]
    assert np.allclose(far.bounds, (4_004_000, 3_003_000, 4_005_000, 3_004_000), atol=0.01)


@pytest.mark.long("files of GIS")
def test_rasterio_reads_bands_where_they_lie() -> None:
    rasterio = pytest.importorskip("rasterio")
    plan, table = of_grid()
    with rasterio.MemoryFile(plan.encoded(table, ".tif")) as memory, memory.open() as file:
        assert file.descriptions == ("people", "low", "high")
        assert file.crs.to_epsg() == 3035
        for row in table.to_pylist():
            x, y = GRID.corners([row["row"]], [row["col"]])
            value = next(file.sample([(float(x[0]) + 500, float(y[0]) + 500)]))
            assert value[0] == row["people"]
            assert value[1] <= row["people"] <= value[2]


@pytest.mark.long("files of GIS")
def test_meshes_lie_where_jis_puts_them() -> None:
    geopandas = pytest.importorskip("geopandas")
    domain = ob.Domain([ob.Mesh("mesh", level="1km", region=[5339])])
    plan, table = published(domain, {"mesh": [53394611], "people": [5000]})
    found = geopandas.read_parquet(io.BytesIO(plan.encoded(table, ".geoparquet")))
    assert found.crs.to_epsg() == 6668
    box = found[found["mesh"] == 53394611].geometry.iloc[0].bounds
    assert np.allclose(box, (139.7625, 35.675, 139.775, 35.675 + 1 / 120))


@pytest.mark.long("files of GIS")
def test_areas_are_saved_as_cells_too() -> None:
    geopandas = pytest.importorskip("geopandas")
    table = {"town": ["a", "b"], "row": [0, 1], "col": [0, 1]}
    own = ob.Areas("row,col", levels=["town", "row,col"], table=table, of=GRID)
    plan, found = published(ob.Domain([own]), {"row": [0, 1], "col": [0, 1], "people": [50, 60]})
    read = geopandas.read_parquet(io.BytesIO(plan.encoded(found, ".geoparquet")))
    assert read.geometry.area.tolist() == [1_000_000.0] * len(read)


@pytest.mark.long("pages in a browser")
def test_a_map_of_areas_has_north_up(tmp_path: Path) -> None:
    table = {"town": ["a", "b"], "row": [0, 1], "col": [0, 1]}
    own = ob.Domain([ob.Areas("row,col", levels=["town", "row,col"], table=table, of=GRID)])
    _, found = published(own, {"row": [0, 1], "col": [0, 1], "people": [50, 60]})
    page = ob.report.write_map(found, own, tmp_path / "map.html").read_text()
    assert '"northUp": true' in page or '"northUp":true' in page
    assert ob.tables.plan(own, unit=ob.Unit.cells(), eps=1).layout.cells == 2
