"""Synthetic people: a table that behaves like the real one, made of people who do not exist.

The "real" table here is generated too, in the shape of a well-known census extract: age, schooling, hours,
sex, marital status, capital gains with a spike at zero, and an income above or below 50,000. Run it in an empty
folder. It leaves people.oboro, the private model, and synthetic.csv, drawn from it.
"""

import math
import random

import pyarrow.csv

import oboro as ob

COLUMNS = ("age", "schooling", "hours", "sex", "marital", "gain", "income")


def person(draw: random.Random) -> tuple[object, ...]:
    age = min(90, max(17, int(draw.gammavariate(8, 3.4)) + 12))
    schooling = min(16, max(1, round(draw.gauss(10, 2.5))))
    marital = (
        "single" if draw.random() < 1.6 * math.exp(-age / 30) else draw.choice(["married"] * 4 + ["other"])
    )
    hours = min(99, max(1, round(draw.gauss(41 if age < 65 else 28, 11))))
    gain = int(draw.lognormvariate(8.3, 0.9)) if draw.random() < 0.08 else 0
    score = 0.35 * (schooling - 11) + 0.03 * (hours - 40) + 1.7 * (marital == "married") + gain / 6000 - 2.1
    income = "more" if draw.random() < 1 / (1 + math.exp(-score)) else "less"
    return age, schooling, hours, draw.choice("FM"), marital, min(gain, 99_999), income


draw = random.Random("nobody in particular")
real = dict(zip(COLUMNS, zip(*(person(draw) for _ in range(10_000)), strict=True), strict=True))

domain = ob.Domain(
    [
        ob.Integer("age", 0, 120),
        ob.Integer("schooling", 1, 16),
        ob.Integer("hours", 0, 99),
        ob.Category("sex", ["F", "M"]),
        ob.Category("marital", ["married", "other", "single"]),
        ob.Integer("gain", 0, 99_999),
        ob.Category("income", ["less", "more"]),
    ]
)
unit = ob.Unit.row("replace")
ledger = ob.Ledger.create("people.ledger", dataset="people 2026", unit=unit, budget=ob.Approx(2, "1e-5"))
plan = ob.synth.plan(domain, unit=unit, n=10_000, eps=1, delta="1e-6")
print(plan.forecast(), end="\n\n")

model = ob.synth.release(real, plan, ledger=ledger, name="synthetic people")
model.save("people.oboro")  # the model is private: drawing from it spends nothing more
synthetic = model.sample(10_000)
pyarrow.csv.write_csv(synthetic, "synthetic.csv")
for one in synthetic.slice(0, 3).to_pylist():
    print(one)

working_women = model.sample(1000, where={"sex": "F", "age": (18, 64)})
print(f"\n{working_women.num_rows} women of working age, drawn on request")

print(f"\n{ob.synth.quality(real, synthetic)}")  # touches real data: for the steward's eyes only
print("\nwritten: people.oboro, synthetic.csv")
