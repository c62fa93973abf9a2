"""`debug_print`: shows values, also of tensors inside compiled functions."""

from __future__ import annotations

from typing import Any

from everyo.core.tensor import wrap
from everyo.core.traced import staging


def debug_print(template: str, *values: Any) -> None:
    """Print values; inside a compiled function, each time that this place is reached.

    Printing has no part in derivatives: under `grad` and `jvp` the values of tensors are shown, and under
    `vmap` the whole batch.

    Parameters
    ----------
    template : str
        A format string, filled as ``template.format(*values)``.
    *values : tensors or anything else
        What it is filled with.

    Raises
    ------
    IndexError, KeyError
        If the template has a place for which there is no value.

    Examples
    --------
    >>> import everyo as eo
    >>> @eo.compile
    ... def f(x):
    ...     eo.debug_print("x is {}", x)
    ...     return x * 2
    >>> y = f(eo.tensor([1.0, 2.0]))
    x is [1. 2.]
    """
    tracer = staging.get()
    if tracer is None:
        print(template.format(*values))
        return
    found = [tracer.beneath(x) for x in values]
    chosen = [i for i, value in enumerate(found) if value is not None]
    kept = [None if value is not None else x for x, value in zip(values, found, strict=True)]

    def show(*arrays: Any) -> Any:
        shown = list(kept)
        for i, array in zip(chosen, arrays, strict=True):
            shown[i] = wrap(array.copy())
        print(template.format(*shown))
        return ()

    tracer.python(show, [value for value in found if value is not None])
