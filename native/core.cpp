// The compiled part of dptally: bulk draws from a certified table, and the choice of rows when contributions
// are bounded, and their sums. It holds no policy and no randomness of its own: random words come in as buffers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace nb = nanobind;

void bind_keyed_hash(nb::module_& module);        // keyed_hash.cpp
void bind_misra_gries(nb::module_& module);       // misra_gries.cpp
void bind_outward_steps(nb::module_& module);     // outward_steps.cpp
void bind_reporting_search(nb::module_& module);  // reporting_search.cpp

template <typename T>
using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Output = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

constexpr size_t word = sizeof(uint64_t);

uint64_t load_word(const uint8_t* bytes) {
    uint64_t number = 0;
    for (size_t place = 0; place < word; ++place) number |= static_cast<uint64_t>(bytes[place]) << (8 * place);
    return number;
}

// A sorted table of 128-bit thresholds, split so that the search touches 64 bits per step.
class ShiftTable {
public:
    // The table's entries are little-endian 128-bit integers, as the certifier reads them.
    explicit ShiftTable(Input<uint8_t> table) {
        if (table.shape(0) % (2 * word) != 0) throw std::invalid_argument("table must be whole 128-bit numbers");
        for (size_t at = 0; at < table.shape(0); at += 2 * word) {
            low.push_back(load_word(table.data() + at));
            high.push_back(load_word(table.data() + at + word));
        }
        high.push_back(UINT64_MAX);  // read, never counted: spares the search a test for the end
    }

    // reported[k] = max(0, frequencies[k] - D_k), D_k the number of thresholds at most the k-th 128-bit random number,
    // whose low word is words[2k] and whose high word is words[2k+1].
    void draw(Input<int64_t> frequencies, Input<uint64_t> words, Output<int64_t> reported) const {
        constexpr size_t lanes = 8;
        const size_t count = frequencies.shape(0);
        if (words.shape(0) != 2 * count) throw std::invalid_argument("two random words are needed for each frequency");
        if (reported.shape(0) != count) throw std::invalid_argument("one place is needed for each frequency");
        const int64_t* frequency = frequencies.data();
        const uint64_t* random = words.data();
        int64_t* out = reported.data();
        nb::gil_scoped_release release;
        size_t key = 0;
        for (; key + lanes <= count; key += lanes) draw_lanes<lanes>(frequency + key, random + 2 * key, out + key);
        for (; key < count; ++key) draw_lanes<1>(frequency + key, random + 2 * key, out + key);
    }

private:
    std::vector<uint64_t> high, low;

    // The steps of the search depend on the length of the table alone, and the lanes are independent, so that the
    // processor overlaps them. Low words matter only where a high word is met exactly, with probability 2^-64 per row.
    template <size_t lanes>
    void draw_lanes(const int64_t* frequency, const uint64_t* random, int64_t* out) const {
        const size_t length = low.size();
        size_t base[lanes] = {};
        for (size_t left = length; left > 1;) {
            const size_t half = left / 2;
            const uint64_t* middle = high.data() + half - 1;
            // A mask, not a branch: the processor could not predict it, and its time would tell.
            for (size_t lane = 0; lane < lanes; ++lane)
                base[lane] += half & -static_cast<size_t>(middle[base[lane]] < random[2 * lane + 1]);
            left -= half;
        }
        for (size_t lane = 0; lane < lanes; ++lane) {
            const uint64_t wanted = random[2 * lane + 1];
            size_t row = base[lane] + static_cast<size_t>(high[base[lane]] < wanted);
            if (high[row] == wanted) [[unlikely]]
                while (row < length && high[row] == wanted && low[row] <= random[2 * lane]) ++row;
            out[lane] = std::max<int64_t>(0, frequency[lane] - static_cast<int64_t>(row));
        }
    }
};

// Tails of a law with values, for one frequency after another: G(x) is the mass (in units of 2^-127) of reporting a value
// above x. Columns x do not influence each other:
//     G <- min(reported, floor(growth G) + delta, floor(shrink G) + lift),
// and a new frequency adds `sub_tokens` columns at the top. What the numbers mean, and why rounding down is safe, is
// written where they are made, in observation_models/sampled_rows.py.
class TailSweep {
public:
    // numbers: growth, shrink and delta, each as low and high word. growth stands for growth / 2^growth_shift, which is at
    // least 1, and shrink for shrink / 2^shrink_shift, which is at most 1.
    TailSweep(Input<uint64_t> numbers, int growth_shift, int shrink_shift, int64_t sub_tokens)
        : growth_shift(growth_shift), shrink_shift(shrink_shift), sub_tokens(sub_tokens) {
        if (numbers.shape(0) != 6) throw std::invalid_argument("growth, shrink and delta are needed");
        if (growth_shift < 1 || growth_shift > 127 || shrink_shift < 128 || shrink_shift > 255 || sub_tokens < 1)
            throw std::invalid_argument("a shift or sub_tokens is out of range");
        growth = wide(numbers.data());
        shrink = wide(numbers.data() + 2);
        delta = wide(numbers.data() + 4);
    }

    // Go on by one frequency for every four words: the mass with which it is reported, and lift.
    void advance(Input<uint64_t> rows) {
        if (rows.shape(0) % 4 != 0) throw std::invalid_argument("four words are needed for each frequency");
        nb::gil_scoped_release release;
        for (size_t at = 0; at < rows.shape(0); at += 4) advance_one(wide(rows.data() + at), wide(rows.data() + at + 2));
    }

    int64_t full() const { return full_columns; }

    // Twice each tail, smallest first, then twice the reported mass unless that is 2^128: thresholds for ShiftTable.
    nb::bytes thresholds() const {
        std::vector<uint64_t> words;
        for (auto tail = tails.rbegin(); tail != tails.rend(); ++tail) push(words, *tail);
        if (last_reported >> 127 == 0) push(words, last_reported);
        return nb::bytes(reinterpret_cast<const char*>(words.data()), words.size() * word);
    }

private:
    using Wide = unsigned __int128;

    Wide growth, shrink, delta;
    int growth_shift, shrink_shift;
    int64_t sub_tokens;
    std::vector<Wide> tails;  // of columns that are not full, in the order of their birth, so never increasing
    int64_t full_columns = 0;
    Wide last_reported = 0;

    void advance_one(Wide reported, Wide lift) {
        for (Wide& tail : tails) tail = std::min({reported, grown(tail), shrunk(tail) + lift});
        const Wide born = std::min(reported, delta);
        for (int64_t part = sub_tokens; part > 0; --part)
            tails.push_back(born / sub_tokens * part + born % sub_tokens * part / sub_tokens);
        // A column that has reached `reported` stays there; such columns are counted, not kept.
        size_t full = 0;
        while (full < tails.size() && tails[full] == reported) ++full;
        tails.erase(tails.begin(), tails.begin() + static_cast<std::ptrdiff_t>(full));
        full_columns += static_cast<int64_t>(full);
        last_reported = reported;
    }

    static Wide wide(const uint64_t* words) { return (static_cast<Wide>(words[1]) << 64) | words[0]; }

    static void push(std::vector<uint64_t>& words, Wide number) {
        words.push_back(static_cast<uint64_t>(number << 1));
        words.push_back(static_cast<uint64_t>(number >> 63));
    }

    // The 256-bit product of two numbers, as high and low half.
    static std::pair<Wide, Wide> product(Wide first, Wide second) {
        const uint64_t a0 = static_cast<uint64_t>(first), a1 = static_cast<uint64_t>(first >> 64);
        const uint64_t b0 = static_cast<uint64_t>(second), b1 = static_cast<uint64_t>(second >> 64);
        const Wide low = static_cast<Wide>(a0) * b0, left = static_cast<Wide>(a1) * b0;
        const Wide right = static_cast<Wide>(a0) * b1, high = static_cast<Wide>(a1) * b1;
        const Wide middle = (low >> 64) + static_cast<uint64_t>(left) + static_cast<uint64_t>(right);
        return {high + (left >> 64) + (right >> 64) + (middle >> 64), (middle << 64) | static_cast<uint64_t>(low)};
    }

    // floor(growth * tail) + delta, or the largest number if that does not fit.
    Wide grown(Wide tail) const {
        const auto [high, low] = product(tail, growth);
        if (high >> (growth_shift - 1)) return ~Wide{0};
        return (high << (128 - growth_shift)) + (low >> growth_shift) + delta;
    }

    Wide shrunk(Wide tail) const { return product(tail, shrink).first >> (shrink_shift - 128); }
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

// Units come one after the other with their keys, which are places in `sums`; each key of a unit of n adds weights[n].
void add_weights(Input<int64_t> sizes, Input<int32_t> keys, Input<int64_t> weights, Output<int64_t> sums) {
    const size_t units = sizes.shape(0), rows = keys.shape(0);
    const int64_t places = static_cast<int64_t>(sums.shape(0)), known = static_cast<int64_t>(weights.shape(0));
    const int64_t *size = sizes.data(), *weight = weights.data();
    const int32_t* key = keys.data();
    int64_t* sum = sums.data();
    nb::gil_scoped_release release;
    size_t left = rows;
    for (size_t unit = 0; unit < units; ++unit) {
        if (size[unit] < 0 || size[unit] >= known) throw std::invalid_argument("a unit of that size has no weight");
        if (static_cast<size_t>(size[unit]) > left) throw std::invalid_argument("units must have all keys");
        left -= static_cast<size_t>(size[unit]);
    }
    if (left) throw std::invalid_argument("units must have all keys");
    if (!std::all_of(key, key + rows, [=](int32_t place) { return place >= 0 && place < places; }))
        throw std::invalid_argument("a key has no place");
    for (size_t unit = 0; unit < units; ++unit)
        for (const int32_t* end = key + size[unit]; key < end; ++key) sum[*key] += weight[size[unit]];
}

}  // namespace

NB_MODULE(_core, module) {
    nb::set_leak_warnings(false);  // an interpreter that ends with objects still held would print them
    module.doc() = "Compiled loops of dptally; see native/core.cpp.";
    nb::class_<ShiftTable>(module, "ShiftTable")
        .def(nb::init<Input<uint8_t>>(), nb::arg("table"))
        .def("draw", &ShiftTable::draw, nb::arg("frequencies"), nb::arg("words"), nb::arg("reported"));
    nb::class_<TailSweep>(module, "TailSweep")
        .def(nb::init<Input<uint64_t>, int, int, int64_t>(), nb::arg("numbers"), nb::arg("growth_shift"),
             nb::arg("shrink_shift"), nb::arg("sub_tokens"))
        .def("advance", &TailSweep::advance, nb::arg("rows"))
        .def("full", &TailSweep::full)
        .def("thresholds", &TailSweep::thresholds);
    module.def("choose_smallest_tags", &choose_smallest_tags, nb::arg("starts"), nb::arg("tags"), nb::arg("limit"),
               nb::arg("keep"));
    module.def("add_weights", &add_weights, nb::arg("sizes"), nb::arg("keys"), nb::arg("weights"), nb::arg("sums"));
    bind_keyed_hash(module);
    bind_misra_gries(module);
    bind_outward_steps(module);
    bind_reporting_search(module);
}
