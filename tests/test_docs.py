"""The Python examples of README and docs run, and print what their comments show."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
import subprocess
import sys

import pytest

from everyo.core.registry import primitives, unregister

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    if "import everyo" in code
]


@pytest.mark.parametrize("code", BLOCKS)
def test_example_prints_what_its_comments_say(code):
    printed, known = io.StringIO(), set(primitives())
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), {"__name__": "example"})  # our own text
    for name in set(primitives()) - known:  # an operation that an example has made
        unregister(name)
    promised = re.findall(r"^print\(.*\)\s+# (.*)$", code, re.MULTILINE)
    assert printed.getvalue().splitlines() == promised


def test_the_readme_shows_the_two_commands_and_an_example():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
    assert re.search(r"```python\nimport everyo as eo", text)


def test_the_table_of_operations_is_up_to_date():
    command = [sys.executable, str(ROOT / "tools" / "operations_table.py"), "--check"]
    done = subprocess.run(command, check=False)
    assert done.returncode == 0, "run python tools/operations_table.py"
