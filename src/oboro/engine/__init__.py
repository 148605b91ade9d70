"""Brings data, and bounds contributions."""

from oboro.engine.coding import check_columns, code_sql, coded_rows, count_cells
from oboro.engine.source import Source, open_data

__all__ = ["Source", "check_columns", "code_sql", "coded_rows", "count_cells", "open_data"]
