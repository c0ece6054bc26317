"""Interpolation and evaluation over prime fields, against the definitions."""

from __future__ import annotations

import random

import pytest

from dptally.exact.field_polynomials import PrimeField


def value_at(coefficients: list[int], point: int, size: int) -> int:
    """The definition."""
    return sum(coefficient * pow(point, power, size) for power, coefficient in enumerate(coefficients)) % size


def lagrange(points: list[int], values: list[int], size: int) -> list[int]:
    """The sum of y_i prod_{j != i} (t - x_j) / (x_i - x_j), term by term."""
    total = [0] * len(points)
    for i, (point, value) in enumerate(zip(points, values, strict=True)):
        term, divisor = [value], 1
        for j, other in enumerate(points):
            if j != i:
                term = [(high - other * low) % size for low, high in zip([*term, 0], [0, *term], strict=True)]
                divisor = divisor * (point - other) % size
        inverse = pow(divisor, -1, size)
        total = [(here + there * inverse) % size for here, there in zip(total, term, strict=True)]
    return total


@pytest.mark.parametrize("exponent", [5, 61, 127, 521])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8, 17, 31])
def test_interpolation_is_lagrange(exponent: int, count: int) -> None:
    """The interpolating polynomial is the textbook's, and the other one vanishes at exactly the points."""
    size = 2**exponent - 1
    generator = random.Random(count)  # noqa: S311 - any numbers do
    points = generator.sample(range(min(size, 10**6)), count)
    values = [generator.randrange(size) for _ in points]
    field = PrimeField(size)
    interpolating, vanishing = field.interpolate(points, values)
    assert field.coefficients(interpolating, count) == lagrange(points, values, size)
    assert vanishing.degree() == count and vanishing.leading_coefficient() == 1
    assert field.evaluate(vanishing, points) == [0] * count


@pytest.mark.parametrize("exponent", [61, 127])
@pytest.mark.parametrize(("length", "count"), [(1, 40), (3, 500), (200, 33), (200, 32), (200, 1000), (50, 0)])
def test_many_points_at_once(exponent: int, length: int, count: int) -> None:
    """Evaluation in groups gives what evaluation by definition gives, for few and many points, repeated ones too."""
    size = 2**exponent - 1
    generator = random.Random(length)  # noqa: S311 - any numbers do
    coefficients = [generator.randrange(size) for _ in range(length)]
    points = [generator.randrange(size) for _ in range(count)] + [0, size - 1][: min(count, 2)]
    field = PrimeField(size)
    found = field.evaluate(field.polynomial(coefficients), points)
    assert found == [value_at(coefficients, point, size) for point in points]


def test_the_zero_polynomial() -> None:
    """Zero has no coefficients of its own, and is zero everywhere."""
    field = PrimeField(2**61 - 1)
    zero = field.polynomial([0, 0, 0])
    assert field.coefficients(zero, 3) == [0, 0, 0]
    assert field.evaluate(zero, list(range(100))) == [0] * 100
