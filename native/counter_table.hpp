// A hash table of counters whose entries never move while it keeps its size.
//
// Sixteen entries make a bucket, and sixteen tag bytes, kept apart, say what is in them: 0 for nothing, the high bit and
// seven bits of the hash for a key in its own bucket, seven bits alone (one of them set) for a key that found its
// bucket full and went on to the next one with room. `passed` counts, for each bucket and each value of two more bits
// of the hash, the keys that went past it; a count that has reached 255 stays there, which costs time and nothing else.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "sketch_keys.hpp"

namespace sketches {

template <typename Keys>
class CounterTable {
public:
    using View = typename Keys::View;
    using Entry = typename Keys::Entry;
    static constexpr uint32_t nowhere = UINT32_MAX;
    static constexpr size_t lanes = 16;  // of a bucket

    explicit CounterTable(const Seed& seed) : seed(seed) { resize(1); }
    CounterTable(CounterTable&&) = default;
    CounterTable(const CounterTable&) = delete;
    ~CounterTable() {
        for (size_t place = 0; place < places(); ++place)
            if (holds(place)) keys.drop(entries[place]);
    }

    size_t size() const { return held; }
    size_t places() const { return tags.size(); }
    bool holds(size_t place) const { return tags[place] != Tag{}; }
    uint64_t hash(const View& view) const { return Keys::hash(view, seed); }
    Entry* data() { return entries.data(); }
    Entry& operator[](uint32_t place) { return entries[place]; }
    const Entry& operator[](uint32_t place) const { return entries[place]; }

    // Where the key most likely is, if it is there at all; asks for that memory. What is there may have been erased.
    uint32_t guess(uint64_t hash) const {
        const size_t home = bucket(hash);
        const uint32_t found = matches(home, home_tag(hash)) | 1u << lanes;
        const size_t place = home * lanes + (lane(found) & (lanes - 1));
        __builtin_prefetch(&entries[place]);
        return static_cast<uint32_t>(place);
    }

    uint32_t find(const View& view, uint64_t hash) const {
        const size_t home = bucket(hash);
        for (uint32_t found = matches(home, home_tag(hash)); found != 0; found &= found - 1) {
            const size_t place = home * lanes + lane(found);
            if (Keys::same(entries[place], view)) [[likely]] return static_cast<uint32_t>(place);
        }
        if (passed[passage(home, hash)] == 0) [[likely]] return nowhere;
        return find_passed(view, hash, home);
    }

    // The key must not be there yet, and there must be room; `reserve` makes it.
    void insert(const View& view, uint64_t level, uint64_t hash) {
        const auto rest = keys.keep(view);  // nothing has changed if there is no memory
        Keys::fill(claim(hash), view, rest, level);
        ++held;
    }

    void erase(uint32_t place) {
        --held;
        forget(place);
        tags[place] = Tag{};
        entries[place].state = vacant;
    }

    // Erase the keys whose levels are below `level`, and leave these levels where they are; how many are at it.
    size_t sweep(uint64_t level) {
        size_t at_level = 0;
        for (size_t at = 0; at < buckets; ++at) {
            const uint32_t lower = below_level(at, level), not_higher = below_level(at, level + 1);
            at_level += static_cast<size_t>(std::popcount(not_higher ^ lower));
            const uint32_t gone = lower & ~matches(at, Tag{});
            held -= static_cast<size_t>(std::popcount(gone));
            uint32_t to_forget = keys.any_elsewhere() ? gone : gone & ~at_home(at);
            for (; to_forget != 0; to_forget &= to_forget - 1) forget(at * lanes + lane(to_forget));
            clear(at, gone);
        }
        return at_level;
    }

    // Room for `count` keys in all; entries may move.
    void reserve(size_t count) {
        if (count > room) resize(count);
    }
    size_t room_for() const { return room; }

    // Give back what keys gone long ago have left.
    void tidy() {
        if (keys.crowded()) [[unlikely]] keys.compact(entries.data(), tags.data(), places());
    }

    size_t memory() const {
        return tags.capacity() + passed.capacity() +
               entries.capacity() * sizeof(Entry) + keys.memory();
    }

private:
    Seed seed;
    Keys keys;
    std::vector<Tag> tags;
    std::vector<uint8_t> passed;
    std::vector<Entry> entries;
    size_t buckets = 0, held = 0, room = 0;

    static Tag home_tag(uint64_t hash) { return static_cast<Tag>(hash | 0x80); }
    static Tag passed_tag(uint64_t hash) { return static_cast<Tag>((hash & 0x7f) | 1); }

    // Of a bucket, one bit for each lane: whether its tag equals `tag`; whether its key is in its own bucket; whether its
    // level is below `level`, vacant or not.
#if defined(__SSE2__)
    uint32_t matches(size_t at, Tag tag) const {
        const __m128i wanted = _mm_set1_epi64x(static_cast<long long>(every * static_cast<uint8_t>(tag)));
        return static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(tags_of(at), wanted)));
    }
    uint32_t at_home(size_t at) const { return static_cast<uint32_t>(_mm_movemask_epi8(tags_of(at))); }
    uint32_t below_level(size_t at, uint64_t level) const {
        const __m128i least = _mm_set1_epi64x(static_cast<long long>(level << (64 - level_bits)));
        uint32_t found = 0;
        for (size_t lane = 0; lane < lanes; lane += 2) {
            const Entry* const entry = &entries[at * lanes + lane];
            const __m128i states = _mm_set_epi64x(static_cast<long long>(entry[1].state),
                                                  static_cast<long long>(entry[0].state));
            const __m128i rest = _mm_sub_epi64(_mm_slli_epi64(states, 64 - level_bits), least);  // negative if below
            found |= static_cast<uint32_t>(_mm_movemask_pd(_mm_castsi128_pd(rest))) << lane;
        }
        return found;
    }
    // Set the tags of some lanes to nothing.
    void clear(size_t at, uint32_t some) {
        const __m128i bits = _mm_set1_epi64x(static_cast<long long>(0x8040201008040201));
        const __m128i spread = _mm_set_epi64x(static_cast<long long>(every * (some >> 8)),
                                              static_cast<long long>(every * (some & 0xff)));
        const __m128i kept = _mm_andnot_si128(_mm_cmpeq_epi8(_mm_and_si128(spread, bits), bits), tags_of(at));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(&tags[at * lanes]), kept);
    }
    __m128i tags_of(size_t at) const { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(&tags[at * lanes])); }
    static constexpr uint64_t every = 0x0101010101010101;
#else
    uint32_t matches(size_t at, Tag tag) const {
        return lanes_where([&](size_t place) { return tags[place] == tag; }, at);
    }
    uint32_t at_home(size_t at) const {
        return lanes_where([&](size_t place) { return tags[place] >= Tag{0x80}; }, at);
    }
    uint32_t below_level(size_t at, uint64_t level) const {
        return lanes_where([&](size_t place) { return entries[place].level() < level; }, at);
    }
    void clear(size_t at, uint32_t some) {
        for (size_t lane = 0; lane < lanes; ++lane)
            if (some >> lane & 1) tags[at * lanes + lane] = Tag{};
    }
    template <typename Test>
    static uint32_t lanes_where(const Test& test, size_t at) {
        uint32_t found = 0;
        for (size_t lane = 0; lane < lanes; ++lane) found |= uint32_t{test(at * lanes + lane)} << lane;
        return found;
    }
#endif

    static size_t lane(uint32_t marks) { return static_cast<size_t>(std::countr_zero(marks)); }
    size_t bucket(uint64_t hash) const { return (hash >> 32) * buckets >> 32; }
    static size_t passage(size_t at, uint64_t hash) { return 4 * at + (hash >> 7 & 3); }
    size_t after(size_t at) const { return at + 1 == buckets ? 0 : at + 1; }

    [[gnu::noinline]] uint32_t find_passed(const View& view, uint64_t hash, size_t at) const {
        do {
            at = after(at);
            for (uint32_t found = matches(at, passed_tag(hash)); found != 0; found &= found - 1) {
                const size_t place = at * lanes + lane(found);
                if (Keys::same(entries[place], view)) return static_cast<uint32_t>(place);
            }
        } while (passed[passage(at, hash)] != 0);
        return nowhere;
    }

    // An entry for a key with this hash.
    [[gnu::always_inline]] Entry& claim(uint64_t hash) {
        const size_t home = bucket(hash);
        const uint32_t free = matches(home, Tag{});
        if (free == 0) [[unlikely]] return claim_past(hash, home);
        const size_t place = home * lanes + lane(free);
        tags[place] = home_tag(hash);
        return entries[place];
    }

    // Before a key goes.
    void forget(size_t place) {
        if (tags[place] < Tag{0x80}) [[unlikely]] forget_past(place);
        keys.drop(entries[place]);
    }

    [[gnu::noinline]] Entry& claim_past(uint64_t hash, size_t at) {
        uint32_t free = 0;
        while (free == 0) {
            uint8_t& count = passed[passage(at, hash)];
            count += count < UINT8_MAX;
            at = after(at);
            free = matches(at, Tag{});
        }
        const size_t place = at * lanes + lane(free);
        tags[place] = passed_tag(hash);
        return entries[place];
    }

    [[gnu::noinline]] void forget_past(size_t place) {
        const uint64_t hashed = hash(Keys::view(entries[place]));
        for (size_t at = bucket(hashed); at != place / lanes; at = after(at)) {
            uint8_t& count = passed[passage(at, hashed)];
            count -= count < UINT8_MAX;
        }
    }

    void resize(size_t count) {
        buckets = count * 4 / 3 / lanes + 2;  // three quarters full
        std::vector<Entry> old(buckets * lanes);
        std::vector<Tag> new_tags(buckets * lanes);
        std::vector<uint8_t> new_passed(4 * buckets);
        old.swap(entries);
        tags.swap(new_tags);
        passed.swap(new_passed);
        room = count;
        for (size_t place = 0; place < old.size(); ++place)
            if (new_tags[place] != Tag{}) claim(hash(Keys::view(old[place]))) = old[place];
    }
};

}  // namespace sketches
