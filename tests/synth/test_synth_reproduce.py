"""Every cell that the paper prints."""

from __future__ import annotations

import pytest

from oboro.synth.papers.miura import PRINTED_1, PRINTED_2, REPRODUCTIONS, figure2, table1, table2, triangle


def test_table_1_is_the_printed_one() -> None:
    rows = {row[0]: [float(str(cell)) for cell in row[1:]] for row in table1().rows}
    assert rows["private n, Theorem 3.1"] == pytest.approx(list(PRINTED_1["private n"]), rel=2e-6)
    assert rows["public n, Theorem 3.2"] == pytest.approx(list(PRINTED_1["public n"]), rel=2e-6)


def test_table_2_is_the_printed_one() -> None:
    rows = {row[0]: row[1:] for row in table2().rows}
    for n, orders in PRINTED_2.items():
        for order, printed in orders.items():
            ours = [float(str(cell)) for cell in rows[f"n = 10^{len(str(n)) - 1}, order {order}"]]
            assert ours == pytest.approx(list(printed), rel=6e-6)


def test_errors_are_marked_and_the_figure_has_its_curves() -> None:
    assert "0.144" in str(table1())
    assert "✗ the paper errs" in str(table2())
    assert len(figure2().rows) == 16
    assert {one.name for one in REPRODUCTIONS} == {
        "miura-table1",
        "miura-table2",
        "miura-fig2",
        "miura-triangle",
    }


def test_the_triangle_inequality_fails_as_printed_and_holds_corrected() -> None:
    rows = triangle().rows
    assert rows[0][1:] == pytest.approx((1.0, 0.7059, "fails", 1.17405), abs=1e-4)
    for _, true, printed, verdict, right in rows:
        assert isinstance(true, float)
        assert isinstance(printed, float)
        assert isinstance(right, float)
        assert right >= true * (1 - 1e-12)
        assert (verdict == "fails") == (printed < true)
