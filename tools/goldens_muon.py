#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/goldens/muon.json: three steps of Muon on small matrices, computed by this file in float64.

A developer's tool, like goldens.py, but it needs nothing besides Python:

    python3 tools/goldens_muon.py

The arithmetic follows torch.optim.Muon (Nesterov momentum 0.95, five iterations, adjust_lr_fn "original") without rounding to
bfloat16, and shares no code with distill/trainer/torch_muon.cpp: it never transposes, but multiplies on the side that is smaller.
Weights and gradients are multiples of 1/64, which float32 holds exactly.

{"learning_rate", "keep", "cases": [{"rows", "columns", "weight": [rows · columns], "gradients": [3 of them],
                                     "weights": [after each step], "momentum": [after the last]}]}
"""
import json
import math
import pathlib
import random

LEARNING_RATE, KEEP, MOMENTUM, STEPS = 0.02, 0.999, 0.95, 3
LINEAR, CUBIC, QUINTIC = 3.4445, -4.7750, 2.0315
SHAPES = [(8, 8), (12, 5), (5, 12), (1, 7), (7, 1)]


def multiply(a, b):
    columns = list(zip(*b))
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def transposed(a):
    return [list(row) for row in zip(*a)]


def combined(*terms):
    """Σ factor · matrix over (factor, matrix)."""
    rows, columns = len(terms[0][1]), len(terms[0][1][0])
    return [[math.fsum(factor * matrix[i][j] for factor, matrix in terms) for j in range(columns)] for i in range(rows)]


def orthogonalized(update):
    norm = math.sqrt(math.fsum(x * x for row in update for x in row)) + 1e-7
    x = combined((1 / norm, update))
    for _ in range(5):
        if len(x) <= len(x[0]):
            gram = multiply(x, transposed(x))
            product = multiply(combined((CUBIC, gram), (QUINTIC, multiply(gram, gram))), x)
        else:
            gram = multiply(transposed(x), x)
            product = multiply(x, combined((CUBIC, gram), (QUINTIC, multiply(gram, gram))))
        x = combined((LINEAR, x), (1, product))
    return x


def step(weight, momentum, gradient):
    momentum = combined((MOMENTUM, momentum), (1 - MOMENTUM, gradient))
    update = orthogonalized(combined((1 - MOMENTUM, gradient), (MOMENTUM, momentum)))
    scale = math.sqrt(max(1, len(weight) / len(weight[0])))
    return combined((KEEP, weight), (-LEARNING_RATE * scale, update)), momentum


def case(rows, columns, draw):
    def matrix():
        return [[draw.randint(-64, 64) / 64 for _ in range(columns)] for _ in range(rows)]

    def flat(a):
        return [float(f"{x:.9g}") for row in a for x in row]
    weight, momentum = matrix(), [[0.0] * columns for _ in range(rows)]
    gradients = [matrix() for _ in range(STEPS)]
    result = {"rows": rows, "columns": columns, "weight": flat(weight), "gradients": [flat(g) for g in gradients], "weights": []}
    for gradient in gradients:
        weight, momentum = step(weight, momentum, gradient)
        result["weights"].append(flat(weight))
    return {**result, "momentum": flat(momentum)}


def main():
    draw = random.Random(15)
    content = {"learning_rate": LEARNING_RATE, "keep": KEEP, "cases": [case(*shape, draw) for shape in SHAPES]}
    path = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "muon.json"
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
