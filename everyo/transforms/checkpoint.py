"""Rematerialization: keep the inputs of a function instead of all that it computes, and run it again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.functions import Transformed
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, UnsupportedOperationError, describe
from everyo.ops.signatures import explained
from everyo.transforms.callables import require_function
from everyo.transforms.segments import segment
from everyo.transforms.trees import parted

Function = Callable[..., Any]


@explained
def checkpoint(function: Function) -> Function:
    """Return a function that keeps only its inputs for the backward pass and runs again there.

    The gradients are those of `function`, also for the tensors it captures, such as parameters. A call
    saves the memory of all intermediate values and costs one more evaluation in the backward pass.
    Checkpointed functions may call each other; `checkpoint_sequential` cuts a chain into such calls. Source:
    Griewank and Walther (2008), Evaluating Derivatives, chapter 12.

    Random numbers, as in dropout, are the same in the second run. Other side effects happen twice. Under
    forward mode there is nothing to save, and the function simply runs.

    Parameters
    ----------
    function : callable
        Takes and returns pytrees that contain tensors. It must compute the same each time.

    Returns
    -------
    callable
        Of the same arguments and results. Also a decorator.

    Raises
    ------
    GraphStateError
        In the backward pass, if the second run gives other values than the first: a parameter was updated
        in between, or something random did not come from a `Generator`.
    UnsupportedOperationError
        If `function` changes an argument in place.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([0.5, 1.0], requires_grad=True)
    >>> block = eo.checkpoint(lambda x: eo.sin(eo.exp(x)))
    >>> block(x).sum().backward()
    >>> assert (abs(x.grad - eo.exp(x) * eo.cos(eo.exp(x))) < 1e-6).all()
    """

    require_function("checkpoint", function)

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        given, arguments = parted((args, kwargs))
        result: Callable[[Sequence[Any]], Any]

        def run(tensors: list[Tensor]) -> list[Tensor]:
            nonlocal result
            before = [x.data for x in tensors]
            inner_args, inner_kwargs = arguments(tensors)
            found, result = parted(function(*inner_args, **inner_kwargs))
            _refuse_changes(before, tensors)
            return found

        results = segment(run, given)
        return result(results)

    return Transformed(checkpointed, function, checkpoint)


@explained
def checkpoint_sequential(
    functions: Sequence[Function], segments: int | None = None, *, levels: int = 1
) -> Function:
    """Return the composition of functions, checkpointed in segments: a long chain in little memory.

    The gradients are those of the composition. Source: Chen et al. (2016), Training deep nets with sublinear
    memory cost; Griewank and Walther (2008), Evaluating Derivatives, chapter 12.

    A chain of n alike functions keeps about ``2 * sqrt(n)`` states instead of n, for one more evaluation.
    Segments may be cut again: with ``levels=k`` it keeps about ``(k + 1) * n**(1 / (k + 1))`` states, for k
    more evaluations.

    Parameters
    ----------
    functions : sequence of callables
        Each takes what the one before returns; a tuple is one argument.
    segments : int, optional
        How many pieces a chain is cut into at each level; by default ``n**(1 / (levels + 1))``.
    levels : int, default 1
        How often pieces are cut again.

    Returns
    -------
    callable
        Takes the first function's arguments, returns the last one's result.

    Raises
    ------
    ArgumentError
        If there are no functions, or `segments` or `levels` is no positive integer.

    Examples
    --------
    >>> import everyo as eo
    >>> chain = eo.checkpoint_sequential([eo.sin] * 100)
    >>> x = eo.tensor(1.0, requires_grad=True)
    >>> chain(x).backward()
    >>> plain = eo.tensor(1.0, requires_grad=True)
    >>> y = plain
    >>> for _ in range(100):
    ...     y = eo.sin(y)
    >>> y.backward()
    >>> assert x.grad == plain.grad
    """
    blocks = list(functions)
    if not blocks:
        raise ArgumentError(
            "there is nothing to call",
            operation="checkpoint_sequential",
            expected="functions",
            found="none",
            remedy="pass at least one function",
        )
    require_function("checkpoint_sequential", *blocks)
    for name, value in (("segments", segments), ("levels", levels)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ArgumentError(
                f"{name} is out of range",
                operation="checkpoint_sequential",
                expected="an integer of at least 1",
                found=repr(value),
            )
    chain = _chain(blocks, segments, levels)
    options = {"functions": blocks, "segments": segments, "levels": levels}
    return Transformed(chain, None, checkpoint_sequential, **options)


def _chain(blocks: list[Function], segments: int | None, levels: int) -> Any:
    """Return the composition of `blocks`, cut into checkpointed pieces that are cut again."""
    count = segments or math.ceil(len(blocks) ** (1 / (levels + 1)))
    if levels and count < len(blocks):
        size = math.ceil(len(blocks) / count)
        pieces = [blocks[i : i + size] for i in range(0, len(blocks), size)]
        blocks = [checkpoint(_chain(piece, segments, levels - 1)) for piece in pieces]

    def composed(*args: Any, **kwargs: Any) -> Any:
        value = blocks[0](*args, **kwargs)
        for block in blocks[1:]:
            value = block(value)
        return value

    return composed


def _refuse_changes(before: Sequence[Any], tensors: Sequence[Tensor]) -> None:
    """Raise if the function has assigned to one of its arguments."""
    for data, x in zip(before, tensors, strict=True):
        if x.data is not data:
            raise UnsupportedOperationError(
                "the function changes an argument in place",
                operation="checkpoint",
                inputs=describe(x),
                expected="a function that leaves its arguments as they are",
                found="an in-place statement on an argument",
                remedy="work on a copy: y = x.clone()",
            )
