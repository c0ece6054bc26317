// Misra-Gries sketches [LT25, Algorithms 1 and 4] and their merge.
//
// A counter's value is its level less `offset`, so that lowering all counters is one addition. Counters that have
// become zero are found by a pass over the table and put in the order of their keys. Between two decrements none is
// added, so evicting the smallest means walking along that list past those that have been raised again. A decrement
// happens once in capacity + 1 updates at most, so the pass costs O(1) for each update, and the sort O(log capacity)
// for each eviction.
//
// The slots that hold nothing yet are Algorithm 1's dummy keys. They count as smaller than every key, so they are taken
// first; being no keys, they are never equal to one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "counter_table.hpp"
#include "key_order.hpp"
#include "sketch_keys.hpp"

namespace sketches {

template <typename Keys>
class Sketch {
public:
    using View = typename Keys::View;
    using Entry = typename Keys::Entry;
    using Table = CounterTable<Keys>;

    Sketch(uint64_t capacity, const Seed& seed) : capacity(capacity), table(seed) {
        if (capacity < 1 || capacity > most) throw std::invalid_argument("capacity is out of range");
    }

    size_t size() const { return table.size(); }
    uint64_t total() const { return seen; }
    uint64_t decrements() const { return lowered; }
    size_t memory() const {
        return sizeof *this + table.memory() + zeros.capacity() * sizeof(Item) +
               scratch.capacity() * sizeof(uint64_t) + marks.capacity() * sizeof(uint16_t);
    }

    // Algorithm 1: every row is one element.
    //
    // While a batch has no more rows than counters are zero or free, it lowers none and evicts none but those, so
    // raising any other counter commutes with all else that happens in the batch. So does, in any batch, raising a
    // counter that is higher than the batch has rows. These rows, most of a skewed stream, come first, without a
    // branch; the others follow in their order.
    template <typename Source>
    void update(const Source& rows) {
        View views[batch];
        uint64_t hashes[batch];
        uint32_t places[batch];
        uint8_t others[batch];
        check_total(rows.size());
        for (size_t start = 0, count; start < rows.size(); start += count) {
            const size_t spare = std::max<size_t>(zeros_left, capacity - table.size());
            count = std::min(std::clamp(spare, few, batch), rows.size() - start);
            for (size_t at = 0; at < count; ++at) {
                views[at] = rows.view(start + at);
                hashes[at] = table.hash(views[at]);
                places[at] = table.guess(hashes[at]);
            }
            const uint64_t low = offset + 1 + (count <= spare ? 0 : count);
            Entry* const entries = table.data();
            size_t left = 0;
            for (size_t at = 0; at < count; ++at) {
                Entry& entry = entries[places[at]];
                const bool safe = Keys::same_above(entry, views[at], low);
                entry.state += safe;
                others[left] = static_cast<uint8_t>(at);
                left += !safe;
            }
            for (size_t at = 0; at < left; ++at) add(views[others[at]], hashes[others[at]]);
            seen += count;
            table.tidy();
        }
    }

    // Algorithm 4: rows starts[i] .. starts[i + 1] are unit i. A key counts once in a unit. A unit of more than `limit`
    // rows takes one random word for each; if it has more than `limit` keys, it keeps those with the smallest words.
    template <typename Source>
    void update_units(const Source& rows, const int64_t* starts, size_t units, const uint64_t* words, uint64_t limit) {
        check_total(rows.size());
        for (size_t unit = 0; unit < units; ++unit) {
            const size_t first = static_cast<size_t>(starts[unit]);
            const size_t count = static_cast<size_t>(starts[unit + 1]) - first;
            members.clear();
            for (size_t at = 0; at < count; ++at) {
                const View view = rows.view(first + at);
                members.push_back({table.hash(view), count > limit ? words[at] : 0, view});
            }
            if (count > limit) words += count;
            leave_distinct();
            if (members.size() > limit) {
                std::nth_element(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(limit), members.end(),
                                 [](const Member& one, const Member& other) { return one.word < other.word; });
                members.resize(limit);
            }
            add_unit();
            table.tidy();
        }
    }

    // The merge of [ACHPWY13]: add the counters, subtract the (capacity + 1)-th largest, keep what is positive. Without
    // `other`, only what is positive is kept.
    void merge(const Sketch* other) {
        if (other != nullptr) {
            for (const Entry& entry : other->table.all())
                if (entry.level() > other->offset) {
                    const View view = Keys::view(entry);
                    const uint64_t hash = table.hash(view), count = entry.level() - other->offset;
                    const uint32_t place = table.find(view, hash);
                    if (place != Table::nowhere) {
                        table[place].state += count;  // which of them were zero no longer matters
                        continue;
                    }
                    make_room(2 * capacity);
                    put(view, hash, count);
                }
            check_total(other->seen);
            seen += other->seen;
            lowered += other->lowered;
        }
        uint64_t subtracted = 0;
        if (table.size() > capacity) {
            scratch.clear();
            for (uint32_t place = 0; place < table.all().size(); ++place)
                if (table.holds(place)) scratch.push_back(static_cast<uint64_t>(value(table[place])));
            const auto middle = scratch.begin() + static_cast<std::ptrdiff_t>(capacity);
            std::nth_element(scratch.begin(), middle, scratch.end(), std::greater<>());
            subtracted = *middle;
        }
        lowered += subtracted;
        offset += subtracted;
        drop_spent();
        table.tidy();
    }

    // Take over counters of another sketch; the keys must be distinct.
    template <typename Source>
    void restore(const Source& rows, const int64_t* counts, uint64_t new_total, uint64_t new_decrements) {
        check_total(new_total);
        if (table.size() != 0 || rows.size() > capacity) throw std::invalid_argument("counters do not fit");
        table.reserve(rows.size());
        for (size_t row = 0; row < rows.size(); ++row) {
            const View view = rows.view(row);
            const uint64_t hash = table.hash(view);
            if (counts[row] < 0 || table.find(view, hash) != Table::nowhere)
                throw std::invalid_argument("keys must be distinct and counts not negative");
            if (counts[row] == 0 && rows.size() < capacity)
                throw std::invalid_argument("no counter is zero while some are free");
            put(view, hash, static_cast<uint64_t>(counts[row]));
        }
        seen = new_total;
        lowered = new_decrements;
        find_zeros();
    }

    // Places of all entries, in the order of their keys.
    std::vector<Item> in_order() const {
        std::vector<Item> items;
        const auto& entries = table.all();
        for (size_t place = 0; place < entries.size(); ++place)
            if (table.holds(place)) items.push_back({0, static_cast<uint32_t>(place)});
        std::vector<uint64_t> words(items.size());
        order::sort_items<Keys>(entries.data(), items.data(), words.data(), items.size(), 0);
        return items;
    }

    const Entry& entry(uint32_t place) const { return table.all()[place]; }
    int64_t value(const Entry& entry) const { return static_cast<int64_t>(std::max(entry.level(), offset) - offset); }

    int64_t find(const View& view) const {
        const uint32_t place = table.find(view, table.hash(view));
        return place == Table::nowhere ? -1 : value(entry(place));
    }

    template <typename Source>
    uint64_t hash_only(const Source& rows) const {
        uint64_t mixed = 0;
        for (size_t row = 0; row < rows.size(); ++row) mixed ^= table.hash(rows.view(row));
        return mixed;
    }

private:
    static constexpr size_t batch = 128, few = 16;  // rows of a batch: at most, and at least
    static constexpr uint64_t most = uint64_t{1} << 30;
    static constexpr size_t lanes = Table::lanes;

    struct Member {
        uint64_t hash, word;
        View view;
    };

    uint64_t capacity;
    uint64_t offset = 1;  // so that zero counters do not look vacant
    uint64_t seen = 0, lowered = 0;
    Table table;
    std::vector<Item> zeros;  // counters that were zero after the last decrement, in the order of their keys
    size_t next_zero = 0;     // those before it were evicted or raised
    size_t zeros_left = 0;    // counters that are zero now
    size_t hint = 0;          // how many bytes the keys in that list shared
    std::vector<uint64_t> scratch;
    std::vector<uint16_t> marks;  // one bit for each place, set while its counter is zero; for integers
    std::vector<Member> members;

    void check_total(uint64_t more) const {
        if (more > most_elements - seen) throw std::overflow_error("a sketch counts 2^47 elements at most");
    }

    void make_room(uint64_t final_size) {
        if (table.size() < table.room_for()) return;
        const uint64_t wanted = std::max<uint64_t>(8, 2 * table.size());
        table.reserve(wanted * 2 > final_size ? final_size : wanted);
    }

    void put(const View& view, uint64_t hash, uint64_t count) {
        table.insert(view, offset + count, hash);
    }

    void raise(Entry& entry, uint64_t count) {
        const bool was_zero = entry.level() == offset;
        zeros_left -= was_zero;
        if constexpr (!Keys::elsewhere)
            if (was_zero) unmark(static_cast<size_t>(&entry - table.data()));
        entry.state += count;
    }

    [[gnu::always_inline]] void add(const View& view, uint64_t hash) {
        const uint32_t place = table.find(view, hash);
        if (place != Table::nowhere) return raise(table[place], 1);
        if (table.size() < capacity) [[unlikely]] {
            make_room(capacity);
            put(view, hash, 1);
            return;
        }
        if (zeros_left == 0) [[unlikely]] {
            ++offset;
            ++lowered;
            find_zeros();
            return;
        }
        while (raised(zeros[next_zero].place)) ++next_zero;
        --zeros_left;
        table.replace(zeros[next_zero++].place, view, offset + 1, hash);
    }

    // Whether a counter that was zero after the last decrement has been raised since. Where its entry need not be read
    // for anything else, a bit tells, which spares a line of memory.
    bool raised(uint32_t place) const {
        if constexpr (Keys::elsewhere) return table[place].level() > offset;
        return (marks[place / lanes] >> place % lanes & 1) == 0;
    }
    void unmark(size_t place) { marks[place / lanes] &= static_cast<uint16_t>(~(1u << place % lanes)); }

    void find_zeros() {
        const auto& entries = table.all();
        if (zeros.size() < table.size() + 1) zeros.resize(table.size() + 1);
        size_t count = 0;
        if constexpr (!Keys::elsewhere) marks.resize(entries.size() / lanes);
        for (size_t start = 0; start < entries.size(); start += lanes) {
            uint32_t zero_lanes = 0;
            for (size_t lane = 0; lane < lanes; ++lane) {
                const bool zero = entries[start + lane].level() == offset;
                zeros[count].place = static_cast<uint32_t>(start + lane);
                count += zero;
                zero_lanes |= uint32_t{zero} << lane;
            }
            if constexpr (!Keys::elsewhere) marks[start / lanes] = static_cast<uint16_t>(zero_lanes);
        }
        zeros.resize(count);
        if (scratch.size() < count) scratch.resize(count);
        order::sort_items<Keys>(entries.data(), zeros.data(), scratch.data(), count, 0, &hint);
        next_zero = 0;
        zeros_left = count;
    }

    // Leave one of each key among the members, the first.
    void leave_distinct() {
        if (members.size() < 2) return;
        std::stable_sort(members.begin(), members.end(),
                         [](const Member& one, const Member& other) { return one.hash < other.hash; });
        size_t kept = 0;
        for (const Member& member : members) {
            bool known = false;
            for (size_t back = kept; back > 0 && members[back - 1].hash == member.hash && !known; --back)
                known = same_key(members[back - 1].view, member.view);
            if (!known) members[kept++] = member;
        }
        members.resize(kept);
    }

    static bool same_key(int64_t one, int64_t other) { return one == other; }
    static bool same_key(const TextKeys::View& one, const TextKeys::View& other) {
        return one.length == other.length && (one.length == 0 || std::memcmp(one.bytes, other.bytes, one.length) == 0);
    }

    // Adding the unit's keys and lowering all counters leaves out those of its keys that were not there: they need not
    // come in at all.
    void add_unit() {
        size_t fresh = 0;
        for (Member& member : members) {
            const uint32_t place = table.find(member.view, member.hash);
            if (place == Table::nowhere)
                std::swap(member, members[fresh++]);
            else
                raise(table[place], 1);
        }
        seen += members.size();
        if (table.size() + fresh <= capacity) {
            for (size_t at = 0; at < fresh; ++at) {
                make_room(capacity);
                put(members[at].view, members[at].hash, 1);
            }
            return;
        }
        ++offset;
        ++lowered;
        drop_spent();
    }

    // Remove every counter that is not positive.
    void drop_spent() {
        const auto& entries = table.all();
        for (size_t place = 0; place < entries.size(); ++place)
            if (table.holds(place) && entries[place].level() <= offset)
                table.erase(static_cast<uint32_t>(place));
        zeros.clear();
        next_zero = zeros_left = 0;
    }
};

}  // namespace sketches
