"""TLS for real: a certificate of one's own, a client that trusts it or not, and a reverse proxy in front."""

from __future__ import annotations

import ipaddress
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from service_town import DATASET, free_port, listening, made, town

import oboro as ob
from oboro.errors import OboroError, ParameterError
from oboro.service.server import Service
from oboro.service.settings import read_settings

ROOT = Path(__file__).parent.parent.parent


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stat.example")])
    began = datetime.now(UTC) - timedelta(days=1)
    found = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(began)
        .not_valid_after(began + timedelta(days=30))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "tls.crt", folder / "tls.key"
    paths[0].write_bytes(found.public_bytes(serialization.Encoding.PEM))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    return paths


@pytest.mark.long("TLS and proxies")
def test_a_client_asks_over_tls_and_trusts_nobody_else(tmp_path: Path) -> None:
    public, private = certificate(tmp_path / "tls")
    other, _ = certificate(tmp_path / "other")
    with (
        town(tmp_path / "here") as found,
        listening(found, ssl_certfile=public, ssl_keyfile=private) as address,
    ):
        assert address.startswith("https://")
        people = ob.connect(address, token=found.tokens["lab-3"], ca=public)[DATASET]
        assert people.count(eps="0.1").cost == ob.Pure("0.1")
        assert people.sql("SELECT region, COUNT(*) FROM people GROUP BY region", eps="0.1")
        for trusted in (None, other):
            with pytest.raises(OboroError, match="not who it says"):
                ob.connect(address, token=found.tokens["lab-3"], ca=trusted).datasets  # noqa: B018
        with pytest.raises(ParameterError, match="ca is not"):
            ob.connect(address, token="x", ca=tmp_path / "nothing.pem")
        with pytest.raises(OboroError, match="cannot be reached"):
            ob.connect(address.replace("https", "http"), token="x").datasets  # noqa: B018


@pytest.mark.parametrize(
    ("address", "more", "starts"),
    [
        ("0.0.0.0:8750", "", False),
        ("[::]:8750", "", False),
        ("192.0.2.1:8750", "", False),
        ("stat.example:8750", "", False),
        ("127.0.0.1:8750", "", True),
        ("[::1]:8750", "", True),
        ("0.0.0.0:8750", "behind_proxy = true", True),
        ("0.0.0.0:8750", 'certificate = "tls.crt"\nkey = "tls.key"', True),
    ],
)
def test_no_address_that_others_reach_is_opened_without_tls(
    tmp_path: Path, address: str, more: str, starts: bool
) -> None:
    from oboro.service.settings import refuse_open

    settings, _ = made(tmp_path / "here")
    certificate(tmp_path / "here")
    text = settings.file.read_text()
    settings.file.write_text(
        f'address = "{address}"\n{more}\n' + re.sub(r"^address.*$", "", text, flags=re.M)
    )
    found = read_settings(settings.file)
    if starts:
        refuse_open(found)
        return
    with pytest.raises(ParameterError, match="needs TLS"):
        Service(found)
    assert not found.state.exists()


@pytest.mark.parametrize("wrong", ['"no"', '"false"', "1", '"10.0.0.300"'])
def test_a_proxy_is_there_or_not(tmp_path: Path, wrong: str) -> None:
    settings, _ = made(tmp_path / "here")
    text = settings.file.read_text()
    settings.file.write_text(f"behind_proxy = {wrong}\n" + text)
    with pytest.raises(ParameterError, match="behind_proxy"):
        read_settings(settings.file)
    settings.file.write_text('behind_proxy = "10.0.0.2"\n' + text)
    assert read_settings(settings.file).proxy == "10.0.0.2"


@contextmanager
def nginx(folder: Path, back: str, public: Path, private: Path) -> Iterator[str]:
    """The proxy of deploy/nginx.conf, here."""
    port = free_port()
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    for was, now in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/certs/stat.example.pem", str(public)),
        ("/etc/ssl/private/stat.example.key", str(private)),
        ("http://127.0.0.1:8750", back),
    ):
        assert was in text
        text = text.replace(was, now)
    places = "".join(
        f"{one}_temp_path {folder}/{one};" for one in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = f"daemon off; error_log stderr; pid {folder}/pid; events {{}} http {{ access_log off; {places} {text} }}"
    (folder / "nginx.conf").write_text(whole)
    command = [
        shutil.which("nginx") or "/usr/sbin/nginx",
        "-c",
        str(folder / "nginx.conf"),
        "-p",
        str(folder),
    ]
    proxy = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield f"https://127.0.0.1:{port}"
    finally:
        proxy.terminate()
        proxy.wait()


@pytest.mark.long("TLS and proxies")
@pytest.mark.skipif(
    shutil.which("nginx") is None and not Path("/usr/sbin/nginx").exists(), reason="needs nginx"
)
def test_a_reverse_proxy_ends_tls(tmp_path: Path) -> None:
    public, private = certificate(tmp_path / "tls")
    with (
        town(tmp_path / "here") as found,
        listening(found, proxy_headers=True, forwarded_allow_ips="127.0.0.1") as back,
        nginx(tmp_path, back, public, private) as address,
    ):
        service = ob.connect(address, token=found.tokens["lab-3"], ca=public)
        for _ in range(100):  # until it listens
            try:
                assert service.datasets == [DATASET]
                break
            except OboroError:
                time.sleep(0.05)
        release = service[DATASET].where("age >= 20").mean("income", eps="0.1")
        assert release.cost == ob.Pure("0.1")
        number = service._line.get("/v1/questions")[0]["id"]
        told = service._line.send("GET", f"/v1/questions/{number}/events", raw=True)
        assert told.startswith(b"event: done")
        large = {"question": "mean", "columns": ["income"], "eps": "0.1", "where": "age >= 20 " * 10_000}
        with pytest.raises(OboroError):
            service._line.post("/v1/datasets/people%202026/questions", large)
        assert found.ledger.spent == ob.Pure("0.1")
