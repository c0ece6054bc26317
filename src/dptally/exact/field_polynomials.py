"""Polynomials over a prime field: interpolation and evaluation at many points in near-linear time.

Multiplication and division are FLINT's, through python-flint. Trees of products are as in any textbook on computer
algebra: a leaf for each point, and the product of its children at each node.
"""

from __future__ import annotations

from collections.abc import Sequence

import flint

_FEW = 32  # points that are cheaper to take one by one


class PrimeField:
    """The integers modulo a prime, and polynomials over them as lists of coefficients, lowest first.

    That `size` is a prime number is up to the caller.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._polynomials = flint.fmpz_mod_poly_ctx(flint.fmpz_mod_ctx(size))

    def polynomial(self, coefficients: Sequence[int]) -> flint.fmpz_mod_poly:
        """The polynomial with these coefficients, lowest first."""
        return self._polynomials(list(coefficients))

    def coefficients(self, polynomial: flint.fmpz_mod_poly, length: int) -> list[int]:
        """The lowest `length` coefficients, with zeros where the degree is lower."""
        found = [int(coefficient) for coefficient in polynomial.coeffs()[:length]]
        return found + [0] * (length - len(found))

    def evaluate(self, polynomial: flint.fmpz_mod_poly, points: Sequence[int]) -> list[int]:
        """The polynomial's values at the points.

        Few points are taken one by one, each in time linear in the degree. Many are taken in groups of about the
        degree, each in near-linear time.
        """
        if len(points) <= _FEW:
            return [int(polynomial(point)) for point in points]
        group = max(polynomial.length(), _FEW)
        values: list[int] = []
        for start in range(0, len(points), group):
            part = list(points[start : start + group])
            values.extend(int(value) for value in polynomial.multipoint_evaluate(part))
        return values

    def interpolate(
        self, points: Sequence[int], values: Sequence[int]
    ) -> tuple[flint.fmpz_mod_poly, flint.fmpz_mod_poly]:
        """The polynomial of lowest degree with given values at distinct points, and the one that vanishes there.

        With Z(t) = prod (t - x_i), the interpolating polynomial is the sum of w_i Z(t) / (t - x_i) where w_i = y_i /
        Z'(x_i); the sum is formed on the way up the tree of products. Near-linear time. Points are distinct modulo the
        field's size. Returns the interpolating polynomial, of degree below the number of points, and Z.
        """
        one = self._polynomials.one()
        if not points:
            return self._polynomials.zero(), one
        products = [[self._polynomials([-point, 1]) for point in points]]
        while len(products[-1]) > 1:
            products.append([_product(pair) for pair in _pairs(products[-1])])
        vanishing = products[-1][0]
        slopes = vanishing.derivative().multipoint_evaluate(list(points))
        ring = flint.fmpz_mod_ctx(self.size)
        sums = [self._polynomials([ring(value) / slope]) for value, slope in zip(values, slopes, strict=True)]
        for level in products[:-1]:
            sums = [
                pair[0] if len(pair) == 1 else pair[0] * factors[1] + pair[1] * factors[0]
                for pair, factors in zip(_pairs(sums), _pairs(level), strict=True)
            ]
        return sums[0], vanishing


def _pairs(nodes: Sequence[flint.fmpz_mod_poly]) -> list[Sequence[flint.fmpz_mod_poly]]:
    """Children of the nodes one level up; the last node may have one."""
    return [nodes[start : start + 2] for start in range(0, len(nodes), 2)]


def _product(pair: Sequence[flint.fmpz_mod_poly]) -> flint.fmpz_mod_poly:
    return pair[0] if len(pair) == 1 else pair[0] * pair[1]
