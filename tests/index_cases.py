"""Indices that mix ints, slices, arrays, masks, None and Ellipsis, for an array of shape (2, 3, 4)."""

import numpy as np

A = np.array
MIXED = [
    (0, slice(None), A([1, 0])),
    (slice(None), A([[0, 1], [1, 0]]), 2),
    (A([0, 1]), slice(None), A([0, 3])),
    (A([0, 1]), None, A([0, 2])),
    (slice(None), A([0, 2]), A([1, 1])),
    (Ellipsis, A([1, 1, 1])),
    (A([[0], [1]]), A([0, 2])),
    (None, A([0, 0]), None),
    (slice(None, None, -1), A([2, 0, 2]), slice(3, None, -2)),
    (A([True, False]), A([0, 2])),
    (A([True, True]), slice(None), A([0, 3])),
    (slice(None), A([True, False, True])),
    (A([[True, False, True], [False, True, False]]), 1),
    (A([[True, False, True], [False, True, False]]), slice(1, 3)),
    (Ellipsis, A([[True, False, True, False]] * 3)),
    (Ellipsis, A([True, False, True, False]), None),
    (True,),
    (False,),
    (np.True_, 0),
    (True, A([0, 1, 1])),
    (A(True), slice(None), 1),
    (A(1), slice(None)),
    (np.int64(-1), np.uint8(2)),
    (A([], dtype=int),),
    (A([-1, -2, 0], dtype=np.int8),),
    (A([1, 0], dtype=np.uint8), A([2, 1], dtype=np.uint16)),
    (),
    (Ellipsis,),
    (slice(5, 2), slice(-1, None, -1)),
]
