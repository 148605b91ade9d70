"""`oboro certificate`: checks what was published, with the public key alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oboro.cli.options import Json, show_json
from oboro.cli.terminal import echo
from oboro.language import labelled, phrase, said

app = typer.Typer(help="Check the signed page that goes out with a release.", no_args_is_help=True)


@app.command(epilog="Example: oboro certificate verify published.csv.certificate.json")
def verify(
    file: Annotated[Path, typer.Argument(help="The certificate.", metavar="FILE")],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", help="The released file; by default the one beside the certificate.", metavar="FILE"
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", help="The public key you trust, in hex. Without it, the one in the file.", metavar="HEX"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Checks the signature and the hash of the released file."""
    from oboro.release import verify_certificate
    from oboro.release.certificate import promised

    record = verify_certificate(file, data=data, public_key=key)
    if json:
        show_json({"valid": True, "key_checked": key is not None, "certificate": record})
        return
    bound = record.get("file")
    unit, guarantee = promised(record)
    facts = {
        "released": phrase(record["released"]),
        "dataset": record["dataset"],
        "unit": said(str(unit)),
        "guarantee": said(str(guarantee)),
        "noise": ", ".join(said(law) for law in _laws(record["noise"])) or said("none"),
        "file": bound["name"] if bound else said("none"),
        "ledger": said(f"entry {record['ledger']['position']} of {record['ledger']['id']}"),
        "time": record["time"],
        "signed by": record["public_key"],
    }
    echo("\n".join([said("valid"), *("  " + labelled(label, text) for label, text in facts.items())]))
    if key is None:
        note = "compare that key with one the publisher gave you another way, or pass it with --key"
        echo(f"  {said('note')}: {said(note)}")


def _laws(noise: Any) -> list[str]:
    """The different laws of noise of a release, which may consist of several parts."""
    parts = noise.values() if isinstance(noise, dict) else noise if isinstance(noise, list) else ()
    own = [noise["law"]] if isinstance(noise, dict) and isinstance(noise.get("law"), str) else []
    return list(dict.fromkeys([*own, *(law for part in parts for law in _laws(part))]))
