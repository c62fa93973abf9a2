"""The page on the architecture names every module of the engine, and none that is gone."""

from __future__ import annotations

import fnmatch
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
NAMED = set(re.findall(r"[\w*]+\.py", (ROOT / "docs" / "architecture.md").read_text()))
MODULES = {path.name for path in (ROOT / "everyo").rglob("*.py")}


@pytest.mark.parametrize("package", ["core", "transforms", "compiler"])
def test_every_module_is_named(package):
    modules = {path.name for path in (ROOT / "everyo" / package).glob("*.py")} - {"__init__.py"}
    assert sorted(m for m in modules if not any(fnmatch.fnmatch(m, name) for name in NAMED)) == []


def test_every_name_is_that_of_a_module():
    assert sorted(name for name in NAMED if not fnmatch.filter(MODULES, name)) == []
