"""Global, local and smooth sensitivities, for study. What depends on the data is private."""

from oboro.statistics.sensitivity.enumeration import Sensitivity, of
from oboro.statistics.sensitivity.networks import (
    local_mst_cost,
    local_triangles,
    smooth_mst_cost,
    smooth_triangles,
)
from oboro.statistics.sensitivity.orders import (
    local_order_statistic,
    smooth_order_statistic,
    smooth_trimmed_mean,
)

__all__ = [
    "Sensitivity",
    "local_mst_cost",
    "local_order_statistic",
    "local_triangles",
    "of",
    "smooth_mst_cost",
    "smooth_order_statistic",
    "smooth_triangles",
    "smooth_trimmed_mean",
]
