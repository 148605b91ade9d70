"""Who may do what: every endpoint by everybody, and nothing that tells what there is from what is not for you."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from service_town import DATASET, MEAN, Town, listening, made, town
from starlette.routing import Mount

from oboro.errors import LedgerError, ParameterError
from oboro.service import people
from oboro.service.server import Service
from oboro.service.studio import entrance

ASKERS, STEWARDS, READERS = {"analyst", "steward"}, {"steward"}, {"steward", "auditor"}
EVERYBODY = ASKERS | READERS
ROLES: dict[tuple[str, str], set[str] | None] = {  # None: whoever knocks
    ("GET", "/"): None,
    ("GET", "/healthz"): None,
    ("GET", "/v1/healthz"): None,
    ("GET", "/v1/openapi.json"): None,
    ("POST", "/v1/login"): None,
    ("GET", "/v1/datasets"): ASKERS,
    ("GET", "/v1/datasets/{dataset}"): ASKERS,
    ("GET", "/v1/datasets/{dataset}/made-up"): ASKERS,
    ("POST", "/v1/datasets/{dataset}/forecast"): ASKERS,
    ("POST", "/v1/datasets/{dataset}/questions"): ASKERS,
    ("GET", "/v1/questions"): ASKERS,
    ("GET", "/v1/questions/{id}"): ASKERS,
    ("GET", "/v1/questions/{id}/events"): ASKERS,
    ("GET", "/v1/questions/{id}/release"): ASKERS,
    ("GET", "/v1/questions/{id}/certificate"): ASKERS,
    ("POST", "/v1/questions/{id}/approve"): STEWARDS,
    ("POST", "/v1/questions/{id}/decline"): STEWARDS,
    ("GET", "/v1/questions/{id}/plan"): STEWARDS,
    ("GET", "/v1/datasets/{dataset}/grants"): STEWARDS,
    ("POST", "/v1/datasets/{dataset}/grants"): STEWARDS,
    ("POST", "/v1/datasets/{dataset}/grants/revoke"): STEWARDS,
    ("GET", "/v1/analysts"): STEWARDS,
    ("POST", "/v1/analysts"): STEWARDS,
    ("GET", "/v1/tokens"): EVERYBODY,
    ("POST", "/v1/tokens"): EVERYBODY,
    ("DELETE", "/v1/tokens/{id}"): EVERYBODY,
    ("GET", "/v1/datasets/{dataset}/ledger"): READERS,
    ("GET", "/v1/datasets/{dataset}/ledger/verification"): READERS,
    ("GET", "/v1/datasets/{dataset}/ledger/head"): READERS,
    ("GET", "/v1/datasets/{dataset}/ledger/export"): READERS,
    ("GET", "/v1/alerts"): STEWARDS,
    ("GET", "/v1/metrics"): STEWARDS,
}
PAGES: dict[tuple[str, str], set[str] | None] = {
    ("GET", "/studio"): EVERYBODY,
    ("GET", "/studio/"): EVERYBODY,
    ("GET", "/studio/login"): None,
    ("POST", "/studio/login"): None,
    ("GET", "/studio/enter"): None,
    ("POST", "/studio/logout"): EVERYBODY,
    ("GET", "/studio/language/{language}"): None,
    ("GET", "/studio/static/{name}"): None,
    ("GET", "/studio/ask"): ASKERS,
    ("GET", "/studio/ask/{dataset}"): ASKERS,
    ("POST", "/studio/ask/{dataset}"): ASKERS,
    ("GET", "/studio/ask/{dataset}/forecast"): ASKERS,
    ("POST", "/studio/ask/{dataset}/rehearsal"): ASKERS,
    ("GET", "/studio/questions/{id}"): ASKERS,
    ("GET", "/studio/releases"): ASKERS,
    ("GET", "/studio/releases/{dataset}/{entry:int}"): ASKERS,
    ("GET", "/studio/releases/{dataset}/{entry:int}/map"): ASKERS,
    ("GET", "/studio/releases/{dataset}/{entry:int}/{file}"): ASKERS,
    ("GET", "/studio/tables"): ASKERS,
    ("GET", "/studio/tables/{dataset}"): ASKERS,
    ("GET", "/studio/tables/{dataset}/forecast"): ASKERS,
    ("GET", "/studio/tables/{dataset}/series/{number:int}"): ASKERS,
    ("GET", "/studio/tables/{dataset}/series/{number:int}/play"): ASKERS,
    ("GET", "/studio/synthetic"): ASKERS,
    ("GET", "/studio/synthetic/{dataset}"): ASKERS,
    ("GET", "/studio/synthetic/{dataset}/forecast"): ASKERS,
    ("GET", "/studio/synthetic/{dataset}/{entry:int}/records"): ASKERS,
    ("GET", "/studio/synthetic/{dataset}/{entry:int}/quality"): STEWARDS,
    ("GET", "/studio/approvals"): STEWARDS,
    ("GET", "/studio/approvals/{id}"): STEWARDS,
    ("POST", "/studio/approvals/{id}/approve"): STEWARDS,
    ("POST", "/studio/approvals/{id}/decline"): STEWARDS,
    ("GET", "/studio/analysts"): STEWARDS,
    ("POST", "/studio/analysts"): STEWARDS,
    ("POST", "/studio/analysts/password"): STEWARDS,
    ("POST", "/studio/analysts/token"): STEWARDS,
    ("POST", "/studio/analysts/token/{id}/revoke"): STEWARDS,
    ("POST", "/studio/analysts/grant/{dataset}"): STEWARDS,
    ("POST", "/studio/analysts/grant/{dataset}/revoke"): STEWARDS,
    ("GET", "/studio/account"): READERS,
    ("GET", "/studio/account/{dataset}"): READERS,
    ("POST", "/studio/account/{dataset}/verify"): READERS,
    ("GET", "/studio/account/{dataset}/export"): READERS,
    ("GET", "/studio/declare"): STEWARDS,
    ("PUT", "/studio/declare/file"): STEWARDS,
    ("GET", "/studio/declare/{file}"): STEWARDS,
    ("POST", "/studio/declare/{file}"): STEWARDS,
    ("POST", "/studio/declare/{file}/toml"): STEWARDS,
    ("POST", "/studio/declare/{file}/fields"): STEWARDS,
    ("POST", "/studio/declare/{file}/check"): STEWARDS,
    ("POST", "/studio/declare/{file}/serve"): STEWARDS,
    ("GET", "/studio/declare/{file}/opening"): STEWARDS,
}
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/v1/login"): {"name": "nobody", "password": "a long password"},
    ("POST", "/v1/datasets/{dataset}/forecast"): {"question": MEAN},
    ("POST", "/v1/datasets/{dataset}/questions"): MEAN,
    ("POST", "/v1/datasets/{dataset}/grants"): {"account": "lab-4", "eps": "1"},
    ("POST", "/v1/datasets/{dataset}/grants/revoke"): {"account": "nobody"},
    ("POST", "/v1/analysts"): {"name": "new", "role": "analyst"},
    ("POST", "/v1/tokens"): {"name": "lab-3"},
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town(tmp_path_factory.mktemp("doors") / "here", granted=("lab-3",)) as found:
        found.answered()
        yield found


def routes(listed: Any, below: str = "") -> Iterator[tuple[str, str]]:
    """Every address that an application answers, those of what is included and mounted too."""
    for one in listed:
        included = getattr(one, "original_router", None)
        if included is not None:
            yield from routes(included.routes, below)
        elif isinstance(one, Mount):
            yield from routes(one.routes, below + one.path)
        else:
            yield from ((verb, below + one.path) for verb in one.methods - {"HEAD"})


def test_every_endpoint_has_its_roles_here(here: Town) -> None:
    listed = list(routes(here.app.routes))
    assert sorted(listed) == sorted({**ROLES, **PAGES})
    described = {
        (verb.upper(), path) for path, verbs in here.app.openapi()["paths"].items() for verb in verbs
    }
    assert {one for one in listed if one[1].startswith("/v1/")} - described == {("GET", "/v1/openapi.json")}


@pytest.mark.long("doors of a service")
@pytest.mark.parametrize("endpoint", sorted(PAGES), ids=" ".join)
def test_a_page_is_for_its_roles_alone(here: Town, endpoint: tuple[str, str]) -> None:
    verb, path = endpoint
    for hole, value in (("dataset", DATASET), ("id", here.ask().json()["id"]), ("file", "no.csv"), ("entry:int", "99"),
                        ("number:int", "99"), ("language", "en"), ("name", "studio.css")):  # fmt: skip
        path = path.replace("{" + hole + "}", value)

    def send(token: str | None) -> Any:
        kept = {} if token is None else {"cookie": f"{entrance.cookie_name(here.settings)}={token}"}
        return here.send(verb, path, None, {} if verb == "POST" else None, origin="http://127.0.0.1", **kept)

    allowed = PAGES[endpoint]
    if allowed is None:
        assert send(None).status_code in (200, 303, 401)  # the way in
        return
    gone = people.create_token(here.desk.database, "anna")
    people.revoke_token(here.desk.database, gone.split("_")[1])
    for token in (None, "nonsense", gone):
        answer = send(token)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/studio/login")
    for who, role in (("lab-3", "analyst"), ("anna", "steward"), ("carl", "auditor")):
        answer = send(people.create_token(here.desk.database, who))
        assert answer.status_code < 500
        assert (answer.status_code == 403) == (role not in allowed), (who, answer.status_code)
        assert not answer.headers.get("location", "").startswith("/studio/login") or path.endswith("/logout")
    assert "content-security-policy" in answer.headers


@pytest.mark.long("doors of a service")
@pytest.mark.parametrize("verb", ["HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "get"])
def test_no_other_verb_tells_or_does_anything(here: Town, verb: str) -> None:
    """Nobody finds anything by one; who is known finds as much of a foreign dataset as of one that is not there."""
    before, known = here.ledger.head().hash, {**ROLES, **PAGES}
    for path in sorted({path for _, path in known}):
        if (verb, path) in known:
            continue
        foreign, missing = (
            path.replace("{dataset}", name)
            .replace("{id}", "q-" + 32 * "0")
            .replace(":int}", "}")
            .replace("{entry}", "1")
            for name in (DATASET, "people 1999")
        )
        nobody = here.send(verb, foreign, None)
        assert nobody.status_code in (200, 303, 401, 403, 404, 405), path
        assert nobody.status_code != 200 or known.get(("GET", path), EVERYBODY) is None, path
        if path.startswith("/v1/"):
            ours, theirs = here.send(verb, foreign, "lab-5"), here.send(verb, missing, "lab-5")
            assert alike(ours, theirs), path
            assert ours.status_code in (404, 405) or (verb == "HEAD" and path == "/v1/openapi.json"), path
    assert here.ledger.head().hash == before


def test_other_spellings_of_an_address_find_what_is_missing(here: Town) -> None:
    """As they come in over a wire: encoded once, twice or for no reason, with a slash more, in other normal forms, far too long."""
    names = ["people%202026", "%70eople%202026", "people%25202026", "people+2026", "people%202026/", "people%202026%2F", "%2e", "%2e%2e", "%00",
             "people%202026%00", "PEOPLE%202026", "pe%CC%81ople", "p%C3%A9ople", "%ff%fe", "people%E3%80%802026", "x" * 8_000, "people%202026;a=b",
             "people%202026%3Fa", "..%2Fdatasets%2Fpeople%202026"]  # fmt: skip
    headers = {"Authorization": f"Bearer {here.tokens['lab-5']}"}
    with listening(here, workers=0) as address:
        line = HTTPConnection(urlsplit(address).netloc)
        found = []
        for name in ("people%201999", *names):
            for rest in ("", "/made-up", "/"):
                line.request("GET", f"/v1/datasets/{name}{rest}", headers=headers)
                answer = line.getresponse()
                kept = sorted((key, value) for key, value in answer.getheaders() if key != "date")
                found.append((name, rest, (answer.status, kept, answer.read())))
    missing = {what for _, _, what in ((a, b, str(c)) for a, b, c in found[:3])}
    assert len(missing) == 2  # no such dataset, and no such address
    for name, rest, what in found:
        assert what[0] in (404, 403), (name, rest)
        assert str(what) in missing or what[0] == 403, (name, rest, what)


@pytest.mark.parametrize("endpoint", sorted(ROLES), ids=" ".join)
def test_an_endpoint_is_for_its_roles_alone(here: Town, endpoint: tuple[str, str]) -> None:
    verb, path = endpoint
    job = here.ask().json()["id"]
    where = path.format(dataset=DATASET, id=job)
    allowed, body = ROLES[endpoint], BODIES.get(endpoint)
    revoked = people.create_token(here.desk.database, "lab-3")
    people.revoke_token(here.desk.database, revoked.split("_")[1])
    if allowed is None:
        expected = {"/v1/login": 401, "/": 307}.get(path, 200)
        assert here.send(verb, where, None, body).status_code == expected
        return
    for who in (
        None,
        "nonsense",
        revoked,
        here.tokens["lab-3"][:-1] + ("1" if here.tokens["lab-3"].endswith("0") else "0"),
    ):
        answer = here.send(verb, where, who, body)
        assert answer.status_code == 401
    for who, role in (("lab-3", "analyst"), ("anna", "steward"), ("carl", "auditor")):
        answer = here.send(verb, where, who, {"name": who} if endpoint == ("POST", "/v1/tokens") else body)
        assert answer.status_code < 500
        assert (answer.status_code == 403) == (role not in allowed), (who, answer.text)
        assert answer.status_code != 401
    for name in ("x-content-type-options", "content-security-policy", "x-frame-options"):
        assert name in answer.headers
    assert answer.headers["cache-control"] == "no-store"


def alike(one: Any, other: Any, *names: tuple[str, str]) -> bool:
    """Whether two responses are the same, byte for byte, but for the time and what was asked for."""
    headers = [{k: v for k, v in each.headers.items() if k != "date"} for each in (one, other)]
    return one.status_code == other.status_code and headers[0] == headers[1] and one.content == other.content


@pytest.mark.parametrize(
    "endpoint",
    sorted(one for one, roles in ROLES.items() if roles and "analyst" in roles and "{" in one[1]),
    ids=" ".join,
)
def test_what_is_foreign_and_what_is_missing_look_the_same(here: Town, endpoint: tuple[str, str]) -> None:
    verb, path = endpoint
    job = here.ask().json()["id"]
    token = here.tokens["lab-3"].split("_")[1]
    own = token if "token" in path else job
    foreign = here.send(verb, path.format(dataset=DATASET, id=own), "lab-5", BODIES.get(endpoint))
    missing = here.send(
        verb, path.format(dataset="people 1999", id="q-" + 32 * "0"), "lab-5", BODIES.get(endpoint)
    )
    assert foreign.status_code == 404
    assert alike(foreign, missing)


def test_a_password_gives_a_token_and_a_wrong_one_tells_nothing(here: Town) -> None:
    people.set_password(here.desk.database, "anna", "correct horse battery")
    good = here.send("POST", "/v1/login", None, {"name": "anna", "password": "correct horse battery"})
    assert here.send("GET", "/v1/analysts", good.json()["token"]).status_code == 200
    wrong = here.send("POST", "/v1/login", None, {"name": "anna", "password": "correct horse"})
    nobody = here.send("POST", "/v1/login", None, {"name": "otto", "password": "correct horse"})
    assert alike(wrong, nobody)
    with here.desk.database.reading() as connection:
        kept = str(connection.exec_driver_sql("SELECT password FROM people WHERE name = 'anna'").scalar())
        hashes = [bytes(row[0]) for row in connection.exec_driver_sql("SELECT hash FROM tokens")]
    assert kept.startswith("$argon2id$")
    assert all(len(one) == 32 for one in hashes)
    assert not any(token.split("_")[2].encode() in b"".join(hashes) for token in here.tokens.values())


def test_the_word_before_a_token_is_read_in_either_case(here: Town) -> None:
    for word, status in (("bearer", 200), ("BEARER", 200), ("Basic", 401), ("", 401)):
        known = {"authorization": f"{word} {here.tokens['lab-3']}"}
        assert here.send("GET", "/v1/datasets", None, **known).status_code == status


def test_a_token_that_is_over_opens_nothing(here: Town) -> None:
    over = people.create_token(here.desk.database, "lab-3", lasting=-1)
    assert here.send("GET", "/v1/datasets", over).status_code == 401


def test_rates_are_limited_alike_for_everybody(tmp_path: Path) -> None:
    with town(tmp_path / "here", limits={"questions_per_minute": 20}) as found:
        found.answered()
        codes = [
            found.ask({**MEAN, "eps": "0.001", "where": f"age >= {age}"}).status_code for age in range(12)
        ]
        assert codes.count(429) >= 6
        assert codes[0] == 202


def test_nobody_watches_more_clocks_than_that(tmp_path: Path) -> None:
    with town(tmp_path / "here", limits={"streams": 2}) as found:
        path = f"/v1/questions/{found.answered()['id']}/events"
        for _ in range(4):  # one after the other is no crowd
            assert found.send("GET", path).status_code == 200
        found.app.state.watched["lab-3"] = 2
        assert found.send("GET", path).status_code == 429
        watched = found.app.state.watched
        found.app.state.watched = type("Late", (Counter,), {"__getitem__": lambda *_: next(looks)})()
        looks = iter((0, 2))  # others began after it was looked
        assert found.send("GET", path).content == b""
        found.app.state.watched = watched
        assert found.send("GET", path, "anna").status_code == 200


def test_bodies_are_bounded(here: Town) -> None:
    spent = here.ledger.spent
    large = {**MEAN, "where": "age >= 20 " * 10_000}
    assert here.ask(large).status_code == 413
    many = here.ask({"question": "histogram", "columns": ["age"], "by": ["income", "region"], "eps": "0.1"})
    assert many.status_code == 422
    assert "at most" in many.json()["needed"]
    assert here.ledger.spent == spent


def test_no_answer_leads_to_the_host_that_a_request_named(here: Town) -> None:
    for path in ("/v1/datasets/", "/v1/tokens/", "/studio", "/studio/login/", "/"):
        found = here.send("GET", path, host="elsewhere.example")
        assert "elsewhere.example" not in found.headers.get("location", "")


def test_a_revoked_token_ends_the_events_that_it_opened(tmp_path: Path) -> None:
    with town(tmp_path / "here", approve_above="0.01") as found:
        token = people.create_token(found.desk.database, "lab-3")
        number = token.split("_")[1]
        assert people.is_open(found.desk.database, number)
        people.revoke_token(found.desk.database, number)
        assert not people.is_open(found.desk.database, number)
        assert not people.is_open(found.desk.database, "unknown")


def test_what_a_token_made_goes_with_it(here: Town) -> None:
    def made(who: str, name: str) -> tuple[str, str]:
        found = here.send("POST", "/v1/tokens", who, {"name": name}).json()
        return found["id"], found["token"]

    def opens(token: str) -> bool:
        return bool(here.send("GET", "/v1/tokens", token).status_code == 200)

    number, stolen = made("anna", "anna")
    own = [made(stolen, name)[1] for name in ("anna", "lab-3", "carl")]
    own.append(made(own[1], "lab-3")[1])
    leaf, _ = made(own[0], "lab-4")
    people.revoke_token(here.desk.database, leaf)
    assert all(opens(token) for token in own)
    assert here.send("DELETE", f"/v1/tokens/{number}", "anna").status_code == 204
    assert not any(opens(token) for token in own)
    assert opens(here.tokens["anna"])
    assert here.send("DELETE", f"/v1/tokens/{number}", "anna").status_code == 404
    with pytest.raises(ParameterError, match="revoked"):  # while it was on its way
        people.create_token(here.desk.database, "lab-3", maker=number)
    number, session = made("anna", "anna")
    _, lasting = made(session, "lab-3")
    people.revoke_token(here.desk.database, number, alone=True)  # whoever logs out
    assert opens(lasting)
    assert here.send("DELETE", f"/v1/tokens/{number}", "anna").status_code == 204
    assert not opens(lasting)


def test_a_second_copy_does_not_touch_the_first(tmp_path: Path) -> None:
    settings, _ = made(tmp_path / "here")
    first = Service(settings)
    with pytest.raises(LedgerError, match="running already"):
        Service(settings)
    assert settings.state.exists()
    first.close()
    Service(settings).close()


def test_metrics_name_datasets_as_they_are_called(here: Town) -> None:
    here.app.state.metrics.count("oboro_questions_total", dataset="人口")
    assert 'dataset="人口"' in here.send("GET", "/v1/metrics", "anna").text  # \\u is no escape of Prometheus


def test_no_telemetry_and_no_page_from_elsewhere(here: Town) -> None:
    for path in ("/docs", "/redoc", "/openapi.json", "/v1/docs"):
        assert here.send("GET", path, "anna").status_code == 404
    assert "http" not in here.send("GET", "/v1/openapi.json", None).text.replace('"http"', "")
