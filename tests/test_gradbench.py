"""GradBench's problems against their formulas, written out again in NumPy, and central differences."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys

import numpy as np
import pytest

import everyo as eo
from benchmarks.gradbench import ba, ht, inputs
from benchmarks.gradbench.function import Function
from benchmarks.gradbench.tool import MODULES, Tool, functions, repeated

RNG = np.random.default_rng(7)


def listed(tree):
    """Return arrays in an input as lists, as a message has them."""
    if isinstance(tree, dict):
        return {name: listed(x) for name, x in tree.items()}
    return tree.tolist() if isinstance(tree, np.ndarray) else tree


def output(module, name, given):
    """Return what the tool answers to an input that went through JSON."""
    message = {"id": 1, "kind": "evaluate", "module": module, "function": name, "input": listed(given)}
    answer = json.loads(json.dumps(Tool(eager=True).answer(json.loads(json.dumps(message)))))
    assert answer["success"], answer["error"]
    return answer["output"]


def differences(f, x, step=5e-4):
    """Return the Jacobian of f at x by central differences of fourth order: ``f(x).shape + x.shape``."""
    x = np.asarray(x, dtype=np.float64)
    columns = []
    for i in np.ndindex(x.shape):
        total = 0.0
        for steps, weight in ((1, 8.0), (-1, -8.0), (2, -1.0), (-2, 1.0)):
            moved = x.copy()
            moved[i] += steps * step
            total = total + weight * np.asarray(f(moved))
        columns.append(total / (12 * step))
    return np.stack(columns, axis=-1).reshape(*np.shape(columns[0]), *x.shape)


def close(found, expected, tolerance=1e-12):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    scale = np.maximum(1.0, np.abs(expected))
    assert np.max(np.abs(found - expected) / scale) <= tolerance


# hello, lse, llsq, ode, kmeans: closed forms


def test_hello():
    assert output("hello", "square", 3.5) == 12.25
    assert output("hello", "double", 3.5) == 7.0


@pytest.mark.parametrize("shift", [0.0, 1000.0, -1000.0])
def test_lse_is_shifted_and_its_gradient_is_softmax(shift):
    x = RNG.normal(size=9)
    given = {"x": x + shift}
    close(output("lse", "primal", given), math.log(np.exp(x).sum()) + shift, 1e-14)
    close(output("lse", "gradient", given), np.exp(x) / np.exp(x).sum(), 1e-13)


@pytest.mark.parametrize("n", [4, 7])  # with 7 points, one of them is 0, where the sign is 0
def test_llsq_is_linear_algebra(n):
    given = {"x": RNG.normal(size=5), "n": n}
    t = np.array([-1 + 2 * i / (n - 1) for i in range(n)])
    powers = np.array([[ti**j for j in range(5)] for ti in t])
    residual = np.sign(t) - powers @ given["x"]
    close(output("llsq", "primal", given), 0.5 * residual @ residual)
    close(output("llsq", "gradient", given), -powers.T @ residual)


def test_ode_of_four_is_a_polynomial_that_the_method_solves_exactly():
    x = RNG.uniform(0.5, 1.5, 4)
    exact = [math.prod(x[: i + 1]) * 2.0 ** (i + 1) / math.factorial(i + 1) for i in range(4)]
    for steps in (1, 3):
        close(output("ode", "primal", {"x": x, "s": steps}), exact)
        close(output("ode", "gradient", {"x": x, "s": steps}), exact[-1] / x)


def test_ode_of_more_equations_is_the_tableau_of_the_method():
    x, steps = RNG.uniform(0.5, 1.5, 7), 2

    def solved(x):
        y, h = np.zeros(7), 2.0 / steps
        for _ in range(steps):
            k = []
            for c in (0.0, 0.5, 0.5, 1.0):
                stage = y + h * c * k[-1] if k else y
                k.append(np.array([x[0]] + [x[i] * stage[i - 1] for i in range(1, 7)]))
            y = y + h * (k[0] + 2 * k[1] + 2 * k[2] + k[3]) / 6
        return y

    close(output("ode", "primal", {"x": x, "s": steps}), solved(x))
    close(output("ode", "gradient", {"x": x, "s": steps}), differences(lambda x: solved(x)[-1], x), 1e-9)


def test_kmeans_direction_leads_from_the_means():
    given = inputs.kmeans(k=4, n=60, d=3)
    points, centroids = given["points"], given["centroids"]
    distances = np.array([[sum((p - c) ** 2) for c in centroids] for p in points])
    nearest = distances.argmin(axis=1)
    means = np.array([points[nearest == j].mean(axis=0) for j in range(4)])
    close(output("kmeans", "cost", given), distances.min(axis=1).sum())
    close(output("kmeans", "dir", given), centroids - means)


# gmm


def log_posterior(given):
    """Return the logarithm of the product of densities and prior, as they are defined."""
    d, k, n = given["d"], given["k"], given["n"]
    freedom, gamma = d + given["m"] + 1, given["gamma"]
    phi = np.exp(given["alpha"]) / np.exp(given["alpha"]).sum()
    precisions = []
    for q, l in zip(given["q"], given["l"]):
        factor, below = np.diag(np.exp(q)), iter(l)
        for column in range(d):
            for row in range(column + 1, d):
                factor[row, column] = next(below)
        precisions.append(factor.T @ factor)
    result = 0.0
    for x in given["x"]:
        density = 0.0
        for j in range(k):
            z = x - given["mu"][j]
            determinant = np.linalg.det(precisions[j])
            density += (
                phi[j] * math.sqrt(determinant / (2 * math.pi) ** d) * math.exp(-0.5 * z @ precisions[j] @ z)
            )
        result += math.log(density)
    log_gamma = d * (d - 1) / 4 * math.log(math.pi) + sum(
        math.lgamma((freedom + 1 - j) / 2) for j in range(1, d + 1)
    )
    for precision in precisions:
        result += (freedom - d - 1) / 2 * math.log(np.linalg.det(precision)) - gamma**2 / 2 * np.trace(
            precision
        )
        result += freedom * d * math.log(gamma) - freedom * d / 2 * math.log(2) - log_gamma
    assert n == len(given["x"])
    return result


@pytest.mark.parametrize(("m", "gamma"), [(0, 1.0), (2, 1.3)])
def test_gmm(m, gamma):
    given = inputs.gmm(d=3, k=2, n=6, m=m, gamma=gamma)
    close(output("gmm", "objective", given), log_posterior(given), 1e-13)
    found = output("gmm", "jacobian", given)
    assert list(found) == ["alpha", "mu", "q", "l"]
    for name, gradient in found.items():
        expected = differences(lambda x, name=name: log_posterior({**given, name: x}), given[name])
        close(gradient, expected, 1e-8)


def test_gmm_in_one_dimension_has_no_lower_triangle():
    given = inputs.gmm(d=1, k=2, n=3)
    close(output("gmm", "objective", given), log_posterior(given), 1e-13)
    assert output("gmm", "jacobian", given)["l"] == [[], []]


# lstm


def lstm_loss(given):
    """Return the loss, one number at a time."""

    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    main, extra, sequence = given["main_params"], given["extra_params"], given["sequence"]
    state = given["state"].copy()
    count, width = sequence.shape
    total = 0.0
    for t in range(count - 1):
        signal = sequence[t] * extra[0]
        for layer in range(len(main) // 2):
            weight, bias = main[2 * layer].reshape(4, width), main[2 * layer + 1].reshape(4, width)
            hidden, cell = state[2 * layer], state[2 * layer + 1]
            for i in range(width):
                forget = sigmoid(signal[i] * weight[0, i] + bias[0, i])
                ingate = sigmoid(hidden[i] * weight[1, i] + bias[1, i])
                outgate = sigmoid(signal[i] * weight[2, i] + bias[2, i])
                change = math.tanh(hidden[i] * weight[3, i] + bias[3, i])
                cell[i] = cell[i] * forget + ingate * change
                hidden[i] = outgate * math.tanh(cell[i])
            signal = hidden
        predicted = signal * extra[1] + extra[2]
        total += sequence[t + 1] @ (predicted - math.log(sum(math.exp(x) for x in predicted) + 2))
    return -total / (width * (count - 1))


def test_lstm():
    given = inputs.lstm(l=2, c=5, b=3)
    close(output("lstm", "objective", given), lstm_loss(given))
    by_main, by_extra = (
        differences(lambda x, name=name: lstm_loss({**given, name: x}), given[name]).ravel()
        for name in ("main_params", "extra_params")
    )
    close(output("lstm", "jacobian", given), np.concatenate([by_main, by_extra]), 1e-9)


def test_lstm_reads_symbols_as_bits():
    assert inputs.lstm(l=1, c=2, b=8, text="aZ!")["sequence"].tolist() == [
        [0, 1, 1, 0, 0, 0, 0, 1],
        [0, 1, 0, 1, 1, 0, 1, 0],
    ]


# ba


def rotation_matrix(vector):
    """Return the matrix of the rotation about a vector by its length."""
    angle = math.sqrt(vector @ vector)
    if angle == 0:
        return np.eye(3)
    x, y, z = vector / angle
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * skew + (1 - math.cos(angle)) * skew @ skew


def seen_error(camera, point, weight, feature):
    x, y, z = rotation_matrix(camera[:3]) @ (point - camera[3:6])
    x, y = x / z, y / z
    squared = x * x + y * y
    distortion = 1 + camera[9] * squared + camera[10] * squared**2
    seen = np.array([x, y]) * distortion * camera[6] + camera[7:9]
    return weight * (seen - feature)


def scene():
    """Return two cameras, the second without rotation, three points and five observations."""
    cameras = np.stack([RNG.normal(scale=0.3, size=11), RNG.normal(scale=0.3, size=11)])
    cameras[:, 6] = 20.0, 30.0
    cameras[1, :3] = 0.0
    points = RNG.normal(size=(3, 3)) + [0.0, 0.0, 8.0]
    observed = np.array([0, 1, 0, 1, 0]), np.array([0, 1, 2, 0, 1])
    return cameras, points, RNG.uniform(0.5, 1.5, 5), *observed, RNG.normal(size=(5, 2))


def test_ba_errors_and_sparse_jacobian():
    cameras, points, weights, seen_by, seen, features = scene()

    def errors(flat):
        c, x, w = np.split(flat, [22, 31])
        c, x = c.reshape(2, 11), x.reshape(3, 3)
        found = [seen_error(c[i], x[j], w[k], features[k]) for k, (i, j) in enumerate(zip(seen_by, seen))]
        return np.concatenate([*found, 1 - w * w])

    arguments = [eo.asarray(x) for x in (cameras, points, weights, seen_by, seen, features)]
    flat = np.concatenate([cameras.ravel(), points.ravel(), weights])
    reprojection, by_weight = ba.objective(*arguments)
    close(np.concatenate([reprojection.numpy().ravel(), by_weight.numpy()]), errors(flat), 1e-13)
    parts = {name: x.numpy() for name, x in ba.jacobian(*arguments).items()}
    assert parts["rows"].tolist() == [*range(0, 151, 15), *range(151, 156)]
    dense = np.zeros((15, 36))
    for row, (start, end) in enumerate(zip(parts["rows"], parts["rows"][1:])):
        assert len(set(parts["cols"][start:end])) == end - start
        dense[row, parts["cols"][start:end]] = parts["vals"][start:end]
    close(dense, differences(errors, flat), 1e-9)


def test_ba_answers_show_the_first_observation_and_the_last_entry():
    given = inputs.ba(n=2, m=3, p=4)
    camera, point, feature = (np.array(given[name]) for name in ("cam", "x", "feat"))
    found = output("ba", "objective", given)
    assert found["reproj_error"]["repeated"] == found["w_err"]["repeated"] == 4
    close(found["reproj_error"]["elements"], seen_error(camera, point, given["w"], feature))
    close(found["w_err"]["element"], 1 - given["w"] ** 2)
    found = output("ba", "jacobian", given)
    assert found["rows"] == [0, 15, 30, 45, 60, 75, 90, 105, 120, 121, 122, 123, 124, 124]
    row = [*range(11), 22, 23, 24, 31]
    assert found["cols"] == [*row, *row, 34]
    by_point = differences(lambda x: seen_error(camera, x, given["w"], feature), point)
    close(np.reshape(found["vals"][:30], (2, 15))[:, 11:14], by_point, 1e-8)
    close(found["vals"][-1], -2 * given["w"])


def test_ba_reads_a_file(tmp_path):
    path = tmp_path / "ba.txt"
    path.write_text("2 3 4\n1 2 3 4 5 6 7 8 9 10 11.5\n-1 0.5 2 \n0.25\n3 4.5\n")
    assert inputs.read_ba(path) == {
        "n": 2, "m": 3, "p": 4, "cam": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11.5], "x": [-1, 0.5, 2],
        "w": 0.25, "feat": [3, 4.5],
    }  # fmt: skip


# ht


def about(axis, angle):
    """Return the rotation (4, 4) about a coordinate axis."""
    matrix = np.eye(4)
    matrix[:3, :3] = rotation_matrix(angle * np.eye(3)[axis])
    return matrix


def hand_errors(given, theta, us):
    """Return the differences between points and hand, vertex by vertex and bone by bone."""
    data, model = given["data"], given["data"]["model"]
    angles = np.zeros((22, 3))
    for finger in range(5):
        first = 6 + 4 * finger
        angles[2 + 4 * finger, 0], angles[2 + 4 * finger, 1] = theta[first], theta[first + 1]
        angles[3 + 4 * finger, 0], angles[4 + 4 * finger, 0] = theta[first + 2], theta[first + 3]
    absolutes = []
    for bone, parent in enumerate(model["parents"]):
        x, z, y = angles[bone]
        matrix = model["base_relatives"][bone] @ about(2, z) @ about(1, y) @ about(0, x)
        absolutes.append(matrix if parent == -1 else absolutes[parent] @ matrix)
    positions = []
    for base, weights in zip(model["base_positions"], model["weights"]):
        skinned = np.zeros(3)
        for bone, weight in enumerate(weights):
            skinned += weight * (absolutes[bone] @ model["inverse_base_absolutes"][bone] @ base)[:3]
        if model["is_mirrored"]:
            skinned[0] *= -1
        still = np.linalg.norm(theta[:3]) < 1e-4
        rotation = np.eye(3) if still else rotation_matrix(theta[:3])
        positions.append(rotation @ skinned + theta[3:6])
    errors = []
    for i, target in enumerate(data["correspondences"]):
        if len(us):
            a, b, c = (positions[vertex] for vertex in model["triangles"][target])
            hand = us[i, 0] * a + us[i, 1] * b + (1 - us[i, 0] - us[i, 1]) * c
        else:
            hand = positions[target]
        errors.append(data["points"][i] - hand)
    return np.concatenate(errors)


@pytest.mark.parametrize(("triangles", "mirrored"), [(False, False), (True, False), (True, True)])
def test_ht(triangles, mirrored):
    given = inputs.ht(points=3, triangles=triangles, vertices=6)
    given["data"]["model"]["is_mirrored"] = mirrored
    theta, us = given["theta"], given["us"]
    close(output("ht", "objective", given), hand_errors(given, theta, us))
    expected = differences(lambda theta: hand_errors(given, theta, us), theta)
    if triangles:
        by_us = differences(lambda us: hand_errors(given, theta, us), us)
        own = [by_us[3 * i : 3 * i + 3, i] for i in range(3)]
        expected = np.concatenate([np.concatenate(own), expected], axis=1)
    close(output("ht", "jacobian", given), expected, 1e-9)


@pytest.mark.parametrize("size", [0.0, 5e-5])
def test_ht_takes_a_small_rotation_for_none(size):
    given = inputs.ht(points=2, triangles=False, vertices=6)
    given["theta"][:3] = size / math.sqrt(3)
    close(output("ht", "objective", given), hand_errors(given, given["theta"], given["us"]))
    found = np.array(output("ht", "jacobian", given))
    assert not found[:, :3].any()
    assert np.isfinite(found).all()


def test_ht_turns_a_bone_about_all_three_axes():
    x, z, y = 0.4, -0.7, 1.1
    found = ht.turn(eo.tensor([x, z, y], dtype=eo.float64)).numpy()
    close(found, about(2, z) @ about(1, y) @ about(0, x), 1e-15)


def test_ht_reads_files(tmp_path):
    (tmp_path / "model").mkdir()
    numbers = [str(i) for i in range(32)]
    (tmp_path / "model" / "bones.txt").write_text(
        "".join(f"{name}:{parent}:{':'.join(numbers)}\n" for name, parent in (("wrist", -1), ("thumb1", 0)))
    )
    (tmp_path / "model" / "vertices.txt").write_text(
        "1:2:3:0:0:0:0:0:2:1:0.25:0:0.75\n4:5:6:0:0:0:0:0:1:1:1.0\n"
    )
    (tmp_path / "model" / "triangles.txt").write_text("0:1:0\n")
    (tmp_path / "hand.txt").write_text("2 3\n0 1 2 3\n0 4 5 6\n0.5 0.25\n0.125 0.75\n7\n8\n9\n")
    given = listed(inputs.read_ht(tmp_path, "hand.txt", triangles=True))
    assert given["theta"] == [7, 8, 9]
    assert given["us"] == [[0.5, 0.25], [0.125, 0.75]]
    assert given["data"]["correspondences"] == [0, 0]
    assert given["data"]["points"] == [[1, 2, 3], [4, 5, 6]]
    model = given["data"]["model"]
    assert (model["bone_names"], model["parents"]) == (["wrist", "thumb1"], [-1, 0])
    assert model["base_relatives"][1] == np.arange(16).reshape(4, 4).tolist()
    assert model["inverse_base_absolutes"][0] == np.arange(16, 32).reshape(4, 4).tolist()
    assert model["base_positions"] == [[1, 2, 3, 1], [4, 5, 6, 1]]
    assert model["weights"] == [[0.75, 0.25], [0, 1]]
    assert model["triangles"] == [[0, 1, 0]]
    (tmp_path / "simple.txt").write_text("1 2\n1 1 2 3\n7\n8\n")
    simple = listed(inputs.read_ht(tmp_path, "simple.txt", triangles=False))
    assert (simple["theta"], simple["us"], simple["data"]["points"]) == ([7, 8], [], [[1, 2, 3]])


# the protocol


def conversation(*messages):
    written = io.StringIO()
    Tool(eager=True).serve([json.dumps(message) + "\n" for message in messages], written)
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_every_message_gets_an_answer_with_its_id():
    found = conversation(
        {"id": 0, "kind": "start", "eval": "hello"},
        {"id": 1, "kind": "define", "module": "hello"},
        {"id": 2, "kind": "evaluate", "module": "hello", "function": "square", "input": 1.5},
        {"id": 3, "kind": "analysis", "of": 2, "valid": True},
    )
    [timing] = found[2].pop("timings")
    assert timing.pop("nanoseconds") > 0
    assert timing == {"name": "evaluate"}
    assert found == [
        {"id": 0, "tool": "everyo", "config": {"eager": True}},
        {"id": 1, "success": True},
        {"id": 2, "success": True, "output": 2.25},
        {"id": 3},
    ]


def test_what_is_not_there_or_fails_is_an_answer():
    unknown, function, broken, after = conversation(
        {"id": 0, "kind": "define", "module": "chess"},
        {"id": 1, "kind": "evaluate", "module": "lse", "function": "hessian", "input": {"x": [1.0]}},
        {"id": 2, "kind": "evaluate", "module": "lse", "function": "primal", "input": {"y": [1.0]}},
        {"id": 3, "kind": "define", "module": "lse"},
    )
    assert (unknown["success"], function["success"], broken["success"]) == (False, False, False)
    assert "no module 'chess'; there are hello, gmm," in unknown["error"]
    assert "no function 'hessian' in lse; there are primal, gradient" in function["error"]
    assert "KeyError: 'x'" in broken["error"]
    assert after == {"id": 3, "success": True}


def test_every_module_is_defined():
    for module in MODULES:
        assert all(isinstance(function, Function) for function in functions(module).values())
        [answer] = conversation({"id": 0, "kind": "define", "module": module})
        assert answer["success"]


def test_runs_until_both_minima_are_met():
    calls = []
    assert len(repeated(calls.append, (1,), runs=5, seconds=0.0)[1]) == len(calls) == 5
    _, timings = repeated(calls.append, (1,), runs=2, seconds=0.005)
    assert sum(timings) >= 5e6 > sum(timings[:-1])
    given = {"x": [1.0, 2.0], "min_runs": 3, "min_seconds": 0}
    [answer] = conversation(
        {"id": 0, "kind": "evaluate", "module": "lse", "function": "primal", "input": given}
    )
    assert [timing["name"] for timing in answer["timings"]] == ["evaluate"] * 3


def test_compiles_unless_told_not_to(monkeypatch):
    seen = []

    def compiler(f, *, static_argnums):
        seen.append((f, static_argnums))
        return lambda *args: f(*args)

    monkeypatch.setattr(eo, "compile", compiler, raising=False)
    given = {"x": [1.0, 2.0], "n": 4, "min_runs": 2, "min_seconds": 0}
    message = {"id": 0, "kind": "evaluate", "module": "llsq", "function": "primal", "input": given}
    tool = Tool()
    for _ in range(2):
        answer = tool.answer(message)
        assert [timing["name"] for timing in answer["timings"]] == ["compile", "evaluate", "evaluate"]
    assert seen == [(functions("llsq")["primal"].run, (1,))]
    assert [timing["name"] for timing in Tool(eager=True).answer(message)["timings"]] == ["evaluate"] * 2


def test_the_program_speaks_on_standard_streams():
    message = {"id": 4, "kind": "evaluate", "module": "hello", "function": "double", "input": 2.0}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gradbench", "--eager"],
        input=json.dumps(message) + "\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert (answer["id"], answer["output"]) == (4, 4.0)
