// A hash table of counters whose entries never move while it keeps its size.
//
// Eight entries make a bucket, and eight tag bytes, kept apart, say what is in them: 0 for nothing, the high bit and
// seven bits of the hash for a key in its own bucket, seven bits alone (one of them set) for a key that found its
// bucket full and went on to the next one with room. `passed` counts, for each bucket and each value of two more bits
// of the hash, the keys that went past it; a count that has reached 255 stays there, which costs time and nothing else.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "sketch_keys.hpp"

namespace sketches {

template <typename Keys>
class CounterTable {
public:
    using View = typename Keys::View;
    using Entry = typename Keys::Entry;
    static constexpr uint32_t nowhere = UINT32_MAX;

    explicit CounterTable(const Seed& seed) : seed(seed) { resize(1); }
    CounterTable(CounterTable&&) = default;
    CounterTable(const CounterTable&) = delete;
    ~CounterTable() {
        for (const Entry& entry : entries)
            if (entry.level() != vacant) keys.drop(entry);
    }

    size_t size() const { return held; }
    uint64_t hash(const View& view) const { return Keys::hash(view, seed); }
    Entry* data() { return entries.data(); }
    Entry& operator[](uint32_t place) { return entries[place]; }
    const Entry& operator[](uint32_t place) const { return entries[place]; }
    const std::vector<Entry>& all() const { return entries; }
    std::vector<Entry>& all() { return entries; }

    // Where the key most likely is, if it is there at all; asks for that memory.
    uint32_t guess(uint64_t hash) const {
        const size_t home = bucket(hash);
        const uint64_t found = matches(bucket_tags(home), home_tag(hash)) | uint64_t{1} << 63;
        const size_t place = home * lanes + lane(found);
        __builtin_prefetch(&entries[place]);
        return static_cast<uint32_t>(place);
    }

    uint32_t find(const View& view, uint64_t hash) const {
        const size_t home = bucket(hash);
        for (uint64_t found = matches(bucket_tags(home), home_tag(hash)); found != 0; found &= found - 1) {
            const size_t place = home * lanes + lane(found);
            if (Keys::same(entries[place], view)) [[likely]] return static_cast<uint32_t>(place);
        }
        if (passed[passage(home, hash)] == 0) [[likely]] return nowhere;
        return find_passed(view, hash, home);
    }

    // The key must not be there yet, and there must be room; `reserve` makes it.
    void insert(const View& view, uint64_t level, uint64_t hash) {
        ++held;
        keys.fill(claim(hash), view, level);
    }

    void erase(uint32_t place) {
        --held;
        clear(place);
    }

    // Erase one key and insert another.
    void replace(uint32_t place, const View& view, uint64_t level, uint64_t hash) {
        clear(place);
        keys.fill(claim(hash), view, level);
    }

    // Room for `count` keys in all; entries may move.
    void reserve(size_t count) {
        if (count > room) resize(count);
    }
    size_t room_for() const { return room; }

    // Give back what keys gone long ago have left.
    void tidy() {
        if (keys.crowded()) [[unlikely]] keys.compact(entries.data(), entries.size());
    }

    size_t memory() const {
        return tags.capacity() + passed.capacity() +
               entries.capacity() * sizeof(Entry) + keys.memory();
    }

private:
    static constexpr size_t lanes = 8;
    static constexpr uint64_t every = 0x0101010101010101;

    Seed seed;
    Keys keys;
    std::vector<uint8_t> tags, passed;
    std::vector<Entry> entries;
    size_t buckets = 0, held = 0, room = 0;

    static uint8_t home_tag(uint64_t hash) { return static_cast<uint8_t>(hash | 0x80); }
    static uint8_t passed_tag(uint64_t hash) { return static_cast<uint8_t>((hash & 0x7f) | 2); }

    // The high bit of each byte equal to `tag`; above the first such byte perhaps also of bytes equal to `tag` ^ 1.
    // These are never empty, as no tag is 1: an empty entry may hold the very key, gone since.
    static uint64_t matches(uint64_t bytes, uint8_t tag) {
        const uint64_t apart = bytes ^ every * tag;
        return (apart - every) & ~apart & every << 7;
    }

    uint64_t bucket_tags(size_t at) const { return load_word(&tags[at * lanes]); }
    static size_t lane(uint64_t marks) { return static_cast<uint32_t>(std::countr_zero(marks)) / 8; }
    size_t bucket(uint64_t hash) const { return (hash >> 32) * buckets >> 32; }
    static size_t passage(size_t at, uint64_t hash) { return 4 * at + (hash >> 7 & 3); }
    size_t after(size_t at) const { return at + 1 == buckets ? 0 : at + 1; }

    [[gnu::noinline]] uint32_t find_passed(const View& view, uint64_t hash, size_t at) const {
        do {
            at = after(at);
            for (uint64_t found = matches(bucket_tags(at), passed_tag(hash)); found != 0; found &= found - 1) {
                const size_t place = at * lanes + lane(found);
                if (Keys::same(entries[place], view)) return static_cast<uint32_t>(place);
            }
        } while (passed[passage(at, hash)] != 0);
        return nowhere;
    }

    // An entry for a key with this hash.
    [[gnu::always_inline]] Entry& claim(uint64_t hash) {
        const size_t home = bucket(hash);
        const uint64_t free = matches(bucket_tags(home), 0);
        if (free == 0) [[unlikely]] return claim_past(hash, home);
        const size_t place = home * lanes + lane(free);
        tags[place] = home_tag(hash);
        return entries[place];
    }

    [[gnu::always_inline]] void clear(uint32_t place) {
        if (tags[place] < 0x80) [[unlikely]] forget_past(place);
        tags[place] = 0;
        keys.drop(entries[place]);
        entries[place].state = vacant;
    }

    [[gnu::noinline]] Entry& claim_past(uint64_t hash, size_t at) {
        uint64_t free = 0;
        while (free == 0) {
            uint8_t& count = passed[passage(at, hash)];
            count += count < UINT8_MAX;
            at = after(at);
            free = matches(bucket_tags(at), 0);
        }
        const size_t place = at * lanes + lane(free);
        tags[place] = passed_tag(hash);
        return entries[place];
    }

    [[gnu::noinline]] void forget_past(uint32_t place) {
        const uint64_t hashed = hash(Keys::view(entries[place]));
        for (size_t at = bucket(hashed); at != place / lanes; at = after(at)) {
            uint8_t& count = passed[passage(at, hashed)];
            count -= count < UINT8_MAX;
        }
    }

    void resize(size_t count) {
        buckets = count * 2 / lanes + 2;  // half full
        std::vector<Entry> old(buckets * lanes);
        std::vector<uint8_t> new_tags(buckets * lanes, 0), new_passed(4 * buckets, 0);
        old.swap(entries);
        tags.swap(new_tags);
        passed.swap(new_passed);
        room = count;
        for (const Entry& entry : old)
            if (entry.level() != vacant) claim(hash(Keys::view(entry))) = entry;
    }
};

}  // namespace sketches
