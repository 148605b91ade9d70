"""Fixes that no call does yet, and why. It may only shrink.

A line is the place of the sources as `fixes_places` calls it.
"""

from __future__ import annotations

from fixes_places import Place

_PARTY = "needs the other party in the middle of a draw, or urns that cannot be had: tests/secure plays both"
_SERVICE = "needs a service that runs: tests/service starts one"
_CLUSTER = "needs a cluster: make test-spark"
_DISK = "needs a disk, a folder or a server in trouble: tests/ledger"
_LEDGER = "needs a ledger of an older version, or two processes at once: tests/ledger"
_BROKEN = "needs a plan that breaks its promise: tests/mutants"
_DEBT = "an error that no line of fixes_calls or fixes_more brings about yet"
WAITING = 12  # so many new fixes may wait for their line
LEFT: dict[str, str] = {
    "cli/checks.py audit: 'do not release with that plan'": _BROKEN,
    "cli/checks.py _show_coverage: 'do not publish these intervals'": _BROKEN,
    "cli/ledger.py upgrade: '--backup before.ledger'": _DEBT,
    "cli/secure.py draw: '--connect 127.0.0.1:9000'": _PARTY,
    "cli/secure.py _shelf: '--state urns.state'": _PARTY,
    "cli/secure.py _shelf: f'--state {shlex.quote(str(typed))}'": _PARTY,
    "cli/secure.py _identity: 'oboro secure keys NAME'": _PARTY,
    'cli/service.py _needs_extra: "pip install \'oboro[service]\'"': _SERVICE,
    "cli/sql.py _ask: 'eps 0.1'": _DEBT,
    "dynamics/calibration.py _root: setting(eps=1, delta='1e-6')": _DEBT,
    "dynamics/gains.py _too_hard: 'a balanced realisation of the system, or a shorter horizon'": _DEBT,
    "dynamics/laws.py _reused: 'ob.dynamics.stream(plan, ledger=ledger), once for each record'": _DEBT,
    "engine/cluster.py _knock: f'without TLS: {bare}'": _CLUSTER,
    'engine/cluster.py in_words: "look at the cluster\'s own pages: they show data, so they are for the steward alone"': _CLUSTER,
    "engine/duck.py on_this_machine: 'a sample of the table, written to a Parquet file'": _CLUSTER,
    "engine/persons.py check_keys: 'write both as texts'": _DEBT,
    'engine/protocol.py Source.check_kept: setting(max_rows=most)': _CLUSTER,
    "engine/protocol.py in_order: 'write the columns that are needed to a Parquet file'": _CLUSTER,
    "engine/source.py _opened: 'data without that column'": _DEBT,
    "ledger/creation.py refuse_older: f'oboro ledger upgrade {shlex.quote(place.shown)}'": _LEDGER,
    "ledger/account.py Ledger.begin.write: 'publish it again, if it is the next one'": _LEDGER,
    "ledger/book.py Book._too_expensive: 'a plan that costs less, or a new ledger if more may be spent about these people'": _LEDGER,
    "ledger/database.py Database._check_journal: 'end the processes that use oboro 0.1, and try again'": _DISK,
    "ledger/database.py _refuse_older_copy: 'find the newer copy; what it had spent is spent'": _DISK,
    "ledger/file.py refuse_network: 'a local folder, or for several machines a ledger on postgresql://'": _DISK,
    "ledger/file.py identity: f'docker run -v FOLDER:{shlex.quote(str(path.parent))} in place of -v FOLDER/{shlex.quote(path.name)}:{shlex.quote(str(path))}'": _DISK,
    "ledger/file.py _sqlite: 'make room and try again'": _DISK,
    "ledger/file.py _sqlite: 'make room, or look at the disk, and try again'": _DISK,
    "ledger/file.py _sqlite: f'to read it: cp -p {_without_key(place.shown)} FOLDER, and open the copy in that folder' if os.path.isfile(place.shown) else None": _DISK,
    "ledger/file.py _postgres: f'oboro ledger show {shlex.quote(place.shown)}, once the server is back'": _DISK,
    "ledger/file.py _damaged: 'restore a backup, then `verify` it'": _DISK,
    "ledger/file.py _busy: 'try again, or look for a process that hangs'": _DISK,
    "ledger/keys.py _in_words: setting(key='path of the key')": _DISK,
    "ledger/replay.py _writable: setting(eps='0.125')": _LEDGER,
    "privacy/events.py _unknown: 'ob.privacy.Spend(guarantee), with the guarantee that was proved for it'": _DEBT,
    "secure/digits.py digit_urns: told(urns=f'{urns + 1}', seconds=f'{4 * seconds:g}')": _PARTY,
    "secure/draws.py Holder.open_body: 'oboro secure encrypt, and fresh urns'": _PARTY,
    "secure/draws.py DrawPlan.prepare: 'a noise plan for as many: ' + setting(answers=max(1, len(data.answers)))": _PARTY,
    "secure/draws.py DrawPlan.measure: 'a plain number'": _PARTY,
    "secure/noise_plan.py NoisePlan.check_sendable: setting(method='digits', urns=4)": _PARTY,
    "secure/noise_plan.py verify: 'oboro secure plan, or ' + setting(method='digits')": _PARTY,
    "secure/party.py _used: 'oboro secure urns'": _PARTY,
    "secure/planner.py _paper: setting(method='digits')": _PARTY,
    "secure/protocol.py _settle: 'do not trust the sender'": _PARTY,
    "secure/wire.py receive_parts: 'the same version of oboro on both sides'": _PARTY,
    "secure/wire.py Channel.read: 'begin again: these urns count as used'": _PARTY,
    "secure/wire.py _in_words: 'oboro secure serve ... --peer THEIR.crt'": _PARTY,
    "service/arrivals.py Arrivals._admitted: f'{account.name} 2'": _SERVICE,
    'service/client.py _Line._sent: \'ob.connect("https://stat.example", token=..., ca="authority.pem")\'': _SERVICE,
    'service/client.py RemoteBatch._answer: \'batch.mean("income", weight=2)\'': _SERVICE,
    "service/desk.py Desk._refuse_unaffordable: 'a smaller eps, or the next period'": _SERVICE,
    "service/office.py _two_of_one: f'oboro {command} service.toml {name}'": _SERVICE,
    "service/questions.py build_of: setting(question='mean')": _SERVICE,
    'service/questions.py one_spelling: "age >= 20 and region = \'north\'"': _SERVICE,
    "service/server.py Workers.start: 'OBORO_TRACEBACK=1'": _SERVICE,
    "service/studio/declare.py : 'people.csv'": _SERVICE,
    "service/studio/declare.py : f'{path.stem}-2{path.suffix}'": _SERVICE,
    "service/studio/declare.py _refuse_second: f'{path.stem}-2{path.suffix}'": _SERVICE,
    'service/studio/local.py _listening: setting(port=0)': _SERVICE,
    "statistics/isolation.py Computing._start: setting(isolation=PLAIN) + ', which makes the promise conditional on the function'": _DEBT,
    "statistics/marginals.py Shared.prepare: 'a plan with ' + setting(n=found)": _DEBT,
    "statistics/marginals.py _wrong: 'with session.batch(eps=1) as batch:'": _DEBT,
    "statistics/own.py OwnFunctionPlan.check: setting(name='midrange, version 1')": _DEBT,
    "statistics/questions.py BatchPlan.check: 'with session.batch(eps=1) as batch:'": _DEBT,
    "statistics/row_function.py RowFunctionPlan.values: 'let it return a number where it cannot tell'": _DEBT,
    "statistics/smooth_noise.py SmoothPlan.noise: f'{found.law!r}, ' + told(beta=show(found.beta))": _DEBT,
    'synth/copula.py _not_there: setting(where={column.name: example})': _DEBT,
    "synth/copula.py CopulaSampler.draw: setting(method='marginals') + ', whose model draws under conditions directly'": _DEBT,
    "tables/geography.py encoded_places: setting(outlines='municipalities.geojson')": _DEBT,
    "tables/geography.py _raster: '-o published.gpkg'": _DEBT,
    "tables/input.py _count_rows: setting(count='people')": _DEBT,
    "tables/series/visits.py read_visits: setting(count='people')": _DEBT,
    "tables/strategy.py Strategy._carries_nothing: 'oboro table release ... --strategy tree -o published.parquet'": _DEBT,
    "tables/tree/workload.py _unknown: setting(workload='blocks')": _DEBT,
}  # fmt: skip


def why_not(place: Place) -> str | None:
    """The reason why nobody does the fix of a place, if there is one."""
    return LEFT.get(place.name)
