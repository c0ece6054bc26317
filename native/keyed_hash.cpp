// Almost-universal hashes of rows under secret points: polynomials modulo 2^61 - 1, two at once.
//
// What the symbols of a row are, and why two rows seldom share their hashes, is written where the points are made, in
// randomness/keyed.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace nb = nanobind;

template <typename T>
using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Output = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

constexpr uint64_t prime = (uint64_t{1} << 61) - 1;
constexpr size_t piece = 7;  // bytes of text in one symbol
constexpr uint64_t piece_mask = (uint64_t{1} << 56) - 1;

uint64_t load_little(const uint8_t* bytes, size_t length) {
    uint64_t number = 0;
    for (size_t place = 0; place < length; ++place) number |= static_cast<uint64_t>(bytes[place]) << (8 * place);
    return number;
}

uint64_t load_eight(const uint8_t* bytes) {
    if constexpr (std::endian::native == std::endian::little) {
        uint64_t number;
        std::memcpy(&number, bytes, 8);
        return number;
    }
    return load_little(bytes, 8);
}

// The hashes of rows, column after column: state[2r] and state[2r + 1] are those of row r, below 2^61 - 1, and 1 at the
// start.
class RowHash {
public:
    explicit RowHash(Input<uint64_t> points) {
        if (points.shape(0) != 2) throw std::invalid_argument("two points are needed");
        first = points.data()[0] % prime;
        second = points.data()[1] % prime;
    }

    // A column of 64-bit words; `valid` has a byte for each row, 0 for null, or is empty.
    void absorb_words(Input<uint64_t> words, Input<uint8_t> valid, Output<uint64_t> state) const {
        const size_t rows = words.shape(0);
        check(rows, valid, state);
        const uint64_t* word = words.data();
        const uint8_t* there = valid.shape(0) ? valid.data() : nullptr;
        uint64_t* out = state.data();
        nb::gil_scoped_release release;
        for (size_t row = 0; row < rows; ++row, out += 2) {
            Pair hash{out[0], out[1]};
            if (there && !there[row]) {
                step(hash, 0);
            } else {
                step(hash, 1);
                step(hash, word[row] & 0xffffffff);
                step(hash, word[row] >> 32);
            }
            finish(hash, out);
        }
    }

    // A column of texts: row r is data[offsets[r]] .. data[offsets[r + 1]].
    template <typename Offset>
    void absorb_texts(Input<Offset> offsets, Input<uint8_t> data, Input<uint8_t> valid, Output<uint64_t> state) const {
        if (offsets.shape(0) < 1) throw std::invalid_argument("offsets must end with the length of the data");
        const size_t rows = offsets.shape(0) - 1;
        check(rows, valid, state);
        const Offset* offset = offsets.data();
        const uint8_t* bytes = data.data();
        const uint8_t* there = valid.shape(0) ? valid.data() : nullptr;
        uint64_t* out = state.data();
        if (offset[0] < 0 || static_cast<uint64_t>(offset[rows]) > data.shape(0))
            throw std::invalid_argument("offsets must lie within the data");
        for (size_t row = 0; row < rows; ++row)
            if (offset[row] > offset[row + 1]) throw std::invalid_argument("offsets must be in order");
        nb::gil_scoped_release release;
        for (size_t row = 0; row < rows; ++row, out += 2) {
            Pair hash{out[0], out[1]};
            if (there && !there[row]) {
                step(hash, 0);
            } else {
                const uint8_t* text = bytes + offset[row];
                size_t left = static_cast<size_t>(offset[row + 1] - offset[row]);
                step(hash, left + 1);
                for (; left >= 8; left -= piece, text += piece) step(hash, load_eight(text) & piece_mask);
                if (left) step(hash, load_little(text, left));
            }
            finish(hash, out);
        }
    }

private:
    struct Pair {
        uint64_t first, second;
    };

    uint64_t first, second;

    static void check(size_t rows, const Input<uint8_t>& valid, const Output<uint64_t>& state) {
        if (valid.shape(0) != 0 && valid.shape(0) != rows) throw std::invalid_argument("valid must have every row");
        if (state.shape(0) != 2 * rows) throw std::invalid_argument("two places are needed for each row");
    }

    // Invariant: a hash stays below 2^61 + 4, and is right modulo 2^61 - 1. Symbols are below 2^57.
    void step(Pair& hash, uint64_t symbol) const {
        hash.first = reduced(static_cast<unsigned __int128>(hash.first) * first + symbol);
        hash.second = reduced(static_cast<unsigned __int128>(hash.second) * second + symbol);
    }

    static uint64_t reduced(unsigned __int128 number) {
        const uint64_t sum = (static_cast<uint64_t>(number) & prime) + static_cast<uint64_t>(number >> 61);
        return (sum & prime) + (sum >> 61);
    }

    static void finish(const Pair& hash, uint64_t* out) {
        out[0] = hash.first >= prime ? hash.first - prime : hash.first;
        out[1] = hash.second >= prime ? hash.second - prime : hash.second;
    }
};

}  // namespace

void bind_keyed_hash(nb::module_& module) {
    nb::class_<RowHash>(module, "RowHash")
        .def(nb::init<Input<uint64_t>>(), nb::arg("points"))
        .def("absorb_words", &RowHash::absorb_words, nb::arg("words"), nb::arg("valid"), nb::arg("state"))
        .def("absorb_texts", &RowHash::absorb_texts<int32_t>, nb::arg("offsets"), nb::arg("data"), nb::arg("valid"),
             nb::arg("state"))
        .def("absorb_large_texts", &RowHash::absorb_texts<int64_t>, nb::arg("offsets"), nb::arg("data"),
             nb::arg("valid"), nb::arg("state"));
}
