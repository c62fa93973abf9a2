"""Compiled programs on disk: what one process compiled, the next one only loads.

An entry is an object file under a name that is a hash of all it depends on, behind a checksum of its own.
Entries are written beside their place and moved there in one step, so that a reader finds a whole one or
none, however many processes write. Whatever is wrong with the folder or an entry, the program is compiled
anew. Whoever may write into the folder may run code in the processes that read it: it belongs to one user.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LIMIT = 512 << 20  # bytes of all entries; the ones that were read least recently go first
MAGIC = b"EVERYO-OBJECT-1\n"
SUFFIX, TEMPORARY = ".everyo", ".everyo.tmp"
STALE = 3600.0  # seconds after which a temporary file belongs to a process that died
SELDOM = 64  # a folder is looked through again when it has grown by one in so many entries
_OFF = frozenset({"0", "false", "no", "off"})
_spared: dict[Path, int] = {}  # how many entries may still be written before their folder is looked through


class Info(NamedTuple):
    """What the cache holds: where, whether it is in use, how many programs, and their bytes."""

    folder: Path | None
    enabled: bool
    programs: int
    size: int


def folder() -> Path | None:
    """Return where entries are kept, or None where there is no home for them."""
    chosen = os.environ.get("EVERYO_CACHE_DIR")
    if chosen:
        return Path(chosen)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "everyo"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else home / ".cache") / "everyo"


def enabled() -> bool:
    """Whether the environment leaves the cache on: ``EVERYO_CACHE=0`` turns it off."""
    return os.environ.get("EVERYO_CACHE", "").lower() not in _OFF


def key_of(*parts: str) -> str:
    """Return the name of the entry that depends on some texts.

    Examples
    --------
    >>> key_of("ab", "c") == key_of("a", "bc")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _digest(key: str, payload: bytes) -> bytes:
    """Return what an entry begins with: a file under the name of another entry is damaged too."""
    return hashlib.sha256(key.encode() + payload).digest()


def load(key: str) -> bytes | None:
    """Return an entry, or None if there is none; one that is damaged is removed."""
    path = _path(key)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head = MAGIC + _digest(key, b"")
    payload = data[len(head) :]
    if data[: len(head)] != MAGIC + _digest(key, payload):
        _remove(path)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return payload


def store(key: str, payload: bytes) -> None:
    """Enter a program; where the folder cannot be written to, nothing happens."""
    path = _path(key)
    if path is None:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, temporary = tempfile.mkstemp(TEMPORARY, dir=path.parent)
    except OSError:
        return
    try:
        with os.fdopen(number, "wb") as file:
            file.write(MAGIC + _digest(key, payload) + payload)
        os.replace(temporary, path)
    except OSError:
        _remove(Path(temporary))
        return
    _shrink(path.parent)


def clear() -> int:
    """Remove all entries; return how many there were."""
    place = folder()
    found = list(_entries(place)) if place is not None else []
    return sum([_remove(path) and path.suffix == SUFFIX for path, _ in found])


def info() -> Info:
    """Return where the cache is and what it holds."""
    place = folder()
    sizes = [s.st_size for p, s in _entries(place) if p.suffix == SUFFIX] if place is not None else []
    return Info(place, enabled(), len(sizes), sum(sizes))


def _path(key: str) -> Path | None:
    place = folder() if enabled() else None
    return None if place is None else place / (key + SUFFIX)


def _entries(place: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files in the folder that are the cache's own."""
    with contextlib.suppress(OSError), os.scandir(place) as found:
        for entry in found:
            if entry.name.endswith((SUFFIX, TEMPORARY)):
                with contextlib.suppress(OSError):  # another process has removed it
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def _shrink(place: Path) -> None:
    """Remove what dead processes left, and the entries that were not used for longest above the limit.

    To look through a large folder takes longer than to write an entry, so most entries are written without.
    """
    spared = _spared.get(place, 0)
    if spared > 0:
        _spared[place] = spared - 1
        return
    now = time.time()
    kept: list[tuple[float, int, Path]] = []
    for path, status in _entries(place):
        if path.suffix == SUFFIX:
            kept.append((status.st_mtime, status.st_size, path))
        elif now - status.st_mtime > STALE:
            _remove(path)
    _spared[place] = len(kept) // SELDOM
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept):
        if total <= LIMIT:
            break
        _remove(path)
        total -= size


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
