// Misra-Gries sketches [LT25, Algorithms 1 and 4] and their merge.
//
// A counter's value is its level less `offset`, so that lowering all counters is one addition.
//
// Algorithm 1 evicts the smallest key whose counter is zero, but nobody needs to know which one that is while rows come
// in. Between two decrements no counter becomes zero. Let U be the keys that were zero after the last one and have not
// come since, and n the number of keys that have come since and were not in the sketch then. Then it holds all keys that
// have come since, all that were not zero, and all of U but its n smallest: each eviction takes the smallest zero key, so
// what is gone of U is its smallest keys, and n of them, since the number of counters stays. A zero key that has come
// since has the same counter whether it was raised, or evicted before and came in anew.
//
// So all of U stays in the table, which then holds n counters more than `capacity`. The n smallest are removed when
// somebody looks. When n has reached the size of U and one more key comes, counters are lowered and all of U is removed.
// That happens once in capacity + 1 updates at most, and costs O(capacity), so an update costs O(1).
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

    size_t size() const { return std::min<size_t>(table.size(), capacity); }
    uint64_t total() const { return seen; }
    uint64_t decrements() const { return lowered; }
    size_t memory() const { return sizeof *this + table.memory(); }

    // Algorithm 1: every row is one element.
    //
    // A batch with no more rows than `spare` lowers no counter, so its rows commute. In any batch, raising a counter that
    // is higher than the batch has rows commutes with all else. Such rows, most of a skewed stream, come first, without a
    // branch; the others follow in their order.
    template <typename Source>
    void update(const Source& rows) {
        View views[batch];
        uint64_t hashes[batch];
        uint32_t places[batch];
        uint8_t others[batch];
        check_total(rows.size());
        for (size_t start = 0, count; start < rows.size(); start += count) {
            count = std::min(std::clamp(spare, few, batch), rows.size() - start);
            for (size_t at = 0; at < count; ++at) {
                views[at] = rows.view(start + at);
                hashes[at] = table.hash(views[at]);
                places[at] = table.guess(hashes[at]);
            }
            const uint64_t low = offset + (count <= spare ? 0 : count + 1);
            Entry* const entries = table.data();
            size_t left = 0, lowest = 0;
            for (size_t at = 0; at < count; ++at) {
                Entry& entry = entries[places[at]];
                const bool safe = Keys::same_above(entry, views[at], low);
                lowest += safe & (entry.level() == low);
                entry.state += safe;
                others[left] = static_cast<uint8_t>(at);
                left += !safe;
            }
            if (count <= spare) spare -= lowest;
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
        settle();
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
            check_total(other->seen);
            drop_spent();
            for (uint32_t there = 0; there < other->table.places(); ++there)
                if (other->table.holds(there) && other->entry(there).level() > other->offset) {
                    const Entry& entry = other->entry(there);
                    const View view = Keys::view(entry);
                    const uint64_t hash = table.hash(view), count = entry.level() - other->offset;
                    const uint32_t place = table.find(view, hash);
                    if (place != Table::nowhere) {
                        table[place].state += count;
                        continue;
                    }
                    put(view, hash, count);
                }
            seen += other->seen;
            lowered += other->lowered;
        }
        uint64_t subtracted = 0;
        if (table.size() > capacity) {
            std::vector<uint64_t> values;
            for (uint32_t place = 0; place < table.places(); ++place)
                if (table.holds(place)) values.push_back(static_cast<uint64_t>(value(table[place])));
            const auto middle = values.begin() + static_cast<std::ptrdiff_t>(capacity);
            std::nth_element(values.begin(), middle, values.end(), std::greater<>());
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
        spare = capacity - table.size() + places_of_zeros().size();
    }

    // Places of all counters, in the order of their keys.
    std::vector<uint32_t> in_order() {
        settle();
        std::vector<uint32_t> places;
        for (uint32_t place = 0; place < table.places(); ++place)
            if (table.holds(place)) places.push_back(place);
        std::sort(places.begin(), places.end(), by_key());
        return places;
    }

    const Entry& entry(uint32_t place) const { return table[place]; }
    int64_t value(const Entry& entry) const { return static_cast<int64_t>(std::max(entry.level(), offset) - offset); }

    // The value of a key's counter, 0 if it has none.
    int64_t find(const View& view) const {
        const uint32_t place = table.find(view, table.hash(view));
        return place == Table::nowhere ? 0 : value(entry(place));
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

    struct Member {
        uint64_t hash, word;
        View view;
    };

    uint64_t capacity;
    uint64_t offset = 1;  // so that zero counters do not look vacant
    uint64_t seen = 0, lowered = 0;
    size_t spare = capacity;  // keys that can come in before counters are lowered: free places, or zeros not evicted
    Table table;
    std::vector<Member> members;

    void check_total(uint64_t more) const {
        if (more > most_elements - seen) throw std::overflow_error("a sketch counts 2^47 elements at most");
    }

    void put(const View& view, uint64_t hash, uint64_t count) {
        if (table.size() == table.room_for()) [[unlikely]]
            table.reserve(std::min<uint64_t>(2 * table.size() + 8, 2 * capacity));
        table.insert(view, offset + count, hash);
    }

    void raise(Entry& entry) {
        spare -= entry.level() == offset;
        ++entry.state;
    }

    [[gnu::always_inline]] void add(const View& view, uint64_t hash) {
        const uint32_t place = table.find(view, hash);
        const uint64_t evicted = spare == 0 ? offset : offset - 1;  // the level, and those below it
        if (place != Table::nowhere && table[place].level() > evicted) return raise(table[place]);
        if (spare == 0) [[unlikely]] {
            ++offset;
            ++lowered;
            spare = table.sweep(offset);
            return;
        }
        put(view, hash, 1);
        --spare;
    }

    std::vector<uint32_t> places_of_zeros() const {
        std::vector<uint32_t> places;
        for (uint32_t place = 0; place < table.places(); ++place)
            if (table.holds(place) && table[place].level() == offset) places.push_back(place);
        return places;
    }

    auto by_key() const {
        return [this](uint32_t one, uint32_t other) { return Keys::less(table[one], table[other]); };
    }

    // Remove what has been evicted.
    void settle() {
        if (table.size() <= capacity) return;
        std::vector<uint32_t> places = places_of_zeros();
        const auto kept = places.begin() + static_cast<std::ptrdiff_t>(table.size() - capacity);
        std::nth_element(places.begin(), kept, places.end(), by_key());
        std::for_each(places.begin(), kept, [this](uint32_t place) { table.erase(place); });
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
                raise(table[place]);
        }
        seen += members.size();
        if (table.size() + fresh <= capacity) {
            spare -= fresh;
            for (size_t at = 0; at < fresh; ++at) put(members[at].view, members[at].hash, 1);
            return;
        }
        ++offset;
        ++lowered;
        drop_spent();
    }

    // Remove every counter that is not positive.
    void drop_spent() {
        for (uint32_t place = 0; place < table.places(); ++place)
            if (table.holds(place) && table[place].level() <= offset) table.erase(place);
        spare = capacity - std::min<size_t>(table.size(), capacity);
    }
};

}  // namespace sketches
