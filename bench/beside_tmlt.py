"""tmlt.analytics on its own Spark, in an environment of its own: bench/peers.py runs this there, not here.

Prints the processor time of each answer, in the better of two: the first compiles what the second uses.
"""

import json
import os
import sys

from bench.measure import adopt, tree_time

os.environ["PYSPARK_PYTHON"] = sys.executable  # its workers must be this Python

from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, BinningSpec, PureDPBudget, QueryBuilder, Session

adopt()
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "4g").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
people = spark.read.parquet(sys.argv[1])
session = Session.from_dataframe(PureDPBudget(1000), "people", people, protected_change=AddOneRow())
questions = {
    "mean": QueryBuilder("people").average("income", 0, 1_000_000),
    "histogram": QueryBuilder("people").histogram("age", BinningSpec(list(range(0, 121, 10)))),
}
took = {}
for name, question in questions.items():
    for _ in range(2):
        start = tree_time()
        session.evaluate(question, PureDPBudget(1)).collect()
        took[name] = min(tree_time() - start, took.get(name, 1e9))
print(json.dumps(took))
