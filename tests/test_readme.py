"""The README's Python examples run, and print what the README shows."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re

import pytest

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=[f"block{i}" for i in range(len(BLOCKS))])
def test_example_prints_what_its_comments_say(code):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})  # our own text
    promised = re.findall(r"^print\(.*\)\s+# (.*)$", code, re.MULTILINE)
    assert printed.getvalue().splitlines() == promised


def test_there_are_examples():
    assert BLOCKS
    assert "make demo" in README
    assert "make test" in README
