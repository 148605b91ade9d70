"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from oboro.errors import DataError


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that it is there whole or not at all, also after a crash."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written",
            given=error.strerror or str(error),
            fix="a folder that exists and may be written",
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes it private; a release is public
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise DataError(
                f"{path} cannot be written", given=error.strerror or str(error), fix="the path of a file"
            ) from None
        raise
