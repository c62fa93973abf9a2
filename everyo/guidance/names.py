"""The error for a name that does not exist: where EveryO has it, or what does the same."""

from __future__ import annotations

import sys

from everyo.guidance.tables import OF_ALL_UFUNCS, OF_ITS_TIME, OF_MODULE, OF_TENSORS, OF_UFUNCS, SET

# For names of objects.
OF_OBJECTS = {
    "tensors": OF_TENSORS,
    "numbers": dict.fromkeys(
        ("bit_count", "bit_length", "hex", "to_bytes"),
        "mark the argument in static_argnums: in a compiled function only such a one is a Python number",
    ),
    "modules": {
        "float": "module.to(eo.float32)",
        "double": "module.to(eo.float64)",
        "half": "module.to(eo.float16)",
        "bfloat16": "module.to(eo.float16), or eo.float32",
        "type": "module.to(dtype)",
        "cpu": "not needed, as tensors are on the CPU",
        "cuda": "tensors are on the CPU",
        "compile": "eo.compile(module)",
        "get_parameter": "dict(module.named_parameters())[name]",
        "get_buffer": "dict(module.named_buffers())[name]",
        "get_submodule": "dict(module.named_modules())[name]",
        "register_module": "module.add_module(name, child)",
        "to_empty": "module.to(device)",
        **dict.fromkeys(
            ("register_backward_hook", "register_full_backward_hook", "register_full_backward_pre_hook"),
            "parameter.register_hook(f)",
        ),
    },
}

# For names of a namespace.
OF_NAMESPACES = {
    "everyo": OF_MODULE,
    "everyo.nn": {
        **dict.fromkeys(
            ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"),
            "a module of a few lines, which docs/training.md shows; eo.nn.LayerNorm",
        ),
        **dict.fromkeys(("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"), OF_ITS_TIME),
        "Softmax": "eo.nn.functional.softmax(x, axis)",
        "LogSoftmax": "eo.nn.functional.log_softmax(x, axis)",
        "LeakyReLU": "eo.leaky_relu(x)",
        "ELU": "eo.elu(x)",
        "SELU": "eo.selu(x)",
        "LogSigmoid": "eo.log_sigmoid(x)",
        "Softsign": "eo.softsign(x)",
        "ReLU6": "eo.clip(x, 0, 6)",
        "Hardtanh": "eo.clip(x, -1, 1)",
        "Mish": "x * eo.tanh(eo.softplus(x))",
        "SmoothL1Loss": "eo.nn.HuberLoss(delta=1.0)",
        "BCELoss": "eo.nn.BCEWithLogitsLoss(), of logits",
        "KLDivLoss": "eo.special.kl_div(p, q).sum()",
        "MultiheadAttention": "eo.softmax(q @ k.mT / q.shape[-1] ** 0.5) @ v",
        "RMSNorm": "x * eo.rsqrt((x * x).mean(axis=-1, keepdims=True) + eps)",
        "GroupNorm": "eo.layer_norm of x.reshape(batch, groups, -1)",
        "AdaptiveAvgPool2d": "x.mean(axis=(-2, -1), keepdims=True) for size 1",
        "AvgPool1d": "eo.avg_pool1d(x, size)",
        "MaxPool1d": "eo.max_pool1d(x, size)",
        "Conv3d": "eo.conv3d(x, weight)",
        "ZeroPad2d": "eo.pad(x, widths)",
        **{f"ConvTranspose{n}": f"eo.vjp(lambda z: eo.conv{n}(z, weight), z)[1](x)[0]" for n in ("1d", "2d")},
        "GLU": "a * eo.sigmoid(b) with a, b = eo.split(x, 2, axis=-1)",
        "PReLU": "eo.where(x > 0, x, weight * x)",
        "Hardsigmoid": "eo.clip(x + 3, 0, 6) / 6",
        "Hardswish": "x * eo.clip(x + 3, 0, 6) / 6",
        "Tanhshrink": "x - eo.tanh(x)",
        "Softmin": "eo.softmax(-x)",
        "CosineSimilarity": "eo.vecdot(a, b) / (eo.vector_norm(a, axis=-1) * eo.vector_norm(b, axis=-1))",
        "PairwiseDistance": "eo.vector_norm(a - b, axis=-1)",
        "AdaptiveMaxPool2d": "x.max(axis=(-2, -1), keepdims=True) for size 1",
        "Upsample": "eo.repeat(x, n, axis) for nearest neighbours",
        "Unflatten": "x.reshape(shape)",
        **dict.fromkeys(
            ("ReflectionPad1d", "ReflectionPad2d", "ReplicationPad1d", "ReplicationPad2d", "ConstantPad1d")
            + ("ConstantPad2d", "ZeroPad1d", "CircularPad1d", "CircularPad2d"),
            "eo.pad(x, widths), with mode=",
        ),
        **dict.fromkeys(
            ("Transformer", "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder"),
            "eo.softmax(q @ k.mT / q.shape[-1] ** 0.5) @ v for attention; eo.nn.LayerNorm and eo.nn.Linear",
        ),
        "ModuleDict": "eo.nn.ModuleList, or attributes of a Module",
        "ParameterList": "eo.nn.Parameter as attributes of a Module",
        "Buffer": "module.register_buffer(name, tensor)",
        "DataParallel": "one process; large loops use several threads",
        "utils": "p.grad *= factor to clip gradients, as docs/training.md shows",
    },
    "everyo.nn.functional": {
        "one_hot": "eo.eye(n)[i]",
        "normalize": "x / eo.vector_norm(x, axis=-1, keepdims=True)",
        "scaled_dot_product_attention": "eo.softmax(q @ k.mT / q.shape[-1] ** 0.5) @ v",
        "logsigmoid": "eo.log_sigmoid(x)",
        "swish": "eo.silu(x)",
        "relu6": "eo.clip(x, 0, 6)",
        "hardtanh": "eo.clip(x, -1, 1)",
        "hardsigmoid": "eo.clip(x + 3, 0, 6) / 6",
        "hardswish": "x * eo.clip(x + 3, 0, 6) / 6",
        "prelu": "eo.where(x > 0, x, weight * x)",
        "conv_transpose2d": "eo.vjp(lambda z: eo.conv2d(z, weight), z)[1](x)[0]",
        "dot_product_attention": "eo.softmax(q @ k.mT / q.shape[-1] ** 0.5) @ v",
        "gumbel_softmax": "eo.softmax(x - eo.log(eo.random.exponential(size=x.shape)))",
        "adaptive_avg_pool2d": "x.mean(axis=(-2, -1), keepdims=True) for size 1",
        "mish": "x * eo.tanh(eo.softplus(x))",
        "glu": "a * eo.sigmoid(b) with a, b = eo.split(x, 2, axis=-1)",
        "softmin": "eo.softmax(-x)",
        "smooth_l1_loss": "eo.nn.functional.huber_loss(x, y, delta=1.0)",
        "binary_cross_entropy": "eo.nn.functional.binary_cross_entropy_with_logits(logits, y)",
        "kl_div": "eo.special.kl_div(p, q).sum()",
        "interpolate": "eo.repeat(x, n, axis) for nearest neighbours",
    },
    "everyo.nn.init": {
        "orthogonal_": "x[...] = eo.linalg.qr(eo.random.normal(size=x.shape))[0]",
        "eye_": "x[...] = eo.eye(n)",
        "trunc_normal_": "eo.nn.init.normal_(x), then x[...] = x.clip(low, high)",
        "glorot_uniform": "eo.nn.init.xavier_uniform_(x)",
        "glorot_normal": "eo.nn.init.xavier_normal_(x)",
        "he_uniform": "eo.nn.init.kaiming_uniform_(x)",
        "he_normal": "eo.nn.init.kaiming_normal_(x)",
    },
    "everyo.optim": {
        "LBFGS": "eo.scipy_compat.minimize(f, x0, method='L-BFGS-B'): docs/training.md has an example",
        **dict.fromkeys(
            ("RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD", "Muon", "Lion"),
            "eo.optim.Adam, or an update by hand: with eo.no_grad(): p -= ...",
        ),
        "lr_scheduler": "group['lr'] = rate for the groups of optimizer.param_groups",
        "adamw": "eo.optim.AdamW(parameters, lr)",
        "clip_grad_norm_": "p.grad *= factor before step(): docs/training.md has an example",
    },
    "everyo.io": {
        "save": "eo.io.save_safetensors(tensors, path)",
        "load": "eo.io.load_safetensors(path)",
        "DataLoader": "batches are slices x[i:i + n], in the order of eo.random.permutation(len(x))",
    },
    "everyo.linalg": {
        "expm": "eo.linalg.matrix_exp(x)",
        "cho_solve": "eo.linalg.cholesky_solve(b, factor)",
        "inverse": "eo.linalg.inv(x)",
    },
    "everyo.special": {
        **{f"bessel_{n}": f"eo.special.{n}(x)" for n in ("j0", "j1", "y0", "y1")},
        **{f"modified_bessel_{n}": f"eo.special.{n}(x)" for n in ("i0", "i1")},
        "loggamma": "eo.special.gammaln(x)",
        "lgamma": "eo.special.gammaln(x)",
        "factorial": "eo.special.gamma(n + 1)",
    },
    "everyo.random": {
        "rand": "eo.random.uniform(size=shape)",
        "random": "eo.random.uniform(size=shape)",
        "random_sample": "eo.random.uniform(size=shape)",
        "randn": "eo.random.normal(size=shape)",
        "seed": "eo.manual_seed(n)",
        **dict.fromkeys(
            ("key", "PRNGKey", "split", "fold_in", "default_rng", "RandomState"),
            "eo.random.Generator(seed), which has state",
        ),
        "categorical": "eo.random.choice(n, size, p=p)",
        "shuffle": "x[eo.random.permutation(len(x))]",
        "truncated_normal": "eo.random.normal(size=shape).clip(low, high), or drawn again outside",
        "rademacher": "2 * eo.random.bernoulli(0.5, size=shape) - 1",
        "standard_t": "eo.asarray(np.random.default_rng(seed).standard_t(...)), a constant",
        "gumbel": "-eo.log(eo.random.exponential(size=shape))",
        "lognormal": "eo.exp(eo.random.normal(mean, std, size=shape))",
        "multivariate_normal": "mean + eo.random.normal(size=(n, d)) @ eo.linalg.cholesky(cov).mT",
        **{
            name: f"eo.asarray(np.random.default_rng(seed).{name}(...)), a constant"
            for name in ("beta", "binomial", "chisquare", "gamma", "laplace", "multinomial", "poisson")
        },
    },
    "everyo.autograd": {
        "Variable": "eo.tensor(data, requires_grad=True)",
        "functional": "its functions are those of eo itself, as in eo.jacobian and eo.hvp",
        "forward_ad": "eo.jvp(f, primals, tangents)",
        "set_detect_anomaly": "eo.detect_anomaly()",
    },
}  # fmt: skip

# Public names of namespaces, which may be looked for in `eo` itself.
MOVED = {
    "linalg": """cholesky cholesky_solve det eig eigh eigvals eigvalsh inv logm lstsq lu lu_factor
        lu_solve matrix_exp matrix_norm matrix_power matrix_rank multi_dot pinv qr slogdet solve
        solve_triangular sqrtm svd svdvals tensorinv tensorsolve""",
    "special": """beta betainc betaincinv betaln boxcox boxcox1p cosm1 dawsn digamma ellipe ellipk ellipkm1
        entr erfcinv erfcx erfinv exp1 expi expit expn exprel gamma gammainc gammaincc gammainccinv
        gammaincinv gammaln huber i0e i1 i1e inv_boxcox inv_boxcox1p iv ive j0 j1 jv jve k0 k0e k1
        k1e kl_div kv kve log_expit log_ndtr logit multigammaln ndtr ndtri polygamma pseudo_huber
        psi rel_entr spence xlog1py xlogy y0 y1 yv zeta""",
    "fft": "fft2 fftfreq fftn fftshift ifft ifft2 ifftn irfft rfft rfftfreq rfftn",
    "random": """Generator bernoulli choice default_generator exponential integers normal permutation
        standard_normal uniform""",
    "nn": """Conv1d Conv2d CrossEntropyLoss Dropout Embedding LayerNorm Linear MSELoss Module ModuleList
        Parameter ReLU Sequential Tanh functional functional_call init""",
    "nn.functional": "binary_cross_entropy_with_logits cross_entropy huber_loss linear mse_loss nll_loss",
    "optim": "SGD Adam AdamW Optimizer",
    "io": "load_safetensors save_safetensors",
    "testing": "check_jvp gradcheck gradgradcheck numerical_gradient",
    "autograd": "Function",
    "implicit": "custom_fixed_point custom_linear_solve custom_root",
    "scipy_compat": "least_squares minimize",
}


def missing(name: str, module: str) -> str:
    """Return the text of the AttributeError for a name that a namespace does not have."""
    return _text(
        f"module {module!r}", name, OF_NAMESPACES.get(module, {}).get(name) or _elsewhere(name, module)
    )


def missing_method(name: str, owner: str, table: str) -> str:
    """Return the text of the AttributeError for a name that the objects of a class do not have."""
    return _text(f"{owner!r} object", name, OF_OBJECTS[table].get(name))


def unsettable(name: str, owner: str) -> str:
    """Return the text of the AttributeError for an attribute that cannot be set."""
    return f"attribute {name!r} of {owner!r} objects cannot be set; in EveryO: {SET[name]}"


def missing_of_ufuncs(name: str, function: str) -> str:
    """Return the text of the AttributeError for a method that only NumPy's ufuncs have."""
    hint = OF_UFUNCS[name].get(function) or OF_ALL_UFUNCS.get(name, "").format(function)
    return _text(f"function {function!r}", name, hint)


def _text(owner: str, name: str, hint: str | None) -> str:
    text = f"{owner} has no attribute {name!r}"
    return f"{text}; in EveryO: {hint}" if hint else text


def _elsewhere(name: str, module: str) -> str | None:
    """Return where EveryO has a name, without loading anything."""
    if name.startswith("_"):
        return None
    everyo = sys.modules["everyo"]
    if name in dir(everyo):
        return f"eo.{name}"
    for namespace, names in MOVED.items():
        if name in names.split() and f"everyo.{namespace}" != module:
            return f"eo.{namespace}.{name}"
    if hasattr(everyo.Tensor, name):
        return f"x.{name}"
    return next((known[name] for known in OF_NAMESPACES.values() if name in known), None)
