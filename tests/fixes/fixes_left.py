"""Fixes that `fixes_calls` does not do, and why.

What needs more than a call is tried where that is at hand; the rest is a debt: it may only shrink. A line is the place of the
sources as `fixes_places` calls it.
"""

from __future__ import annotations

from fixes_places import Place

MODULES = {
    "service/": "needs a service that runs: tests/service starts one, with good and bad declarations",
    "cli/service.py": "needs a service that runs: tests/service",
    "secure/": "needs the other party, or urns that were used before: tests/secure plays both",
    "cli/secure.py": "needs the other party: tests/secure",
    "engine/cluster.py": "needs a cluster: make test-spark",
    "ledger/file.py": "needs a disk, a folder or a server in trouble: tests/ledger",
    "ledger/database.py": "needs a server, or a ledger that was put back: tests/ledger",
    "ledger/keys.py": "needs a key that is lost or open to others: tests/ledger/test_ledger_keys.py",
    "ledger/records.py": "needs a ledger that was altered: tests/ledger/test_ledger_tamper.py",
    "ledger/copies.py": "needs a ledger of another version: tests/ledger",
    "payment.py": "needs a run that dies after it paid: tests/ledger/test_ledger_failures.py",
    "report/": "needs a published file that was altered: tests/report",
    "tables/": "what no call here does needs a plan or a published file that was altered: tests/tables, tests/plans",
    "statistics/": "what no call here does needs a plan that was altered, or a system without a seal: tests/statistics, tests/plans",
    "audit/": "needs an attack that somebody wrote: tests/audit",
}  # of what begins so, what no call does
_EXTRA = "needs an environment without an extra"
_WORDS = "advice in words, that no line of code follows yet"
_DEBT = "an error that no line of fixes_calls brings about yet"
LEFT: dict[str, str] = {
    "ledger/account.py schema_of: 'pip install --upgrade oboro'": _EXTRA,
    'release/workbook.py _writer: \'pip install "oboro[xlsx]"\'': _EXTRA,
    'synth/quality.py usefulness: "pip install \'oboro[sklearn]\'"': _EXTRA,
    "cli/checks.py _show_coverage: 'do not publish these intervals'": _WORDS,
    "cli/checks.py audit: 'do not release with that plan'": _WORDS,
    "cli/sql.py _ask: 'eps 0.1'": _WORDS,
    'cli/sql.py read_tables: Lines(EXAMPLE)': _WORDS,
    'cli/sql.py read_tables: f\'key = "{unit.column}"\'': _WORDS,
    "domain/domain.py check_entries: f'{close} = ...' if close else None": _WORDS,
    "dynamics/gains.py _too_hard: 'a balanced realisation of the system, or a shorter horizon'": _WORDS,
    "dynamics/plan.py SignalPlan.parts: 'a plan as its function makes it'": _WORDS,
    "dynamics/sigma.py _not_positive: 'sigma + 0.001 * numpy.eye(len(sigma))'": _WORDS,
    "dynamics/system.py System.__post_init__: 'D = [[0]]'": _WORDS,
    "dynamics/system.py _continuous: 'control.sample_system(system, 0.1) or control.ss(A, B, C, D, True)'": _WORDS,
    "engine/careful.py Edition.check: 'open it again: Session(data, ...), or run the plan on the path'": _WORDS,
    "engine/duck.py on_this_machine: 'a sample of the table, written to a Parquet file'": _WORDS,
    "engine/memory.py _column: 'data without that column'": _WORDS,
    "engine/persons.py check_keys: 'write both as texts'": _WORDS,
    "engine/protocol.py Source.need: f'write column {name!r} as text'": _WORDS,
    "engine/protocol.py check_width: 'a larger step'": _WORDS,
    "engine/protocol.py in_order: 'write the columns that are needed to a Parquet file'": _WORDS,
    "engine/source.py _opened: 'data without that column'": _WORDS,
    'engine/text_files.py open_text: in_utf8(path, line)': _WORDS,
    'exact.py usable: _handed(name, 1)': _WORDS,
    "files.py _refuse_other_than_file: 'the path of a file'": _WORDS,
    'files.py _refuse_other_than_file: f"-o {shlex.quote(f\'published-{path.name}\')}"': _WORDS,
    "files.py _unwritable: 'a folder that exists and may be written'": _WORDS,
    "ledger/account.py Ledger._charge: 'a plan that costs less'": _WORDS,
    "ledger/account.py Ledger._refuse_foreign: 'reserve again'": _WORDS,
    'ledger/account.py Ledger._refuse_taken: fix': _WORDS,
    "ledger/account.py Ledger._too_expensive: 'a plan that costs less, or a new ledger if more may be spent about these people'": _WORDS,
    "ledger/account.py Ledger.begin.write: 'publish it again, if it is the next one'": _WORDS,
    'ledger/account.py _claim: \'"a new path"\'': _WORDS,
    "ledger/account.py recognise: 'if it is empty, a ledger can be created in it again'": _WORDS,
    "ledger/replay.py Replay.of: 'find the newer copy; what it had spent is spent'": _WORDS,
    "privacy/events.py _unknown: 'Spend(guarantee), with the guarantee that was proved for it'": _WORDS,
    "release/certificate.py Certificate.verify_signature: 'ask the publisher for the public keys of the ledger (oboro ledger show)'": _WORDS,
    "release/certificate.py _read: 'a version of oboro that knows it'": _WORDS,
    "release/certificate.py _read: 'the original file'": _WORDS,
    'release/certificate.py verify_certificate: f"--data {shlex.quote(file[\'name\'])}"': _WORDS,
    "release/part.py Part.__post_init__: 'part(noise, of, moves=...)'": _WORDS,
    "release/part.py part: 'Part(noise, of, moves, costs), by a theorem of its own'": _WORDS,
    "release/plan.py Plan.__post_init__: 'a plan as its function makes it'": _WORDS,
    'release/plan.py Plan.__post_init__: \'part(noise, "count", moves=1)\'': _WORDS,
    "release/plan.py _read: 'a newer oboro'": _WORDS,
    "release/plan.py made_again: '@ob.release.register'": _WORDS,
    "release/release.py Release.interval: 'release.value'": _WORDS,
    "release/release.py Release.not_negative: 'release.interval(0.95)'": _WORDS,
    "release/workbook.py check_room: 'another ending, such as .parquet or .csv'": _WORDS,
    'synth/model.py check_file: f"{where.stem or \'synthetic\'}.parquet"': _WORDS,
    "synth/model.py model_of: 'published.parquet'": _WORDS,
    "synth/plan.py ModelPlan.check: 'fewer, broader values'": _WORDS,
    'synth/records.py GaussianPlan.check: \'kind = "approx"\'': _WORDS,
    "synth/records.py check_facts: 'a larger step'": _WORDS,
    "synth/records.py gaussian_plan: 'without assume_min_eigenvalue, a ridge is found for the asked eps'": _WORDS,
    "cli/ledger.py upgrade: '--backup before.ledger'": _DEBT,
    "cli/synth.py read_condition: '--where age=18..64'": _DEBT,
    "domain/areas.py Areas._check: setting(table='areas.parquet')": _DEBT,
    "dynamics/calibration.py _root: setting(eps=1, delta='1e-6')": _DEBT,
    "dynamics/laws.py _reused: 'ob.dynamics.stream(plan, ledger=ledger), once for each record'": _DEBT,
    "dynamics/outliers.py alpha_for: setting(rate=f'{math.ceil(1000 * least.rates[0]) / 1000:g}')": _DEBT,
    'dynamics/plan.py SignalPlan.check: setting(scale=1)': _DEBT,
    "dynamics/receiver.py estimate: setting(noise='shared') + ', which is the least sigma'": _DEBT,
    'engine/protocol.py Source.check_kept: setting(max_rows=most)': _DEBT,
    'ledger/account.py Ledger._charge: setting(approval=1)': _DEBT,
    "ledger/account.py Ledger._decide: setting(by='steward' if not replay.same_person(asker, 'steward') else 'another steward')": _DEBT,
    "ledger/account.py refuse_older: f'oboro ledger upgrade {shlex.quote(place.shown)}'": _DEBT,
    "ledger/replay.py _writable: setting(eps='0.125')": _DEBT,
    'noise/draws.py checked_size: setting(size=1000)': _DEBT,
    'release/release.py Release._by: setting(by=None)': _DEBT,
    "synth/copula.py CopulaSampler.draw: setting(method='marginals') + ', whose model draws under conditions directly'": _DEBT,
    'synth/copula.py _not_there: setting(where={column.name: example})': _DEBT,
    "synth/papers/miura.py read_adult: 'oboro reproduce miura-adult --data adult.data'": _DEBT,
}  # fmt: skip


def why_not(place: Place) -> str | None:
    """The reason why nobody does the fix of a place, if there is one."""
    return LEFT.get(place.name) or next(
        (why for start, why in MODULES.items() if place.file.startswith(start)), None
    )
