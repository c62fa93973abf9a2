"""The benchmarks' programs compute what they say, and their page keeps the parts of other suites."""

import numpy as np
import optree
import pytest

from benchmarks.compiled.libraries import EveryO
from benchmarks.compiled.science import PROGRAMS
from benchmarks.report import write_part


def moved(tree, direction, step):
    """Return a tree of arrays, moved along a direction."""
    return optree.tree_map(lambda x, d: x + step * d, tree, direction)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_gradient_of_a_program_is_the_slope_of_its_value(program):
    library, rng = EveryO(), np.random.default_rng(0)
    arguments = program.arguments(True)
    wanted = [arguments[i] for i in program.wrt]
    direction = optree.tree_map(lambda x: rng.standard_normal(np.shape(x)), wanted)
    value = library.primal(program.f)

    def at(step):
        given = list(arguments)
        for i, part in zip(program.wrt, moved(wanted, direction, step), strict=True):
            given[i] = part
        found = value(*optree.tree_map(library.array, given))
        return (found[0] if program.has_aux else found).item()

    _, gradients = library.gradient(program.f, program.wrt, program.has_aux)(
        *optree.tree_map(library.array, arguments)
    )
    pairs = zip(optree.tree_leaves(list(gradients)), optree.tree_leaves(direction), strict=True)
    slope = sum(np.sum(library.numpy(g) * d) for g, d in pairs)
    h = 1e-4
    expected = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    assert slope == pytest.approx(expected, rel=1e-6)


def test_a_part_of_the_page_is_replaced_and_the_others_stay(tmp_path):
    path = tmp_path / "page.md"
    write_part(path, "one", "first\n")
    write_part(path, "two", "second")
    write_part(path, "one", "anew")
    expected = "# Benchmarks\n\n<!-- one -->\n\nanew\n\n<!-- end of one -->\n"
    assert path.read_text() == expected + "\n<!-- two -->\n\nsecond\n\n<!-- end of two -->\n"
