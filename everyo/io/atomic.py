"""Atomic writes: a file is there in full or not at all, whatever interrupts the writer."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; what is written there takes its place when the block succeeds.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("done")
    >>> target.read_text()
    'done'
    """
    target = Path(path)
    # The suffix stays last: writers choose a format by it.
    temporary = target.with_name(f".{target.stem}-{secrets.token_hex(4)}{target.suffix}")
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())  # on disk before the name points to it
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
