"""Statistics of rows: histograms, so far."""

from oboro.statistics.bins import Bins
from oboro.statistics.histogram import HistogramPlan, histogram, histogram_plan

__all__ = ["Bins", "HistogramPlan", "histogram", "histogram_plan"]
