"""Operations whose modules load when one of them is first used: `import everyo` stays as quick as it is."""

from __future__ import annotations

import importlib

from everyo.core.registry import define_later

# For each module its public functions that belong to `everyo` itself, those of its `__all__`.
TOP_LEVEL: dict[str, tuple[str, ...]] = {
    "everyo.ops.broadcasting": ("broadcast_shapes",),
    "everyo.ops.assembling": (
        "append", "atleast_3d", "column_stack", "diagflat", "dsplit", "dstack", "fliplr", "flipud", "hsplit",
        "ix_", "resize", "rollaxis", "trim_zeros", "vsplit",
    ),
    "everyo.ops.insertions": ("delete", "insert"),
    "everyo.ops.closeness": (
        "allclose", "array_equal", "array_equiv", "isclose", "iscomplex", "iscomplexobj", "isneginf",
        "isposinf", "isreal", "isrealobj", "real_if_close",
    ),
    "everyo.ops.choosing": ("argpartition", "choose", "lexsort", "partition", "piecewise"),
    "everyo.ops.progressions": ("geomspace", "logspace", "tri"),
    "everyo.ops.vector_products": ("vdot",),
    "everyo.ops.data_types": ("can_cast", "finfo", "iinfo", "isdtype", "result_type"),
    "everyo.ops.inspection": ("__array_namespace_info__",),
    "everyo.ops.interchange": ("from_dlpack",),
    "everyo.ops.float_parts": (
        "copysign", "fabs", "fix", "frac", "frexp", "ldexp", "modf", "nan_to_num", "nextafter", "rint",
    ),
    "everyo.ops.quotients": ("divmod", "float_power", "fmod", "gcd", "lcm", "true_divide"),
    "everyo.ops.mixtures": ("deg2rad", "degrees", "fmax", "fmin", "heaviside", "lerp", "rad2deg", "radians"),
    "everyo.ops.bits": ("bitwise_count", "bitwise_not", "invert", "left_shift", "right_shift"),
    "everyo.ops.order_statistics": (
        "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
    ),
    "everyo.ops.nan_reductions": (
        "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmin", "nanprod", "nansum",
    ),
    "everyo.ops.nan_statistics": ("nanmean", "nanstd", "nanvar"),
    "everyo.ops.scattering": (
        "index_copy", "index_fill", "index_reduce", "index_select", "scatter", "scatter_reduce",
    ),
    "everyo.ops.masking": (
        "argwhere", "compress", "extract", "flatnonzero", "masked_fill", "masked_scatter", "masked_select",
        "select",
    ),
    "everyo.ops.segments": ("segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum"),
    "everyo.ops.window_reductions": ("reduce_window", "sliding_window_view", "unfold"),
    "everyo.ops.distances": ("cdist", "pdist", "renorm"),
    "everyo.ops.blocks": ("block", "block_diag"),
    "everyo.ops.padding": ("pad",),
    "everyo.ops.accumulations": (
        "cummax", "cummin", "cumulative_max", "cumulative_min", "cumulative_prod", "cumulative_sum",
        "logcumsumexp",
    ),
    "everyo.ops.special.top_level": ("i0", "sinc"),
    "everyo.ops.differences": ("ediff1d", "gradient", "trapezoid", "unwrap"),
    "everyo.ops.covariance": ("corrcoef", "cov"),
    "everyo.ops.searching": ("digitize", "interp", "searchsorted"),
    "everyo.ops.bin_edges": ("histogram_bin_edges",),
    "everyo.ops.histograms": ("bincount", "histogram", "histogram2d", "histogramdd"),
    "everyo.ops.sets": ("intersect1d", "isin", "setdiff1d", "setxor1d", "union1d"),
    "everyo.ops.unique_elements": (
        "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    ),
    "everyo.ops.filters": ("convolve", "correlate"),
    "everyo.ops.polynomials": (
        "poly", "polyadd", "polyder", "polyint", "polymul", "polysub", "polyval", "vander",
    ),
    "everyo.ops.products": ("cross", "kron", "matvec", "vecmat"),
    "everyo.ops.grids": (
        "diag_indices", "diag_indices_from", "indices", "ravel_multi_index", "tril_indices",
        "tril_indices_from", "triu_indices", "triu_indices_from", "unravel_index",
    ),
    "everyo.ops.slicewise": ("apply_along_axis", "apply_over_axes", "rot90", "sort_complex"),
    "everyo.ops.fitting": ("polydiv", "polyfit", "roots"),
    "everyo.ops.einsum": ("einsum",),
    "everyo.ops.stochastic": ("dropout",),
    "everyo.ops.convolution": ("conv1d", "conv2d", "conv3d"),
    "everyo.ops.standardizing": ("layer_norm",),
    "everyo.ops.pooling": ("avg_pool1d", "avg_pool2d", "max_pool1d", "max_pool2d"),
}  # fmt: skip
# Modules whose functions have a namespace of their own, such as `everyo.linalg`.
NAMESPACES: tuple[str, ...] = (
    "everyo.ops.fft",
    "everyo.ops.linalg",
    "everyo.ops.random",
    "everyo.ops.special",
)

ON_FIRST_USE = {name: module for module, names in TOP_LEVEL.items() for name in names}


def load() -> None:
    """Define the operations of all these modules."""
    for module in (*TOP_LEVEL, *NAMESPACES):
        importlib.import_module(module)


define_later(load)
