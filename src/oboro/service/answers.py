"""An answer as it travels: the certificate, and the very bytes that the ledger keeps."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from oboro.errors import CertificateError
from oboro.ledger import Ledger
from oboro.ledger.chain import sha256
from oboro.privacy import guarantee_from
from oboro.records import Record
from oboro.release import Certificate, Release, plan_from
from oboro.release.release import table_in
from oboro.release.run import fetch

KEPT = 1 << 18  # bytes of an answer that are kept beside its job; a larger one is read from the ledger


def packed(release: Release) -> bytes:
    """A release as JSON."""
    return json.dumps(
        {"certificate": release.certificate.to_dict(), "content": base64.b64encode(release.content).decode()},
        ensure_ascii=False,
    ).encode()


def stored(ledger: Ledger, entry: int) -> bytes:
    """An answer that was committed, read from its ledger."""
    return packed(fetch(ledger, entry=entry))


def unpacked(
    record: Record, sign: Callable[[bytes], bytes], *, public_key: str | None, dataset: str, ledger: str
) -> Release:
    """The release in an answer, checked: who signed it, that it is about this dataset, and that the content is what was certified."""
    try:
        content = base64.b64decode(record["content"], validate=True)
        signed = dict(record["certificate"])
        certificate = Certificate(signed, str(signed.pop("signature")))
    except (KeyError, TypeError, ValueError):
        raise CertificateError(
            "the answer is not a release", needed="a certificate and its content"
        ) from None
    certificate.verify_signature(public_key)
    claims: Any = certificate.record
    for name, given, needed in (
        ("dataset", claims.get("dataset"), dataset),
        ("ledger", claims.get("ledger", {}).get("id"), ledger),
        ("content", sha256(content), claims.get("content", {}).get("sha256")),
    ):
        if given != needed:
            raise CertificateError(
                f"the certificate is about another {name}", given=f"{given}", needed=f"{needed}"
            )
    plan = plan_from(claims["plan"])
    return Release(
        plan,
        claims["name"],
        guarantee_from(claims["ledger"]["cost"]),
        certificate,
        table_in(content, "the answer"),
        content,
        sign,
    )
