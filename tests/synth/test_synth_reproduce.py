"""Every cell that the paper prints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oboro.errors import DataError
from oboro.synth.papers.miura import (
    PRINTED_1,
    PRINTED_2,
    REPRODUCTIONS,
    adult,
    figure2,
    read_adult,
    renyi_gaussians,
    table1,
    table2,
    together,
    triangle,
)


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
    names = ("table1", "table2", "fig2", "together", "adult", "triangle")
    assert [one.name for one in REPRODUCTIONS] == [f"miura-{name}" for name in names]


def test_the_triangle_inequality_fails_as_printed_and_holds_corrected() -> None:
    rows = triangle().rows
    assert rows[0][1:] == pytest.approx((1.0, 0.7059, "fails", 1.17405), abs=1e-4)
    for _, true, printed, verdict, right in rows:
        assert isinstance(true, float)
        assert isinstance(printed, float)
        assert isinstance(right, float)
        assert right >= true * (1 - 1e-12)
        assert (verdict == "fails") == (printed < true)


def test_towards_order_1_theorem_3_2_blows_up_and_the_others_fall() -> None:
    found = figure2()
    assert found.columns[1] == "1.01"
    rows = {row[0]: [float(str(cell)) for cell in row[1:6]] for row in found.rows if row[0].endswith("10^7")}
    printed = rows["public n, Theorem 3.2, n = 10^7"]
    assert printed[0] > 50 * printed[3]
    for name in ("private n, Theorem 3.1", "private n, exact", "public n, closed form"):
        assert rows[f"{name}, n = 10^7"] == sorted(rows[f"{name}, n = 10^7"])


def test_order_infinity_is_the_largest_ratio_and_the_limit_of_orders() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        root = rng.normal(size=(2, 2, 2))
        one = root[0] @ root[0].T + np.eye(2)
        two = one + root[1] @ root[1].T + 0.3 * np.eye(2)
        m = rng.normal(size=2)
        largest = renyi_gaussians("inf", [0, 0], one, m, two)
        assert renyi_gaussians(10**7, [0, 0], one, m, two) == pytest.approx(largest, rel=1e-4)
        x = rng.normal(size=(20_000, 2)) * 3
        at = [
            -np.einsum("ij,jk,ik->i", x - c, np.linalg.inv(s), x - c) / 2 - np.log(np.linalg.det(s)) / 2
            for c, s in ((0, one), (m, two))
        ]
        assert (at[0] - at[1]).max() <= largest * (1 + 1e-9)
        assert renyi_gaussians("inf", m, two, [0, 0], one) == np.inf
    assert renyi_gaussians("inf", [0], [[1]], [1], [[1]]) == np.inf


def test_noise_and_sampling_together_cost_as_resistors_in_parallel() -> None:
    """The closed form against the divergence of all records at once: N numbers of covariance s I + v 11'."""
    for records, s, v, move, order in ((3, 0.4, 0.1, 0.2, 4), (8, 0.1, 0.5, 0.3, 2)):
        joint = s * np.eye(records) + v * np.ones((records, records))
        found = renyi_gaussians(order, np.zeros(records), joint, np.full(records, move), joint)
        assert found == pytest.approx(order * move**2 / (2 * (v + s / records)), rel=1e-12)
    for _, cost, noise, sampling, both, least in together().rows:
        assert isinstance(cost, float)
        assert isinstance(noise, float)
        assert isinstance(both, float)
        assert both < noise
        assert (sampling is None) == (cost > 0.005) == (least == "both")
        assert sampling is None or sampling == pytest.approx(both)


def test_adult_is_read_and_its_smallest_eigenvalue_found(tmp_path: Path) -> None:
    assert adult().rows[1] == ("smallest eigenvalue", 0.02, None)
    file = tmp_path / "adult.data"
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 100, (500, 6))
    text = "{}, a, {}, b, {}, c, d, e, f, g, {}, {}, {}, h, <=50K"
    file.write_text("\n".join([*(text.format(*row) for row in numbers.tolist()), "", "|1x3 Cross validator"]))
    assert np.array_equal(read_adult([str(file)]), numbers)
    rows = {row[0]: row[2] for row in adult([str(file)]).rows}
    scaled = 2 * (numbers - numbers.min(axis=0)) / np.ptp(numbers, axis=0) - 1
    assert rows["rows"] == 500
    assert rows["smallest eigenvalue"] == pytest.approx(
        float(np.linalg.eigvalsh(np.cov(scaled.T, bias=True))[0])
    )
    for wrong in ("", "1, 2, 3"):
        file.write_text(wrong)
        with pytest.raises(DataError, match="not UCI"):
            read_adult([str(file)])
