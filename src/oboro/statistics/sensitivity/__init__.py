"""Local and smooth sensitivities, for study. What these functions return depends on the data and is private."""

from oboro.statistics.sensitivity.networks import smooth_mst_cost, smooth_triangles
from oboro.statistics.sensitivity.orders import (
    local_order_statistic,
    smooth_order_statistic,
    smooth_trimmed_mean,
)

__all__ = [
    "local_order_statistic",
    "smooth_mst_cost",
    "smooth_order_statistic",
    "smooth_triangles",
    "smooth_trimmed_mean",
]
