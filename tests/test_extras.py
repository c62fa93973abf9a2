"""Documentation and examples say on an import's line which extra brings the package: the error shows it."""

import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {"scikit-learn": "sklearn"}
EXTRAS = {
    extra: {IMPORTED_AS.get(name, name) for name in (re.match(r"[\w-]+", r)[0] for r in requirements)}
    for extra, requirements in PROJECT["optional-dependencies"].items()
    if extra not in ("all", "dev")
}
BROUGHT = set().union(*EXTRAS.values())
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.py")),
]
IMPORTS = [
    (page, line)
    for page in PAGES
    for line in page.read_text().splitlines()
    if (found := re.match(r"\s*(?:from|import) (\w+)(?: import|\.|$)", line)) and found[1] in BROUGHT
]


@pytest.mark.parametrize(("page", "line"), IMPORTS, ids=[f"{page.name}: {line}" for page, line in IMPORTS])
def test_an_import_names_the_extra(page, line):
    package = re.match(r"\s*(?:from|import) (\w+)", line)[1]
    extra = re.search(r"# pip install -e '\.\[(\w+)\]' in EveryO's folder$", line)
    assert extra is not None
    needed = EXTRAS[extra[1]]
    assert package in needed or (package == "scipy" and "sklearn" in needed)  # which requires SciPy


def test_such_imports_are_found():
    assert {page.name for page, _ in IMPORTS} >= {"curve_fitting.py", "rosenbrock.py", "implicit.md"}


def test_the_error_of_an_example_shows_the_extra():
    script = str(ROOT / "examples" / "rosenbrock.py")
    block = "import sys, runpy; sys.modules['scipy'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    run = subprocess.run(
        [sys.executable, "-c", block, script], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert run.returncode == 1
    assert "ModuleNotFoundError" in run.stderr
    assert "pip install -e '.[scipy]' in EveryO's folder" in run.stderr
