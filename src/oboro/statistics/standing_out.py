"""Whether counts and groups will stand out of the noise: a note for forecasts, from public facts alone."""

from __future__ import annotations

from oboro.exact import about

MANY = 100  # parts from which on it is worth a note, if nobody knows how many rows there are


def noise_note(parts: int, rows: int | None, least: float, each: str = "count") -> tuple[str, ...]:
    """Says so where most of `parts` will be noise: each needs `least` rows to stand out, of `rows` in all.

    `rows` is public or a guess. Without it the note says how many rows it takes, if there are many parts.
    """
    if parts < 2 or (rows is None and parts < MANY):
        return ()
    if rows is None:
        return (
            f"a {each} of fewer than {about(least)} rows is mostly noise: with fewer than {about(least * parts)} "
            f"rows in all, so are most of these {parts:,}",
        )
    if rows >= least * parts:
        return ()
    return (
        f"most will be noise: a {each} has {about(rows / parts)} of {rows:,} rows on average, and needs "
        f"{about(least)} to stand out; fewer and larger ones say more",
    )
