// The compiled part of dptally: bulk draws from a certified table, and the choice of rows when contributions
// are bounded. It holds no policy and no randomness of its own: random words come in as buffers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

namespace nb = nanobind;

using Wide = unsigned __int128;
template <typename T>
using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Output = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

Wide load_wide(const uint8_t* bytes) {
    Wide number;
    std::memcpy(&number, bytes, sizeof number);  // little-endian, as the certifier reads it
    return number;
}

// A sorted table of 128-bit thresholds, split so that the search touches 64 bits per step.
struct ShiftTable {
    std::vector<uint64_t> high, low;

    explicit ShiftTable(Input<uint8_t> table) {
        if (table.shape(0) % sizeof(Wide) != 0) throw std::invalid_argument("table must be whole 128-bit numbers");
        const size_t length = table.shape(0) / sizeof(Wide);
        for (size_t row = 0; row < length; ++row) {
            const Wide threshold = load_wide(table.data() + row * sizeof(Wide));
            high.push_back(static_cast<uint64_t>(threshold >> 64));
            low.push_back(static_cast<uint64_t>(threshold));
        }
        high.push_back(UINT64_MAX);  // read, never counted: spares the search a test for the end
    }

    // count[lane] = how many thresholds are at most random[lane]. The steps of the search depend on the length of the
    // table alone, and the lanes are independent, so that the processor overlaps them. Low words matter only where a
    // high word is met exactly: one comparison, and another one with probability 2^-64 for each such row.
    template <size_t lanes>
    void count_at_most(const Wide* random, int64_t* count) const {
        const size_t length = low.size();
        uint64_t wanted[lanes];
        size_t base[lanes];
        for (size_t lane = 0; lane < lanes; ++lane) {
            wanted[lane] = static_cast<uint64_t>(random[lane] >> 64);
            base[lane] = 0;
        }
        for (size_t left = length; left > 1;) {
            const size_t half = left / 2;
            const uint64_t* middle = high.data() + half - 1;
            // A mask, not a branch: the processor could not predict it, and its time would tell.
            for (size_t lane = 0; lane < lanes; ++lane)
                base[lane] += half & -static_cast<size_t>(middle[base[lane]] < wanted[lane]);
            left -= half;
        }
        for (size_t lane = 0; lane < lanes; ++lane) {
            size_t row = base[lane] + static_cast<size_t>(high[base[lane]] < wanted[lane]);
            if (high[row] == wanted[lane]) [[unlikely]]
                while (row < length && high[row] == wanted[lane] && low[row] <= static_cast<uint64_t>(random[lane]))
                    ++row;
            count[lane] = static_cast<int64_t>(row);
        }
    }

    // reported[k] = max(0, frequencies[k] - D_k), D_k the number of thresholds at most the k-th 128-bit random number.
    void draw(Input<int64_t> frequencies, Input<uint64_t> words, Output<int64_t> reported) const {
        constexpr size_t lanes = 8;
        const size_t count = frequencies.shape(0);
        if (words.shape(0) != 2 * count) throw std::invalid_argument("two random words are needed for each frequency");
        if (reported.shape(0) != count) throw std::invalid_argument("one place is needed for each frequency");
        const int64_t* frequency = frequencies.data();
        const uint8_t* random = reinterpret_cast<const uint8_t*>(words.data());
        int64_t* out = reported.data();
        nb::gil_scoped_release release;
        for (size_t first = 0; first < count; first += lanes) {
            const size_t used = std::min(lanes, count - first);
            Wide numbers[lanes] = {};
            int64_t drops[lanes];
            std::memcpy(numbers, random + first * sizeof(Wide), used * sizeof(Wide));
            count_at_most<lanes>(numbers, drops);
            for (size_t lane = 0; lane < used; ++lane)
                out[first + lane] = std::max<int64_t>(0, frequency[first + lane] - drops[lane]);
        }
    }
};

// Rows come in runs (run k is starts[k] .. starts[k+1]); keep[row] = 1 for the `limit` smallest tags of each run.
void choose_smallest_tags(Input<int64_t> starts, Input<uint64_t> tags, int64_t limit, Output<uint8_t> keep) {
    const size_t rows = tags.shape(0);
    if (limit < 1) throw std::invalid_argument("limit must be at least 1");
    if (keep.shape(0) != rows) throw std::invalid_argument("one place is needed for each row");
    if (starts.shape(0) < 1) throw std::invalid_argument("starts must end with the number of rows");
    const size_t runs = starts.shape(0) - 1;
    const int64_t* start = starts.data();
    const uint64_t* tag = tags.data();
    uint8_t* out = keep.data();
    if (start[0] != 0 || start[runs] != static_cast<int64_t>(rows))
        throw std::invalid_argument("runs must cover all rows");
    for (size_t run = 0; run < runs; ++run)
        if (start[run] > start[run + 1]) throw std::invalid_argument("runs must be in order");
    nb::gil_scoped_release release;
    std::vector<std::pair<uint64_t, int64_t>> members;
    for (size_t run = 0; run < runs; ++run) {
        const int64_t first = start[run], last = start[run + 1];
        if (last - first <= limit) {
            std::fill(out + first, out + last, uint8_t{1});
            continue;
        }
        members.clear();
        for (int64_t row = first; row < last; ++row) members.emplace_back(tag[row], row);
        std::nth_element(members.begin(), members.begin() + limit, members.end());
        std::fill(out + first, out + last, uint8_t{0});
        for (int64_t place = 0; place < limit; ++place) out[members[place].second] = 1;
    }
}

}  // namespace

NB_MODULE(_core, module) {
    module.doc() = "Compiled loops of dptally; see native/core.cpp.";
    nb::class_<ShiftTable>(module, "ShiftTable")
        .def(nb::init<Input<uint8_t>>(), nb::arg("table"))
        .def("draw", &ShiftTable::draw, nb::arg("frequencies"), nb::arg("words"), nb::arg("reported"));
    module.def("choose_smallest_tags", &choose_smallest_tags, nb::arg("starts"), nb::arg("tags"), nb::arg("limit"),
               nb::arg("keep"));
}
