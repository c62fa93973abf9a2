"""Inputs of the problems: GradBench's generators from fixed seeds, and readers of its data files.

Data files are read from a copy of GradBench's repository; where there is none, problems that need
them get made-up inputs of the same sizes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

SEED = 31337
SYMBOL_BITS = 14  # of the text that GradBench's lstm reads
HAND_BONES, HAND_VERTICES, HAND_TRIANGLES, HAND_ANGLES = 22, 544, 1084, 26


def gmm(d: int, k: int, n: int, m: int = 0, gamma: float = 1.0) -> dict[str, Any]:
    """Return a mixture of k components and n points in d dimensions."""
    rng = np.random.default_rng(SEED)
    points, alpha = rng.normal(size=(n, d)), rng.normal(size=k)
    return {
        "d": d, "k": k, "n": n, "m": m, "gamma": gamma, "x": points, "alpha": alpha,
        "mu": rng.uniform(size=(k, d)), "q": rng.normal(size=(k, d)),
        "l": rng.normal(size=(k, d * (d - 1) // 2)),
    }  # fmt: skip


def lse(n: int) -> dict[str, Any]:
    """Return n numbers in [0, 1)."""
    return {"x": np.random.default_rng(SEED).random(n)}


def llsq(n: int, m: int = 128) -> dict[str, Any]:
    """Return m coefficients and the number n of points."""
    return {"x": np.random.default_rng(SEED).random(m), "n": n}


def ode(n: int, s: int) -> dict[str, Any]:
    """Return n factors and the number s of steps."""
    return {"x": np.random.default_rng(SEED).random(n), "s": s}


def kmeans(k: int, n: int, d: int) -> dict[str, Any]:
    """Return n points, and k of them as centroids, so that each cluster has a point."""
    points = np.random.default_rng(SEED).random((n, d))
    return {"points": points, "centroids": points[n - k :]}


def lstm(l: int, c: int, b: int = SYMBOL_BITS, text: str | None = None) -> dict[str, Any]:
    """Return a network of l layers, and c symbols of `text` (at random without it) as b bits each."""
    rng = np.random.default_rng(SEED)
    if text is None:
        bits = rng.integers(0, 2, (c, b))
    else:
        codes = np.array([ord(symbol) for symbol in text[:c]])
        bits = codes[:, None] >> np.arange(b - 1, -1, -1) & 1
    return {
        "main_params": rng.random((2 * l, 4 * b)), "extra_params": rng.random((3, b)),
        "state": rng.random((2 * l, b)), "sequence": bits.astype(np.float64),
    }  # fmt: skip


def ba(n: int, m: int, p: int) -> dict[str, Any]:
    """Return n equal cameras, m equal points and p observations."""
    return {
        "n": n, "m": m, "p": p,
        "cam": [0.3, -0.2, 0.5, 1.0, -2.0, 0.5, 500.0, 4.0, -3.0, 0.08, 0.003],
        "x": [2.0, 1.0, 9.0], "w": 0.4, "feat": [120.0, 240.0],
    }  # fmt: skip


def read_ba(path: Path) -> dict[str, Any]:
    """Return the input in a file: sizes, a camera, a point, a weight and a feature, one a line."""
    sizes, camera, point, weight, feature = (line.split() for line in Path(path).read_text().splitlines()[:5])
    n, m, p = (int(size) for size in sizes)
    return {
        "n": n, "m": m, "p": p, "cam": [float(x) for x in camera], "x": [float(x) for x in point],
        "w": float(weight[0]), "feat": [float(x) for x in feature],
    }  # fmt: skip


def ht(points: int, triangles: bool, vertices: int = HAND_VERTICES) -> dict[str, Any]:
    """Return a made-up hand and `points` measured points, on triangles or on vertices."""
    rng = np.random.default_rng(SEED)
    parents = hand_parents()
    relatives = np.tile(np.eye(4), (HAND_BONES, 1, 1))
    relatives[:, :3, :3] = np.linalg.qr(rng.normal(size=(HAND_BONES, 3, 3)))[0]
    relatives[:, :3, 3] = rng.normal(scale=0.05, size=(HAND_BONES, 3))
    absolutes: list[np.ndarray] = []
    for bone, parent in enumerate(parents):
        absolutes.append(relatives[bone] if parent < 0 else absolutes[parent] @ relatives[bone])
    faces = rng.integers(0, vertices, (HAND_TRIANGLES, 3))
    weights = rng.random((vertices, HAND_BONES)) * (rng.random((vertices, HAND_BONES)) < 0.2)
    weights[:, 0] += 0.1
    model = {
        "bone_count": HAND_BONES,
        "bone_names": [f"bone{bone}" for bone in range(HAND_BONES)],
        "parents": parents,
        "base_relatives": relatives,
        "inverse_base_absolutes": np.linalg.inv(np.stack(absolutes)),
        "base_positions": np.concatenate(
            [rng.normal(scale=0.1, size=(vertices, 3)), np.ones((vertices, 1))], axis=1
        ),
        "weights": weights / weights.sum(axis=1, keepdims=True),
        "triangles": faces,
        "is_mirrored": False,
    }
    targets = len(faces) if triangles else vertices
    data = {
        "model": model,
        "correspondences": rng.integers(0, targets, points),
        "points": rng.normal(size=(points, 3)),
    }
    us = rng.dirichlet(np.ones(3), points)[:, :2] if triangles else np.zeros((0, 2))
    return {"theta": rng.normal(scale=0.3, size=HAND_ANGLES), "data": data, "us": us}


def hand_parents() -> list[int]:
    """Return the parents of a hand's bones: five fingers of four bones at the wrist, then the forearm."""
    fingers = [0 if joint == 0 else 4 * finger + joint for finger in range(5) for joint in range(4)]
    return [-1, *fingers, 0]


def read_ht(folder: Path, name: str, triangles: bool) -> dict[str, Any]:
    """Return the hand in ``folder/model`` with the points and the pose in the file `name` of the folder."""
    lines = iter((Path(folder) / name).read_text().splitlines())
    count, angles = (int(x) for x in next(lines).split())
    rows = np.array([next(lines).split() for _ in range(count)], dtype=np.float64)
    us = np.zeros((0, 2))
    if triangles:
        us = np.array([next(lines).split() for _ in range(count)], dtype=np.float64)
    theta = np.array([next(lines) for _ in range(angles)], dtype=np.float64)
    data = {
        "model": read_hand(Path(folder) / "model"),
        "correspondences": rows[:, 0].astype(np.int64),
        "points": rows[:, 1:],
    }
    return {"theta": theta, "data": data, "us": us}


def read_hand(folder: Path) -> dict[str, Any]:
    """Return the model of a hand in a folder with bones.txt, vertices.txt and triangles.txt."""
    bones = [line.split(":") for line in (folder / "bones.txt").read_text().split()]
    matrices = np.array([bone[2:34] for bone in bones], dtype=np.float64).reshape(-1, 2, 4, 4)
    vertices = [line.split(":") for line in (folder / "vertices.txt").read_text().split()]
    weights = np.zeros((len(vertices), len(bones)))
    for row, vertex in zip(weights, vertices, strict=True):
        pairs = vertex[9 : 9 + 2 * int(vertex[8])]
        row[np.array(pairs[::2], dtype=np.int64)] = np.array(pairs[1::2], dtype=np.float64)
    positions = np.array([vertex[:3] for vertex in vertices], dtype=np.float64)
    faces = [line.split(":") for line in (folder / "triangles.txt").read_text().split()]
    return {
        "bone_count": len(bones),
        "bone_names": [bone[0] for bone in bones],
        "parents": [int(bone[1]) for bone in bones],
        "base_relatives": matrices[:, 0],
        "inverse_base_absolutes": matrices[:, 1],
        "base_positions": np.concatenate([positions, np.ones((len(vertices), 1))], axis=1),
        "weights": weights,
        "triangles": np.array([face[:3] for face in faces], dtype=np.int64),
        "is_mirrored": False,
    }
