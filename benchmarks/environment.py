"""What a reader needs to know of the machine and the software behind a measurement."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from .libraries import TITLES

PACKAGES = ("everyo", "torch", "autograd", "mygrad", "numpy")

ROOT = Path(__file__).resolve().parent.parent


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_average() -> float:
    """Return the processes that were running in the last minute, on average (NaN if unknown)."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def version(package: str) -> str | None:
    """Return an installed package's version, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _search(path: str, pattern: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    except OSError:
        return None
    return found[1].strip() if found else None


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit(page: str | None = None) -> str:
    """Return the git commit, and whether the tree differs from it (apart from the page itself)."""
    head = _git("rev-parse", "HEAD")
    if not head:
        return "unknown: no commit"
    arguments = ["status", "--porcelain", "--", "."]
    if page and Path(page).resolve().is_relative_to(ROOT):
        arguments.append(f":(exclude){Path(page).resolve().relative_to(ROOT)}")
    return f"{head}, {'with uncommitted changes' if _git(*arguments) else 'clean tree'}"


def _blas() -> str:
    config = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{config.get('name')} {config.get('version')}"


def facts(page: str | None = None, packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Return the facts of the hardware and the software, ready to print.

    Parameters
    ----------
    page : str, optional
        The file about to be written, which does not make the tree dirty.
    packages : sequence of str
        The packages whose versions are named.
    """
    memory = _search("/proc/meminfo", r"^MemTotal:\s+(\d+) kB")
    system = _search("/etc/os-release", r'^PRETTY_NAME="?([^"\n]+)') or platform.system()
    versions = [f"{TITLES.get(name, name)} {version(name) or 'absent'}" for name in packages]
    return {
        "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Commit": commit(page),
        "Processor": _search("/proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.processor(),
        "Cores": str(cores()),
        "Memory": f"{int(memory) / 1024**2:.1f} GiB" if memory else "unknown",
        "Load when started": f"{load_average():.2f}",
        "System": f"{system}, kernel {platform.release()}, {platform.machine()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "Libraries": ", ".join(versions),
        "BLAS of NumPy": _blas(),
    }
