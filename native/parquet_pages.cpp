// Bindings of the page readers: Snappy, picker and counter for each layout of values, a sample for each kind of keys.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "parquet_pages.hpp"
#include "snappy.hpp"

namespace nb = nanobind;

namespace {

using pages::Counter;
using pages::IntegerKeys;
using pages::Picker;
using pages::Sample;
using pages::Seed;
using pages::Span;
using pages::TextKeys;

template <typename T>
using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = Input<uint8_t>;
using Output = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Levels = std::optional<Bytes>;

Span span(const Bytes& bytes) { return {bytes.data(), bytes.data() + bytes.shape(0)}; }
std::optional<Span> span(const Levels& levels) { return levels ? std::optional(span(*levels)) : std::nullopt; }

template <typename T>
nb::bytes bytes_of(const std::vector<T>& values) {
    return nb::bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename Keys>
nb::class_<Sample<Keys>> bind_sample(nb::module_& module, const char* name) {
    return nb::class_<Sample<Keys>>(module, name)
        .def("__init__", [](Sample<Keys>* self, Input<uint64_t> seed) {
            if (seed.shape(0) != 4) throw std::invalid_argument("four random words are needed");
            const uint64_t* word = seed.data();
            new (self) Sample<Keys>(Seed{{word[0], word[1], word[2], word[3]}});
        }, nb::arg("seed"))
        .def("__len__", &Sample<Keys>::size);
}

template <typename Layout>
void bind_layout(nb::module_& module, nb::class_<Sample<typename Layout::Keys>>& samples, const std::string& name) {
    using Keys = typename Layout::Keys;
    using PickerOf = Picker<Layout>;
    using CounterOf = Counter<Layout>;
    using Pick = void (PickerOf::*)(Span, const std::optional<Span>&, uint64_t, const int64_t*, size_t);
    using Count = void (CounterOf::*)(Span, const std::optional<Span>&, uint64_t);

    const auto read_dictionary = [](auto& self, Bytes page, uint64_t count) {
        nb::gil_scoped_release release;
        self.dictionary(span(page), count);
    };
    const auto pick = [](Pick method) {
        return [method](PickerOf& self, Bytes page, Levels levels, uint64_t rows, Input<int64_t> chosen) {
            nb::gil_scoped_release release;
            (self.*method)(span(page), span(levels), rows, chosen.data(), chosen.shape(0));
        };
    };
    const auto count = [](Count method) {
        return [method](CounterOf& self, Bytes page, Levels levels, uint64_t rows) {
            nb::gil_scoped_release release;
            (self.*method)(span(page), span(levels), rows);
        };
    };
    nb::class_<PickerOf>(module, (name + "Picker").c_str())
        .def(nb::init<>())
        .def("dictionary", [=](PickerOf& self, Bytes page, uint64_t count) { read_dictionary(self, page, count); },
             nb::arg("page"), nb::arg("count"))
        .def("plain", pick(&PickerOf::plain), nb::arg("page"), nb::arg("levels").none(), nb::arg("rows"),
             nb::arg("chosen"))
        .def("indexed", pick(&PickerOf::indexed), nb::arg("page"), nb::arg("levels").none(), nb::arg("rows"),
             nb::arg("chosen"))
        .def("finish", &PickerOf::finish);
    nb::class_<CounterOf>(module, (name + "Counter").c_str())
        .def(nb::init<Sample<Keys>&>(), nb::arg("sample"), nb::keep_alive<1, 2>())
        .def("dictionary", [=](CounterOf& self, Bytes page, uint64_t count) { read_dictionary(self, page, count); },
             nb::arg("page"), nb::arg("count"))
        .def("plain", count(&CounterOf::plain), nb::arg("page"), nb::arg("levels").none(), nb::arg("rows"))
        .def("indexed", count(&CounterOf::indexed), nb::arg("page"), nb::arg("levels").none(), nb::arg("rows"))
        .def("counts", [](CounterOf& self) { return bytes_of(self.finish()); });
    samples.def("add", [](Sample<Keys>& self, const PickerOf& picker) {
        nb::gil_scoped_release release;
        self.add(picker.keys());
    }, nb::arg("picker"));
}

}  // namespace

void bind_parquet_pages(nb::module_& module) {
    auto texts = bind_sample<TextKeys>(module, "TextSample");
    bind_layout<pages::Texts>(module, texts, "Text");
    texts.def("export", [](const Sample<TextKeys>& self) {
        std::vector<int64_t> offsets{0};
        std::vector<uint8_t> data;
        for (const TextKeys::View& view : self.in_order()) pages::append(data, offsets, view);
        return nb::make_tuple(bytes_of(offsets), bytes_of(data));
    });

    module.def("decode_snappy", [](Bytes stored, Output output) {
        nb::gil_scoped_release release;
        return snappy::Decoder(stored.data(), stored.shape(0), output.data(), output.shape(0)).decode();
    }, nb::arg("stored"), nb::arg("output"));

    auto integers = bind_sample<IntegerKeys>(module, "IntegerSample");
    bind_layout<pages::Integers<int64_t>>(module, integers, "Int64");
    bind_layout<pages::Integers<int32_t>>(module, integers, "Int32");
    integers.def("export", [](const Sample<IntegerKeys>& self) { return bytes_of(self.in_order()); });
}
