"""A population mesh: who lives where, published without publishing anybody.

Run it in an empty folder. It leaves published.parquet, its signed certificate, and map.html for your browser.
"""

import oboro as ob

people = ob.tables.city()  # a generated city of 512 x 512 cells: nobody in it is real
row, col = people.nonzero()
cells = {"row": row, "col": col, "people": people[row, col]}

# Four decisions, before any data is touched: what is possible, who is protected, how much in all, how much now.
domain = ob.Domain([ob.Grid("row", "col", shape=people.shape)])
unit = ob.Unit.cells()  # one person, counted in one cell
ledger = ob.Ledger.create("city.ledger", dataset="city 2026", unit=unit, budget=ob.Pure(2))
plan = ob.tables.plan(domain, unit=unit, eps="0.5", count="people")

print(plan.forecast())  # free
release = ob.tables.release(cells, plan, ledger=ledger, name="population mesh")
certificate = release.save("published.parquet")
ob.verify_certificate(certificate, public_key=ledger.public_key)

# Whoever has the file can ask about any part of it, with an interval, and spends nothing.
print(
    "\nrows 200 to 231, columns 200 to 231:",
    ob.tables.ask("published.parquet", {"row": (200, 231), "col": (200, 231)}),
)

ob.report.write_map(
    release.to_arrow(), domain, "map.html", certificate=release.certificate, title="Population of a city"
)
print("written: published.parquet,", f"{certificate}, map.html")
print("left in the ledger:", ledger.remaining)
