"""A database that answers privately: counts, means, quantiles and groups, each paid for from one ledger.

Run it in an empty folder. The people are generated.
"""

import random

import oboro as ob

draw = random.Random("people who do not exist")
rows = [
    (draw.randrange(95), int(draw.lognormvariate(10.3, 0.6)), draw.choice(["north", "south", "west"]))
    for _ in range(20_000)
]
data = dict(zip(("age", "income", "region"), zip(*rows, strict=True), strict=True))  # or "people.parquet"

# What is possible comes from knowledge, never from the data: a larger income than this counts as this.
domain = ob.Domain(
    [
        ob.Integer("age", 0, 120),
        ob.Integer("income", 0, 200_000, step=100),
        ob.Category("region", ["north", "south", "west"]),
    ]
)
unit = ob.Unit.row("replace")  # each person has one row; how many there are is public
ledger = ob.Ledger.create("people.ledger", dataset="people 2026", unit=unit, budget=ob.Pure(1))
people = ob.Session(data, domain=domain, unit=unit, ledger=ledger)

print(people.forecast.mean("income", eps="0.1"), end="\n\n")  # free: look first, then spend
print(people.mean("income", eps="0.1"), end="\n\n")
print(people.where("age >= 20").by("region").count(eps="0.1"), end="\n\n")
print(people.quantile("income", [0.1, 0.5, 0.9], eps="0.2"), end="\n\n")

with people.batch(eps="0.5") as batch:  # several questions for one price
    income, age = batch.mean("income", weight=2), batch.median("age")
print(income.value, age.value, end="\n\n")

try:
    people.mean("age", eps="0.2")
except ob.OboroError as refusal:  # 0.9 of 1 is spent: the ledger says no, and nothing is drawn
    print(refusal)
