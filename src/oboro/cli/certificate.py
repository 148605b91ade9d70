"""`oboro certificate`: checks what was published, with the public key alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oboro.cli.options import Json, show_json

app = typer.Typer(help="Check the signed page that goes out with a release.", no_args_is_help=True)


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="The certificate.", metavar="FILE")],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="The released file; by default the one beside the certificate."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="The public key you trust, in hex. Without it, the one in the file."),
    ] = None,
    json: Json = False,
) -> None:
    """Checks the signature and the hash of the released file."""
    from oboro.release import verify_certificate

    record = verify_certificate(file, data=data, public_key=key)
    if json:
        show_json({"valid": True, "key_checked": key is not None, "certificate": record})
        return
    bound = record.get("file")
    typer.echo(
        f"valid\n  released   {record['released']}\n  dataset    {record['dataset']}\n  unit       {record['unit']['in_words']}\n"
        f"  guarantee  {record['guarantee']['in_words']}\n  noise      {record['noise']['law']}\n"
        f"  file       {bound['name'] if bound else 'none'}\n  ledger     entry {record['ledger']['position']} of {record['ledger']['id']}\n"
        f"  time       {record['time']}\n  signed by  {record['public_key']}"
    )
    if key is None:
        typer.echo(
            "  note: compare that key with one the publisher gave you another way, or pass it with --key"
        )
