// The inner loop of the verifier of rounds, dptally/verifiers/key_rounds.py: upper ends of numbers, rounded outward.
//
// Every number here is a sum of products of numbers that are not negative, so no operation cancels anything and each of
// the at most nine operations of a sum has a relative error of at most 2^-53. Multiplying the result by 1 + 2^-48
// therefore gives an upper bound of the exact sum, by whatever order or fused operation it was computed; nothing is
// small enough to underflow, because values are kept at or above 2^-900. No option that relaxes IEEE 754 may be used.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "wide_loops.hpp"

static_assert(std::numeric_limits<double>::is_iec559, "the verifier needs IEEE 754 arithmetic");
#ifdef __FAST_MATH__
#error "the verifier must not be compiled with relaxed floating point"
#endif

namespace nb = nanobind;

namespace {

const double OUTWARD = 1.0 + 0x1p-48;

DPTALLY_WIDE void larger(double* found, const double* left, const double* right, const double* shares, int64_t points) {
    const double sure = shares[0], a = shares[1], b = shares[2], c = shares[3], d = shares[4];
    for (int64_t at = 0; at < points; ++at) {
        double sum = (sure + a * left[at] + b * left[at + 1] + c * right[at] + d * right[at + 1]) * OUTWARD;
        found[at] = sum > found[at] ? sum : found[at];
    }
}

// values[g] bounds a function at grid point g; each row of shares is (mass that counts whole, two shares of the first
// outcome, two of the second), each row of places where the two outcomes lead, in points. Above the grid the function is
// at most its last value. Below it, it is at most on the line from 1 at z = 0 to its first value, since it is convex:
// fall[j] is a lower bound of rho^-j, and the three operations of 1 - (1 - v) fall err by less than 2^-50.
void outward_steps(nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> values,
                   nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu> shares,
                   nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> places,
                   nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> fall, int64_t steps) {
    const int64_t points = values.shape(0), rows = shares.shape(0);
    if (static_cast<int64_t>(fall.shape(0)) != points + 1) throw std::invalid_argument("fall has one place more");
    if (shares.shape(1) != 5 || places.shape(1) != 2 || static_cast<int64_t>(places.shape(0)) != rows)
        throw std::invalid_argument("rows have five shares and two places");
    for (int64_t row = 0; row < 2 * rows; ++row)
        if (places.data()[row] < -points || places.data()[row] > points - 2)
            throw std::invalid_argument("a place is outside of the grid");
    std::vector<double> around(3 * points);
    for (int64_t step = 0; step < steps; ++step) {
        for (int64_t at = 0; at < points; ++at)
            around[at] = std::min(1.0, 1 - (1 - values.data()[0]) * fall.data()[points - at] + 0x1p-50);
        for (int64_t at = 0; at < points; ++at) around[points + at] = std::max(values.data()[at], 0x1p-900);
        std::fill_n(around.data() + 2 * points, points, around[2 * points - 1]);
        for (int64_t row = 0; row < rows; ++row)
            larger(values.data(), around.data() + points + places.data()[2 * row],
                   around.data() + points + places.data()[2 * row + 1], shares.data() + 5 * row, points);
        for (int64_t at = 0; at < points; ++at) values.data()[at] = std::min(values.data()[at], 1.0);
    }
}

}  // namespace

void bind_outward_steps(nb::module_& module) {
    module.def("outward_steps", &outward_steps, nb::arg("values"), nb::arg("shares"), nb::arg("places"),
               nb::arg("fall"), nb::arg("steps"));
}
