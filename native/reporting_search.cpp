// Search for laws that report keys of units with many keys: floating point that proposes and never guarantees. What it
// proposes is certified by other code, native/outward_steps.cpp among it, which shares nothing with this file.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "wide_loops.hpp"

namespace nb = nanobind;

namespace {

template <typename T>
using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

double expit(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

// ln of sum p^a q^(1-a) over the two outcomes, for chances given by their log-odds.
double renyi(double x, double y, double order) {
    double log_p = -std::log1p(std::exp(-x)), log_not_p = -std::log1p(std::exp(x));
    double log_q = -std::log1p(std::exp(-y)), log_not_q = -std::log1p(std::exp(y));
    double first = order * log_p + (1 - order) * log_q, second = order * log_not_p + (1 - order) * log_not_q;
    double top = std::max(first, second);
    return top + std::log1p(std::exp(std::min(first, second) - top));
}

// The largest log-odds that may follow y, both Renyi divergences within the limit.
double largest_step(double y, double limit, double order, double guess) {
    auto excess = [&](double x) { return std::max(renyi(x, y, order), renyi(y, x, order)) - limit; };
    double low = y, high = y + std::max(guess, 1e-6);
    while (excess(high) < 0 && high < y + 60) {
        low = high;
        high = y + 1.5 * (high - y);
    }
    double at_low = excess(low), at_high = excess(high);
    for (int turn = 0; turn < 60 && high - low > 1e-10 * (1 + std::abs(low)); ++turn) {
        double middle = turn % 4 == 3 ? 0.5 * (low + high) : low - at_low * (high - low) / (at_high - at_low);
        if (!(middle > low && middle < high)) middle = 0.5 * (low + high);
        double found = excess(middle);
        if (found <= 0) {
            low = middle;
            at_low = found;
        } else {
            high = middle;
            at_high = found;
        }
    }
    return low;
}

// Log-odds for sums of weights 0, 1, 2, ...: the largest for which a step of each weight keeps its limit; the last is
// infinite, or at least `stop`.
std::vector<double> propose_reporting(Input<int64_t> weights, Input<double> limits, Input<double> starts, double order,
                                      int64_t least, int64_t most, double stop) {
    std::vector<double> odds(least, -INFINITY);
    std::vector<double> guesses(weights.shape(0), 0.5);
    if (weights.shape(0) == 0 || weights.data()[0] != least) throw std::invalid_argument("weights begin with the least");
    for (int64_t sum = least; sum <= most; ++sum) {
        double best = INFINITY;
        for (size_t each = 0; each < weights.shape(0); ++each) {
            int64_t before = sum - weights.data()[each];
            double start = starts.data()[each];
            if (before <= 0) {  // a key of one unit alone, which a smaller sum must not exceed either
                best = std::min(best, std::log(start) - std::log1p(-start));
                continue;
            }
            double low = odds[std::max(before, least)];
            if (expit(-low) <= start) continue;  // may be certain from here
            double found = largest_step(low, limits.data()[each] * (order - 1), order, guesses[each]);
            guesses[each] = std::max(1e-6, 1.05 * (found - low));
            best = std::min(best, found);
        }
        odds.push_back(best);
        if (best >= stop) break;
    }
    return odds;
}

struct Row {
    double sure, first_low, first_high, second_low, second_high;
    int64_t first, second;
};

Row row_of(double p, double not_p, double q, double not_q, double step, int64_t points) {
    Row row{0, 0, 0, 0, 0, 0, 0};
    auto place = [&](double mass, double other, double& low, double& high, int64_t& at) {
        if (mass <= 0) return;
        if (other <= 0) {
            row.sure += mass;
            return;
        }
        double shift = std::log(other / mass) / step;
        at = static_cast<int64_t>(std::floor(shift));
        double share = std::expm1((shift - at) * step) / std::expm1(step);
        if (at < -points) row.sure += mass;
        else if (at > points - 2) at = points - 2, low = mass;
        else low = mass * (1 - share), high = mass * share;
        if (at < -points) at = 0;
    };
    place(p, q, row.first_low, row.first_high, row.first);
    place(not_p, not_q, row.second_low, row.second_high, row.second);
    return row;
}

DPTALLY_WIDE void raise(const double* first, const double* second, const Row& row, double* found, int64_t points) {
    const double sure = row.sure, a = row.first_low, b = row.first_high, c = row.second_low, d = row.second_high;
    for (int64_t at = 0; at < points; ++at) {
        double value = sure + a * first[at] + b * first[at + 1] + c * second[at] + d * second[at + 1];
        found[at] = value > found[at] ? value : found[at];
    }
}

// The largest expected value after `turns` keys of this weight, whatever their sums are, in both directions.
void worst_turns(nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> values, Input<double> odds,
                 int64_t weight, int64_t least, double step, int64_t turns) {
    int64_t points = values.shape(0), last = odds.shape(0) - 1;
    std::vector<Row> rows;
    // Of a long table some rows stand for those near them: neighbouring ones are alike, and this is a proposal.
    int64_t stride = 1 + last / 500;
    for (int64_t sum = 0; sum <= last; ++sum) {
        if (sum > 0 && sum < least) continue;
        if (sum % stride && sum > 2 * least + 32 && sum < last - weight - 32) continue;
        double low = odds.data()[sum], high = odds.data()[std::min(last, sum + weight)];
        if (low >= high) continue;
        double p = expit(high), not_p = expit(-high), q = expit(low), not_q = expit(-low);
        rows.push_back(row_of(p, not_p, q, not_q, step, points));
        rows.push_back(row_of(q, not_q, p, not_p, step, points));
    }
    std::vector<double> padded(3 * points), found(points), fall(points + 1);
    for (int64_t at = 0; at <= points; ++at) fall[at] = std::exp(-step * at);
    double* now = values.data();
    for (int64_t turn = 0; turn < turns; ++turn) {
        for (int64_t at = 0; at < points; ++at) padded[at] = 1 - (1 - now[0]) * fall[points - at];
        std::copy(now, now + points, padded.begin() + points);
        std::fill(padded.begin() + 2 * points, padded.end(), now[points - 1]);
        std::copy(now, now + points, found.begin());
        const double* middle = padded.data() + points;
        for (const Row& row : rows) raise(middle + row.first, middle + row.second, row, found.data(), points);
        for (int64_t at = 0; at < points; ++at) now[at] = std::min(1.0, found[at]);
    }
}

}  // namespace

void bind_reporting_search(nb::module_& module) {
    module.def("propose_reporting", &propose_reporting, nb::arg("weights"), nb::arg("limits"), nb::arg("starts"),
               nb::arg("order"), nb::arg("least"), nb::arg("most"), nb::arg("stop"));
    module.def("worst_turns", &worst_turns, nb::arg("values"), nb::arg("odds"), nb::arg("weight"), nb::arg("least"),
               nb::arg("step"), nb::arg("turns"));
}
