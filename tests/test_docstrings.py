"""Every public function tells what it takes, returns and refuses and its derivative, and shows an example."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import everyo as eo
from everyo.guidance.calls import SURPLUS, UNKNOWN

OPERATIONS = {
    "eo": eo, "eo.linalg": eo.linalg, "eo.fft": eo.fft, "eo.special": eo.special, "eo.random": eo.random,
    "eo.nn.functional": eo.nn.functional,
}  # fmt: skip
TOOLS = {
    "eo.autograd": eo.autograd, "eo.io": eo.io, "eo.nn.init": eo.nn.init,
    "eo.scipy_compat": eo.scipy_compat, "eo.testing": eo.testing,
}  # fmt: skip
ORDER = ("Parameters", "Returns", "Yields", "Raises", "Notes", "Examples")

# They take no argument, any tensor, or anything there is.
CANNOT_FAIL = {
    "eo.available_devices", "eo.get_default_dtype", "eo.is_grad_enabled", "eo.is_inference_mode_enabled",
    "eo.stop_gradient", "eo.autograd.once_differentiable", "eo.nn.init.ones_", "eo.nn.init.zeros_",
}  # fmt: skip
# They compute nothing from tensors: they ask for settings or set them.
NO_DERIVATIVE = {
    "eo.available_devices", "eo.get_default_dtype", "eo.is_grad_enabled", "eo.is_inference_mode_enabled",
    "eo.manual_seed", "eo.random.default_generator", "eo.set_default_dtype",
}  # fmt: skip
# Of the spaces whose mathematics is not elementary calculus: these are, or compute no derivative, or are
# another function of these spaces, with some arguments given.
NEEDS_NO_SOURCE = {
    "eo.fft.fft2", "eo.fft.fftfreq", "eo.fft.fftshift", "eo.fft.ifft2", "eo.fft.ifftshift", "eo.fft.irfft2",
    "eo.fft.rfft2", "eo.fft.rfftfreq", "eo.linalg.cond", "eo.linalg.diagonal", "eo.linalg.matrix_power",
    "eo.linalg.matrix_rank", "eo.linalg.multi_dot", "eo.linalg.norm", "eo.linalg.outer",
    "eo.linalg.tensorinv", "eo.linalg.tensorsolve", "eo.linalg.trace", "eo.special.boxcox",
    "eo.special.boxcox1p", "eo.special.cosm1", "eo.special.entr", "eo.special.expit", "eo.special.exprel",
    "eo.special.huber", "eo.special.inv_boxcox", "eo.special.inv_boxcox1p", "eo.special.kl_div",
    "eo.special.log_expit", "eo.special.logit", "eo.special.ndtr", "eo.special.pseudo_huber",
    "eo.special.rel_entr", "eo.special.xlog1py", "eo.special.xlogy",
}  # fmt: skip


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Give the public functions and their names; one that has several is given once."""
    seen = set()
    for space, module in {**OPERATIONS, **TOOLS}.items():
        for name in getattr(module, "__all__", None) or dir(module):
            f = getattr(module, name)
            if name.startswith("_") or isinstance(f, type) or inspect.ismodule(f) or not callable(f):
                continue
            if id(f) not in seen:
                seen.add(id(f))
                yield f"{space}.{name}", f


FUNCTIONS = dict(functions())
every_function = pytest.mark.parametrize("path", FUNCTIONS)


def sections(path: str) -> dict[str, str]:
    """Return the sections of a docstring; what stands before them has the name "Summary"."""
    text = inspect.getdoc(FUNCTIONS[path]) or ""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", text, flags=re.MULTILINE)
    return {"Summary": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(path: str, title: str) -> list[str]:
    """Return what a section describes: its lines without a margin."""
    return re.findall(r"^\S.*", sections(path).get(title, ""), re.MULTILINE)


def tells_the_derivative(path: str) -> bool:
    known = r"derivative|gradient|cotangent|tangent|slope|jacobian|hessian|differentia|``d[ (a-z]"
    return re.search(known, inspect.getdoc(FUNCTIONS[path]) or "", re.IGNORECASE) is not None


def names_a_source(path: str) -> bool:
    return re.search(r"\bDLMF\s+\d|\b(19|20)\d\d\b", sections(path)["Summary"]) is not None


@every_function
def test_a_sentence_comes_first_and_the_sections_in_their_order(path):
    summary, *titles = sections(path).items()
    assert summary[1].partition("\n")[0].endswith(".")
    known = [title for title, _ in titles if title in ORDER]
    assert known == sorted(known, key=ORDER.index)
    assert len(known) == len(titles)


@every_function
def test_parameters_are_described(path):
    described = [
        name.strip("* ")
        for line in entries(path, "Parameters")
        for name in line.partition(" : ")[0].split(",")
    ]
    parameters = inspect.signature(FUNCTIONS[path]).parameters.keys()
    catching = {SURPLUS, UNKNOWN} - {*described}  # they only catch misfit arguments and may be left out
    assert sorted(described) == sorted(parameters - catching)
    assert all(" : " in line for line in entries(path, "Parameters"))


@every_function
def test_results_are_described(path):
    returns_nothing = inspect.signature(FUNCTIONS[path]).return_annotation in (None, "None")
    assert bool(sections(path).keys() & {"Returns", "Yields"}) is not returns_nothing


@every_function
def test_errors_are_named(path):
    named = [name for line in entries(path, "Raises") for name in line.split(", ")]
    for name in named:
        found = [getattr(place, name) for place in (eo.errors, eo.testing, builtins) if hasattr(place, name)]
        assert found
        assert issubclass(found[0], Exception)
    assert bool(named) is (path not in CANNOT_FAIL)


@every_function
def test_an_example_is_shown(path):
    assert ">>> " in sections(path).get("Examples", "")


@pytest.mark.parametrize("path", [p for p in FUNCTIONS if p.rpartition(".")[0] in OPERATIONS])
def test_the_derivative_is_told(path):
    assert tells_the_derivative(path) is (path not in NO_DERIVATIVE)


@pytest.mark.parametrize(
    "path", [p for p in FUNCTIONS if p.startswith(("eo.fft", "eo.linalg", "eo.special"))]
)
def test_what_is_not_elementary_names_its_source(path):
    assert names_a_source(path) is (path not in NEEDS_NO_SOURCE)


def test_exemptions_are_of_functions_that_there_are():
    assert not (CANNOT_FAIL | NO_DERIVATIVE | NEEDS_NO_SOURCE) - FUNCTIONS.keys()
