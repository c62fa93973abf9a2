"""The loss of a recurrent network (LSTM) whose weight matrices are diagonal."""

from __future__ import annotations

from typing import Any

import everyo as eo

from .function import Function, float64, number, numbers


def layer(weights: Any, biases: Any, state: Any, signal: eo.Tensor) -> tuple[eo.Tensor, eo.Tensor]:
    """Return the next hidden and cell state of a layer, each of shape (b,).

    `weights` and `biases` are those of the forget, input and output gates and of the change; `state` is
    the hidden and cell state, `signal` what the layer below gives.
    """
    hidden, cell = state
    forget = eo.sigmoid(signal * weights[0] + biases[0])
    ingate = eo.sigmoid(hidden * weights[1] + biases[1])
    outgate = eo.sigmoid(signal * weights[2] + biases[2])
    change = eo.tanh(hidden * weights[3] + biases[3])
    cell = cell * forget + ingate * change
    return outgate * eo.tanh(cell), cell


def predictions(main: eo.Tensor, extra: eo.Tensor, state: eo.Tensor, inputs: eo.Tensor) -> eo.Tensor:
    """Return the network's output after each of the inputs (steps, b), of shape (steps, b)."""
    depth, width = main.shape[0] // 2, inputs.shape[1]
    parameters = [[eo.unstack(part) for part in pair] for pair in eo.reshape(main, (depth, 2, 4, width))]
    in_weight, out_weight, out_bias = extra
    start = [tuple(pair) for pair in eo.reshape(state, (depth, 2, width))]

    def step(states: list[Any], symbol: eo.Tensor) -> tuple[list[Any], eo.Tensor]:
        signal, following = symbol * in_weight, []
        for (weights, biases), before in zip(parameters, states, strict=True):
            after = layer(weights, biases, before, signal)
            signal = after[0]
            following.append(after)
        return following, signal * out_weight + out_bias

    return eo.scan(step, start, inputs)[1]


def objective(main: eo.Tensor, extra: eo.Tensor, state: eo.Tensor, sequence: eo.Tensor) -> eo.Tensor:
    """Return the mean loss of predicting each symbol of a sequence from those before.

    Parameters
    ----------
    main : Tensor of shape (2 l, 4 b)
        For each layer a row of weights and a row of biases.
    extra : Tensor of shape (3, b)
        Weights of the input, weights and biases of the output.
    state : Tensor of shape (2 l, b)
        For each layer the first hidden and cell state.
    sequence : Tensor of shape (c, b)
        Symbols as bits, each 0 or 1.
    """
    predicted, actual = predictions(main, extra, state, sequence[:-1]), sequence[1:]
    normalizer = eo.log(2 + eo.sum(eo.exp(predicted), axis=1, keepdims=True))
    return -eo.mean(actual * (predicted - normalizer))


def jacobian(main: eo.Tensor, extra: eo.Tensor, state: eo.Tensor, sequence: eo.Tensor) -> eo.Tensor:
    """Return the gradient with respect to `main` and then `extra`, of shape (8 l b + 3 b,)."""
    gradients = eo.grad(objective, argnums=(0, 1))(main, extra, state, sequence)
    return eo.concat([eo.ravel(x) for x in gradients])


def _read(message: dict[str, Any]) -> tuple:
    return tuple(float64(message[name]) for name in ("main_params", "extra_params", "state", "sequence"))


FUNCTIONS = {
    "objective": Function(objective, _read, number),
    "jacobian": Function(jacobian, _read, numbers),
}
