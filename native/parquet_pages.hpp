// Pages of one flat Parquet column, read where they lie: keys of chosen rows, and exact counts of chosen keys.
//
// A page comes without its header and decompressed. What the header says (how many rows, which encoding) comes along
// and is not believed: every read is checked against the end of the page, and a page that does not hold exactly what it
// should is `damaged`. Values are plain or indexes into the dictionary of the column chunk; rows without a value are
// told by definition levels of one bit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "counter_table.hpp"
#include "sketch_keys.hpp"

namespace pages {

using sketches::IntegerKeys;
using sketches::Seed;
using sketches::TextKeys;
using sketches::load_word;

[[noreturn]] inline void damaged() { throw std::invalid_argument("the page does not hold what its header says"); }

struct Span {
    const uint8_t *at, *end;

    size_t size() const { return static_cast<size_t>(end - at); }
};

// ------------------------------------------------------------------------------------------------ runs

inline uint64_t take_varint(Span& bytes) {
    uint64_t number = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (bytes.at == bytes.end) damaged();
        const uint8_t byte = *bytes.at++;
        number |= static_cast<uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) return number;
    }
    damaged();
}

// Values of `width` bits side by side, the lowest bits first.
struct Packed {
    Span bytes;  // to the end of the page: how far memory may be read
    unsigned width;

    uint32_t operator[](uint64_t place) const {
        const uint64_t bit = place * width;
        const uint8_t* at = bytes.at + bit / 8;
        uint64_t word = 0;
        if (bytes.end - at >= 8) [[likely]] word = load_word(at);
        else std::memcpy(&word, at, static_cast<size_t>(bytes.end - at));
        return static_cast<uint32_t>(word >> bit % 8 & ((uint64_t{1} << width) - 1));
    }
};

// Parquet's hybrid of repeated and packed values: `count` of them, in runs. Calls repeated(value, run) or
// packed(values, run), where run is how many of the values count.
template <typename Repeated, typename Several>
void each_run(Span bytes, unsigned width, uint64_t count, Repeated&& repeated, Several&& packed) {
    while (count > 0) {
        const uint64_t header = take_varint(bytes);
        uint64_t run = header >> 1;
        if (run == 0) damaged();
        if (header & 1) {
            if (width > 0 && run > bytes.size() / width) damaged();
            const Packed values{bytes, width};
            bytes.at += run * width;
            run = std::min(count, run * 8);  // the last group is filled up
            if (width == 0) repeated(0, run);  // takes no bytes, so its length is no measure of the work
            else packed(values, run);
        } else {
            const size_t length = (width + 7) / 8;
            if (run > count || bytes.size() < length) damaged();
            uint32_t value = 0;
            std::memcpy(&value, bytes.at, length);
            bytes.at += length;
            if (static_cast<uint64_t>(value) >> width != 0) damaged();
            repeated(value, run);
        }
        count -= run;
    }
}

inline uint64_t count_ones(const uint8_t* at, uint64_t bits) {
    uint64_t found = 0;
    for (; bits >= 64; bits -= 64, at += 8) found += static_cast<uint64_t>(std::popcount(load_word(at)));
    uint64_t word = 0;
    std::memcpy(&word, at, (bits + 7) / 8);
    return found + static_cast<uint64_t>(std::popcount(word & ((uint64_t{1} << bits) - 1)));
}

// How many of the rows hold a value. Columns of which every row does have no levels.
inline uint64_t count_values(const std::optional<Span>& levels, uint64_t rows) {
    if (!levels) return rows;
    uint64_t found = 0;
    each_run(
        *levels, 1, rows, [&](uint32_t level, uint64_t run) { found += level * run; },
        [&](const Packed& packed, uint64_t run) { found += count_ones(packed.bytes.at, run); });
    return found;
}

// The numbers among the values of those of `chosen`, rows in rising order, that hold one.
inline std::vector<uint64_t> values_of_rows(const std::optional<Span>& levels, uint64_t rows, const int64_t* chosen,
                                            size_t count) {
    std::vector<uint64_t> values;
    int64_t before = -1;
    for (size_t at = 0; at < count; before = chosen[at++])
        if (chosen[at] <= before || static_cast<uint64_t>(chosen[at]) >= rows)
            throw std::invalid_argument("rows must rise and lie on the page");
    if (!levels) {
        values.assign(chosen, chosen + count);
        return values;
    }
    uint64_t row = 0, value = 0;  // where the run starts
    const int64_t *next = chosen, *end = chosen + count;
    const auto within = [&](uint64_t run) { return next != end && static_cast<uint64_t>(*next) < row + run; };
    each_run(
        *levels, 1, rows,
        [&](uint32_t level, uint64_t run) {
            for (; within(run); ++next)
                if (level) values.push_back(value + static_cast<uint64_t>(*next) - row);
            row += run;
            value += level * run;
        },
        [&](const Packed& packed, uint64_t run) {
            for (; within(run); ++next) {
                const uint64_t place = static_cast<uint64_t>(*next) - row;
                if (packed[place]) values.push_back(value + count_ones(packed.bytes.at, place));
            }
            row += run;
            value += count_ones(packed.bytes.at, run);
        });
    return values;
}

// ------------------------------------------------------------------------------------------------ plain values

// Byte strings, each after its length.
struct Texts {
    using Keys = TextKeys;
    struct Value {
        const uint8_t* bytes;
        uint32_t length;
        const uint8_t* end;

        TextKeys::View view() const { return TextKeys::view(bytes, length, end); }
    };

    // Calls take(value) for each of `count` values that fill the page.
    template <typename Take>
    static void each(Span page, uint64_t count, Take&& take) {
        for (; count > 0; --count) {
            uint32_t length;
            if (page.size() < sizeof length) [[unlikely]] damaged();
            std::memcpy(&length, page.at, sizeof length);
            page.at += sizeof length;
            if (page.size() < length) [[unlikely]] damaged();
            take(Value{page.at, length, page.end});
            page.at += length;
        }
        if (page.at != page.end) damaged();
    }
};

template <typename Integer>
struct Integers {
    using Keys = IntegerKeys;
    struct Value {
        const uint8_t* bytes;

        int64_t view() const {
            Integer value;
            std::memcpy(&value, bytes, sizeof value);
            return value;
        }
    };

    template <typename Take>
    static void each(Span page, uint64_t count, Take&& take) {
        if (page.size() % sizeof(Integer) != 0 || page.size() / sizeof(Integer) != count) damaged();
        for (; page.at != page.end; page.at += sizeof(Integer)) take(Value{page.at});
    }
};

// The values that a column chunk's indexes point to; owns its page, which the views lie in.
template <typename Layout>
class Dictionary {
public:
    void read(Span page, uint64_t count) {
        views.clear();
        bytes.assign(page.at, page.end);
        const Span copy{bytes.data(), bytes.data() + bytes.size()};
        Layout::each(copy, count, [&](const typename Layout::Value& value) { views.push_back(value.view()); });
    }
    size_t size() const { return views.size(); }
    const typename Layout::Keys::View& operator[](uint64_t index) const {
        if (index >= views.size()) [[unlikely]] damaged();
        return views[index];
    }

private:
    std::vector<uint8_t> bytes;
    std::vector<typename Layout::Keys::View> views;
};

// The runs of a page of indexes; the first byte tells their width.
template <typename Repeated, typename Several>
void each_run_of_indexes(Span page, uint64_t count, Repeated&& repeated, Several&& packed) {
    if (count == 0) return;
    if (page.at == page.end || *page.at > 32) damaged();
    const unsigned width = *page.at++;
    each_run(page, width, count, repeated, packed);
}

// ------------------------------------------------------------------------------------------------ keys of rows

inline void append(std::vector<uint8_t>& data, std::vector<int64_t>& ends, const TextKeys::View& view) {
    data.insert(data.end(), view.bytes, view.bytes + view.length);
    ends.push_back(static_cast<int64_t>(data.size()));
}

// Copies of keys, in the order they came.
template <typename Keys>
class KeyList;

template <>
class KeyList<TextKeys> {
public:
    void push(const TextKeys::View& view) { append(data, ends, view); }
    template <typename Take>
    void each(Take&& take) const {
        int64_t start = 0;
        for (const int64_t end : ends) {
            const uint8_t* bytes = data.data();
            take(TextKeys::view(bytes + start, static_cast<size_t>(end - start), bytes + data.size()));
            start = end;
        }
    }

private:
    std::vector<uint8_t> data;
    std::vector<int64_t> ends;
};

template <>
class KeyList<IntegerKeys> {
public:
    void push(int64_t key) { keys.push_back(key); }
    template <typename Take>
    void each(Take&& take) const {
        for (const int64_t key : keys) take(key);
    }

private:
    std::vector<int64_t> keys;
};

// Takes the keys of chosen rows off the pages of column chunks.
template <typename Layout>
class Picker {
public:
    using Keys = typename Layout::Keys;

    void dictionary(Span page, uint64_t count) { entries.read(page, count); }

    void plain(Span page, const std::optional<Span>& levels, uint64_t rows, const int64_t* chosen, size_t count) {
        const std::vector<uint64_t> wanted = values_of_rows(levels, rows, chosen, count);
        auto next = wanted.begin();
        uint64_t place = 0;
        Layout::each(page, count_values(levels, rows), [&](const typename Layout::Value& value) {
            if (next != wanted.end() && place == *next) [[unlikely]] {
                picked.push(value.view());
                ++next;
            }
            ++place;
        });
    }

    void indexed(Span page, const std::optional<Span>& levels, uint64_t rows, const int64_t* chosen, size_t count) {
        const std::vector<uint64_t> wanted = values_of_rows(levels, rows, chosen, count);
        auto next = wanted.begin();
        uint64_t start = 0;
        const auto within = [&](uint64_t run) { return next != wanted.end() && *next < start + run; };
        each_run_of_indexes(
            page, count_values(levels, rows),
            [&](uint32_t index, uint64_t run) {
                for (; within(run); ++next) picked.push(entries[index]);
                start += run;
            },
            [&](const Packed& indexes, uint64_t run) {
                for (; within(run); ++next) picked.push(entries[indexes[*next - start]]);
                start += run;
            });
    }

    // The keys of all pages so far; the dictionary is not needed any more.
    void finish() { entries = {}; }
    const KeyList<Keys>& keys() const { return picked; }

private:
    Dictionary<Layout> entries;
    KeyList<Keys> picked;
};

// ------------------------------------------------------------------------------------------------ counts of keys

// Distinct keys, numbered in the order they came. The hash decides where a key is stored and nothing else.
template <typename Keys>
class Sample {
public:
    using View = typename Keys::View;
    static constexpr uint64_t nowhere = UINT64_MAX;

    explicit Sample(const Seed& seed) : table(seed) {}

    void add(const KeyList<Keys>& keys) {
        if (counted) throw std::invalid_argument("keys are being counted already");
        keys.each([&](const View& view) {
            const uint64_t hash = table.hash(view);
            if (table.find(view, hash) != table.nowhere) return;
            if (table.size() == table.room_for()) table.reserve(2 * table.size());
            table.insert(view, table.size() + 1, hash);  // the level of an entry is its number and 1
        });
    }

    size_t size() const { return table.size(); }
    uint64_t hash(const View& view) const { return table.hash(view); }
    uint32_t guess(uint64_t hash) const { return table.guess(hash); }
    void prefetch(uint32_t place) const { Keys::prefetch(table[place]); }
    uint64_t find(const View& view, uint64_t hash) const {
        const uint32_t place = table.find(view, hash);
        return place == table.nowhere ? nowhere : table[place].level() - 1;
    }

    // From here on numbers are fixed.
    void freeze() { counted = true; }

    std::vector<View> in_order() const {
        std::vector<View> views(size());
        for (uint32_t place = 0; place < table.places(); ++place)
            if (table.holds(place)) views[table[place].level() - 1] = Keys::view(table[place]);
        return views;
    }

private:
    sketches::CounterTable<Keys> table;
    bool counted = false;
};

// One bit for each of about sixteen times as many hashes as there are keys: small enough to stay in a near cache, and
// it spares all but one in sixteen of the other keys a look into the table.
class Filter {
public:
    explicit Filter(size_t keys) {
        const int width = static_cast<int>(std::bit_width(16 * std::max<size_t>(keys, 64) - 1));
        shift = 64 - width;
        bits.resize((size_t{1} << width) / 64);
    }
    void add(uint64_t hash) { bits[hash >> shift >> 6] |= uint64_t{1} << (hash >> shift & 63); }
    bool holds(uint64_t hash) const { return bits[hash >> shift >> 6] >> (hash >> shift & 63) & 1; }

private:
    std::vector<uint64_t> bits;
    int shift;
};

// Counts the rows of each key of a sample over pages; one for each thread. After `damaged` the counts are good for
// nothing.
template <typename Layout>
class Counter {
public:
    using Keys = typename Layout::Keys;
    using View = typename Keys::View;

    explicit Counter(Sample<Keys>& sample) : sample(sample), filter(sample.size()), counts(sample.size(), 0) {
        sample.freeze();
        for (const View& view : sample.in_order()) filter.add(sample.hash(view));
    }

    void dictionary(Span page, uint64_t count) {
        finish();
        entries.read(page, count);
        occurrences.assign(entries.size(), 0);
    }

    void plain(Span page, const std::optional<Span>& levels, uint64_t rows) {
        // Rows are hashed and sifted without a branch on what they hold; those left over are looked up in bulk, so that
        // their cache misses overlap.
        View views[bulk];
        uint64_t hashes[bulk];
        uint32_t places[bulk];
        size_t held = 0;
        const auto look_up = [&] {
            for (size_t at = 0; at < held; ++at) places[at] = sample.guess(hashes[at]);
            for (size_t at = 0; at < held; ++at) sample.prefetch(places[at]);
            for (size_t at = 0; at < held; ++at) count(views[at], hashes[at], 1);
            held = 0;
        };
        Layout::each(page, count_values(levels, rows), [&](const typename Layout::Value& value) {
            views[held] = value.view();
            hashes[held] = sample.hash(views[held]);
            held += filter.holds(hashes[held]);
            if (held == bulk) [[unlikely]] look_up();
        });
        look_up();
    }

    void indexed(Span page, const std::optional<Span>& levels, uint64_t rows) {
        each_run_of_indexes(
            page, count_values(levels, rows), [&](uint32_t index, uint64_t run) { occurrence(index) += run; },
            [&](const Packed& indexes, uint64_t run) {
                for (uint64_t place = 0; place < run; ++place) ++occurrence(indexes[place]);
            });
    }

    const std::vector<int64_t>& finish() {
        for (size_t index = 0; index < occurrences.size(); ++index)
            if (occurrences[index] > 0) {
                const uint64_t hash = sample.hash(entries[index]);
                if (filter.holds(hash)) count(entries[index], hash, occurrences[index]);
            }
        occurrences.clear();
        return counts;
    }

private:
    static constexpr size_t bulk = 128;

    const Sample<Keys>& sample;
    Filter filter;
    std::vector<int64_t> counts;
    Dictionary<Layout> entries;
    std::vector<int64_t> occurrences;  // of each entry of the dictionary

    void count(const View& view, uint64_t hash, int64_t rows) {
        const uint64_t number = sample.find(view, hash);
        if (number != sample.nowhere) counts[number] += rows;
    }

    int64_t& occurrence(uint32_t index) {
        if (index >= occurrences.size()) [[unlikely]] damaged();
        return occurrences[index];
    }
};

}  // namespace pages
