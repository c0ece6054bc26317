// Bindings of the Misra-Gries sketches: the layouts that keys come in, and the classes Python sees.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "misra_gries.hpp"

namespace nb = nanobind;

namespace {

using sketches::IntegerKeys;
using sketches::Seed;
using sketches::Sketch;
using sketches::TextKeys;

template <typename T>
using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
nb::bytes bytes_of(const std::vector<T>& values) {
    return nb::bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// ------------------------------------------------------------------------------------------------ where keys come from

struct Integers {
    using Keys = IntegerKeys;
    const int64_t* values;
    size_t count;

    explicit Integers(const Input<int64_t>& values) : values(values.data()), count(values.shape(0)) {}
    size_t size() const { return count; }
    int64_t view(size_t row) const { return values[row]; }
};

// Arrow's string and binary layout, with 32- or 64-bit offsets.
template <typename Offset>
struct Strings {
    using Keys = TextKeys;
    const Offset* offsets;
    const uint8_t* data;
    size_t count, bytes;

    Strings(const Input<Offset>& offsets, const Input<uint8_t>& data)
        : offsets(offsets.data()), data(data.data()), count(offsets.shape(0) - 1), bytes(data.shape(0)) {
        if (offsets.shape(0) == 0) throw std::invalid_argument("offsets must hold one number more than there are keys");
    }
    size_t size() const { return count; }
    TextKeys::View view(size_t row) const {
        const uint64_t start = static_cast<uint64_t>(offsets[row]), end = static_cast<uint64_t>(offsets[row + 1]);
        if (start > end || end > bytes) [[unlikely]]
            throw std::invalid_argument("offsets must rise and stay within the data");
        return TextKeys::view(data + start, end - start, data + bytes);
    }
};

// Arrow's string_view and binary_view layout.
struct StringViews {
    using Keys = TextKeys;
    const uint8_t* views;
    size_t count;
    std::vector<std::pair<const uint8_t*, size_t>> buffers;

    StringViews(const Input<uint8_t>& views, const nb::list& data) : views(views.data()), count(views.shape(0) / 16) {
        for (nb::handle buffer : data) {
            const auto bytes = nb::cast<Input<uint8_t>>(buffer);
            buffers.emplace_back(bytes.data(), bytes.shape(0));
        }
    }
    size_t size() const { return count; }
    TextKeys::View view(size_t row) const {
        const uint8_t* at = views + 16 * row;
        int32_t number[4];
        std::memcpy(number, at, 16);
        if (number[0] >= 0 && number[0] <= 12)
            return TextKeys::view(at + 4, static_cast<size_t>(number[0]), views + 16 * count);
        const size_t buffer = static_cast<uint32_t>(number[2]), start = static_cast<uint32_t>(number[3]);
        if (number[0] < 0 || buffer >= buffers.size() ||
            start + static_cast<size_t>(number[0]) > buffers[buffer].second)
            throw std::invalid_argument("views must stay within their buffers");
        const auto [data, bytes] = buffers[buffer];
        return TextKeys::view(data + start, static_cast<size_t>(number[0]), data + bytes);
    }
};

// ------------------------------------------------------------------------------------------------ for Python

// A sketch for several threads. Whoever works on it holds its lock, and nobody asks for Python's while holding it.
template <typename Keys>
struct Shared : Sketch<Keys> {
    using Sketch<Keys>::Sketch;
    std::mutex busy;

    template <typename Visit>
    void each_in_order(const Visit& visit) {
        nb::gil_scoped_release release;
        const std::scoped_lock lock(busy);
        for (const uint32_t place : this->in_order()) visit(this->entry(place));
    }
};

template <typename Keys, typename Source>
void update_units(Shared<Keys>& sketch, const Source& rows, const Input<int64_t>& starts, const Input<uint64_t>& words,
                  uint64_t limit) {
    if (starts.shape(0) < 1 || limit < 1) throw std::invalid_argument("starts must end with the number of rows");
    const size_t units = starts.shape(0) - 1;
    const int64_t* start = starts.data();
    if (start[0] != 0 || start[units] != static_cast<int64_t>(rows.size()))
        throw std::invalid_argument("units must cover all rows");
    uint64_t needed = 0;
    for (size_t unit = 0; unit < units; ++unit) {
        if (start[unit] > start[unit + 1]) throw std::invalid_argument("units must be in order");
        const uint64_t count = static_cast<uint64_t>(start[unit + 1] - start[unit]);
        if (count > limit) needed += count;
    }
    if (words.shape(0) != needed) throw std::invalid_argument("each row of a unit above the limit needs a random word");
    nb::gil_scoped_release release;
    const std::scoped_lock lock(sketch.busy);
    sketch.update_units(rows, start, units, words.data(), limit);
}

// One set of methods for each layout that keys come in; `Inputs` are the buffers of the layout.
template <typename Keys, typename Source, typename... Inputs>
void bind_source(nb::class_<Shared<Keys>>& sketch, const std::string& layout) {
    sketch.def(("update_" + layout).c_str(), [](Shared<Keys>& self, Inputs... inputs) {
        const Source rows(inputs...);
        nb::gil_scoped_release release;
        const std::scoped_lock lock(self.busy);
        self.update(rows);
    });
    sketch.def(("update_units_" + layout).c_str(),
               [](Shared<Keys>& self, Inputs... inputs, Input<int64_t> starts, Input<uint64_t> words, uint64_t limit) {
                   update_units(self, Source(inputs...), starts, words, limit);
               });
    sketch.def(("hash_" + layout).c_str(), [](const Shared<Keys>& self, Inputs... inputs) {
        const Source rows(inputs...);
        nb::gil_scoped_release release;
        return self.hash_only(rows);
    });
}

template <typename Keys>
nb::class_<Shared<Keys>> bind_sketch(nb::module_& module, const char* name) {
    return nb::class_<Shared<Keys>>(module, name)
        .def("__init__", [](Shared<Keys>* self, uint64_t capacity, Input<uint64_t> seed) {
            if (seed.shape(0) != 4) throw std::invalid_argument("four random words are needed");
            const uint64_t* word = seed.data();
            new (self) Shared<Keys>(capacity, Seed{{word[0], word[1], word[2], word[3]}});
        }, nb::arg("capacity"), nb::arg("seed"))
        .def("__len__", &Shared<Keys>::size)
        .def("total", &Shared<Keys>::total)
        .def("decrements", &Shared<Keys>::decrements)
        .def("memory", &Shared<Keys>::memory)
        .def("merge", [](Shared<Keys>& self, Shared<Keys>* other) {
            if (other == &self) throw std::invalid_argument("a sketch cannot be merged with itself");
            nb::gil_scoped_release release;
            std::mutex nobody;
            const std::scoped_lock lock(self.busy, other != nullptr ? other->busy : nobody);
            self.merge(other);
        }, nb::arg("other").none());
}

}  // namespace

void bind_misra_gries(nb::module_& module) {
    using IntegerSketch = Shared<IntegerKeys>;
    using TextSketch = Shared<TextKeys>;

    auto integers = bind_sketch<IntegerKeys>(module, "IntegerSketch");
    bind_source<IntegerKeys, Integers, Input<int64_t>>(integers, "integers");
    integers.def("find", [](IntegerSketch& self, int64_t key) {
        const std::scoped_lock lock(self.busy);
        return self.find(key);
    }, nb::arg("key"));
    integers.def("restore", [](IntegerSketch& self, Input<int64_t> keys, Input<int64_t> counts, uint64_t total,
                               uint64_t decrements) {
        if (keys.shape(0) != counts.shape(0)) throw std::invalid_argument("one count is needed for each key");
        self.restore(Integers(keys), counts.data(), total, decrements);
    });
    integers.def("export", [](IntegerSketch& self) {
        std::vector<int64_t> keys, counts;
        self.each_in_order([&](const IntegerKeys::Entry& entry) {
            keys.push_back(entry.key);
            counts.push_back(self.value(entry));
        });
        return nb::make_tuple(bytes_of(keys), bytes_of(counts));
    });

    auto texts = bind_sketch<TextKeys>(module, "TextSketch");
    bind_source<TextKeys, Strings<int32_t>, Input<int32_t>, Input<uint8_t>>(texts, "strings");
    bind_source<TextKeys, Strings<int64_t>, Input<int64_t>, Input<uint8_t>>(texts, "large_strings");
    bind_source<TextKeys, StringViews, Input<uint8_t>, nb::list>(texts, "views");
    texts.def("find", [](TextSketch& self, nb::bytes key) {
        const std::scoped_lock lock(self.busy);
        const auto* bytes = static_cast<const uint8_t*>(key.data());
        return self.find(TextKeys::view(bytes, key.size(), bytes + key.size()));
    }, nb::arg("key"));
    texts.def("restore", [](TextSketch& self, Input<int64_t> offsets, Input<uint8_t> data, Input<int64_t> counts,
                            uint64_t total, uint64_t decrements) {
        if (offsets.shape(0) != counts.shape(0) + 1) throw std::invalid_argument("one count is needed for each key");
        self.restore(Strings<int64_t>(offsets, data), counts.data(), total, decrements);
    });
    texts.def("export", [](TextSketch& self) {
        std::vector<int64_t> offsets{0}, counts;
        std::vector<uint8_t> data;
        self.each_in_order([&](const TextKeys::Entry& entry) {
            data.insert(data.end(), entry.bytes(), entry.bytes() + entry.length());
            offsets.push_back(static_cast<int64_t>(data.size()));
            counts.push_back(self.value(entry));
        });
        return nb::make_tuple(bytes_of(offsets), bytes_of(data), bytes_of(counts));
    });
}
