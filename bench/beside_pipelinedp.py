"""PipelineDP in one process, in an environment of its own: bench/peers.py runs this there, not here.

Prints the processor time of each answer, in the better of two. Reading is not counted: rows are tuples already.
"""

import json
import sys
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pipeline_dp
import pyarrow.parquet as pq

from bench.measure import tree_time

table = pq.read_table(sys.argv[1])
people = list(zip(*(table.column(name).to_pylist() for name in ("user_id", "income", "age")), strict=True))


def ask(params: Any, group: Callable[[Any], int], value: Callable[[Any], int], groups: range) -> None:
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=0)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=itemgetter(0), partition_extractor=group, value_extractor=value
    )
    found = engine.aggregate(people, params, extractors, public_partitions=list(groups))
    budget.compute_budgets()
    assert len(list(found)) == len(groups)


mean = pipeline_dp.AggregateParams(
    metrics=[pipeline_dp.Metrics.MEAN],
    max_partitions_contributed=1,
    max_contributions_per_partition=10,
    min_value=0,
    max_value=1_000_000,
)
counts = pipeline_dp.AggregateParams(
    metrics=[pipeline_dp.Metrics.COUNT], max_partitions_contributed=10, max_contributions_per_partition=1
)
questions: dict[str, Callable[[], None]] = {
    "mean": lambda: ask(mean, lambda row: 0, itemgetter(1), range(1)),
    "histogram": lambda: ask(counts, lambda row: min(row[2] // 10, 11), lambda row: 0, range(12)),
}
took: dict[str, float] = {}
for name, question in questions.items():
    for _ in range(2):
        start = tree_time()
        question()
        took[name] = min(tree_time() - start, took.get(name, 1e9))
print(json.dumps(took))
