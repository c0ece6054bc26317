// Keys of a sketch: how 64-bit integers and byte strings are hashed, compared and stored.
//
// The hash is keyed by four secret random words, so that nobody who chooses keys can choose collisions; it decides
// where a key is stored and nothing else. Equality is always that of the keys. The order (numeric for integers, by
// bytes for strings) depends on the keys alone, not on the seed and not on the stream.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace sketches {

static_assert(std::endian::native == std::endian::little, "keys are read as little-endian words");

// The level of an entry is its count plus the sketch's offset. It fills the low 48 bits of `state`; keys of varying
// length keep their length above it.
constexpr int level_bits = 48;
constexpr uint64_t level_mask = (uint64_t{1} << level_bits) - 1;
constexpr uint64_t vacant = 0;  // level of an entry that has never held a key
constexpr uint64_t most_elements = level_mask >> 1;

// What is in an entry, see counter_table.hpp. A type of its own: plain bytes may alias anything, so that the compiler
// would read the table's fields again after each one written.
enum class Tag : uint8_t {};

struct Seed {
    uint64_t word[4];
};

inline uint64_t fold(uint64_t first, uint64_t second) {
    const unsigned __int128 product = static_cast<unsigned __int128>(first) * second;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t load_word(const uint8_t* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

// ------------------------------------------------------------------------------------------------ integers

class IntegerKeys {
public:
    using View = int64_t;
    struct Entry {
        uint64_t state = vacant;
        int64_t key = 0;

        uint64_t level() const { return state & level_mask; }
    };

    static uint64_t hash(View view, const Seed& seed) {
        return fold(static_cast<uint64_t>(view) ^ seed.word[0], seed.word[1] | 1);
    }
    static bool same(const Entry& entry, View view) { return entry.key == view; }
    static bool same_above(const Entry& entry, View view, uint64_t low) {
        return (entry.key == view) & (entry.state >= low);
    }
    static View view(const Entry& entry) { return entry.key; }
    static void prefetch(const Entry&) {}
    static bool less(const Entry& first, const Entry& second) { return first.key < second.key; }

    // Fields are written one by one: put together elsewhere and copied, they would have to be waited for.
    static void fill(Entry& entry, View view, std::nullptr_t, uint64_t level) {
        entry.state = level;
        entry.key = view;
    }
    std::nullptr_t keep(View) { return nullptr; }
    void drop(const Entry&) {}
    bool any_elsewhere() const { return false; }
    bool crowded() const { return false; }
    void compact(Entry*, const Tag*, size_t) {}
    size_t memory() const { return 0; }
};

// ------------------------------------------------------------------------------------------------ byte strings

// Blocks for the bytes of keys that do not fit into their entries. Blocks of one size class are reused among
// themselves; when more than half as much lies idle as is in use, the owner moves everything into fresh chunks.
class Blocks {
public:
    uint8_t* take(size_t length) {
        const size_t size = rounded(length);
        uint8_t* block;
        if (size > largest) {
            block = static_cast<uint8_t*>(::operator new(size));
            large += size;
        } else if (uint8_t*& head = free_blocks[size / step]; head != nullptr) {
            block = head;
            std::memcpy(&head, block, sizeof head);
        } else {
            if (static_cast<size_t>(limit - next) < size) grow();
            block = std::exchange(next, next + size);
        }
        used += size;
        return block;
    }

    void give_back(uint8_t* block, size_t length) {
        const size_t size = rounded(length);
        used -= size;
        if (size > largest) {
            large -= size;
            ::operator delete(block);
            return;
        }
        uint8_t*& head = free_blocks[size / step];
        std::memcpy(block, &head, sizeof head);
        head = block;
    }

    bool crowded() const { return held > slack && held - slack > (used - large) / 2 * 3; }
    bool any() const { return used > 0; }
    size_t memory() const { return held + large; }

private:
    static constexpr size_t step = 8, largest = 256, slack = size_t{1} << 16;

    uint8_t* free_blocks[largest / step + 1] = {};
    std::vector<std::unique_ptr<uint8_t[]>> chunks;
    uint8_t *next = nullptr, *limit = nullptr;
    size_t held = 0, used = 0, large = 0;

    static size_t rounded(size_t length) { return (length + step - 1) / step * step; }

    void grow() {
        const size_t size = std::min(slack, std::max<size_t>(1024, held / 4 / 1024 * 1024));
        chunks.push_back(std::unique_ptr<uint8_t[]>(new uint8_t[size]));
        next = chunks.back().get();
        limit = next + size;
        held += size;
    }
};

class TextKeys {
public:
    static constexpr size_t within = 16;  // keys up to this length lie in their entries

    // A key that lies elsewhere: its first 16 bytes, zeros past its end, and where it is.
    struct View {
        uint64_t first, second;
        const uint8_t* bytes;
        uint64_t length;
    };
    struct Entry {
        uint64_t state = vacant;
        uint64_t first = 0;
        uint64_t second = 0;  // of a key longer than `within`, where its block is

        uint64_t level() const { return state & level_mask; }
        size_t short_length() const { return state >> level_bits; }
        // Bytes of the key, after their number if `short_length` cannot tell it.
        uint8_t* block() const { return reinterpret_cast<uint8_t*>(second); }
        size_t length() const {
            if (short_length() != long_length) [[likely]] return short_length();
            return load_word(block());
        }
        const uint8_t* bytes() const {
            if (short_length() <= within) return reinterpret_cast<const uint8_t*>(&first);
            return short_length() != long_length ? block() : block() + 8;
        }
    };
    static_assert(sizeof(Entry) == 24 && sizeof(void*) == sizeof(uint64_t));

    // `end` is how far memory may be read.
    static View view(const uint8_t* bytes, size_t length, const uint8_t* end) {
        uint64_t first, second;
        if (end - bytes >= 16) [[likely]] {
            first = load_word(bytes);
            second = load_word(bytes + 8);
        } else {
            uint8_t padded[16] = {};
            if (length > 0) std::memcpy(padded, bytes, std::min<size_t>(16, length));
            first = load_word(padded);
            second = load_word(padded + 8);
        }
        const size_t kept = std::min<size_t>(16, length);
        return {first & masks[kept + 8], second & masks[kept], bytes, length};
    }

    static View view(const Entry& entry) {
        const uint8_t* bytes = entry.bytes();
        return view(bytes, entry.length(), bytes + entry.length());
    }

    static uint64_t hash(const View& view, const Seed& seed) {
        uint64_t hash = fold(view.first ^ seed.word[0] ^ view.length << 48, view.second ^ seed.word[1]);
        if (view.length > 16) {
            for (size_t at = 16; at + 16 < view.length; at += 16)
                hash = fold(load_word(view.bytes + at) ^ seed.word[2] ^ hash,
                            load_word(view.bytes + at + 8) ^ seed.word[3]);
            hash = fold(load_word(view.bytes + view.length - 16) ^ seed.word[2] ^ hash,
                        load_word(view.bytes + view.length - 8) ^ seed.word[3]);
        }
        return hash;
    }

    static bool same(const Entry& entry, const View& view) { return same_above(entry, view, 0); }

    // Whether the entry holds the key and its level is `low` or more: one comparison for the length and the level.
    static bool same_above(const Entry& entry, const View& view, uint64_t low) {
        const uint64_t least = std::min(view.length, long_length) << level_bits | low;
        const bool alike = (entry.first == view.first) & (entry.state - least <= level_mask - low);
        if (view.length <= within) [[likely]] return alike & (entry.second == view.second);
        return alike && same_block(entry, view);
    }

    static void prefetch(const Entry& entry) {
        if (entry.short_length() > within) __builtin_prefetch(entry.block());
    }

    static bool less(const Entry& one, const Entry& other) {
        const uint64_t left = __builtin_bswap64(one.first), right = __builtin_bswap64(other.first);
        if (left != right) return left < right;
        const size_t shorter = std::min(one.length(), other.length());
        const int order = std::memcmp(one.bytes(), other.bytes(), shorter);
        return order != 0 ? order < 0 : one.length() < other.length();
    }

    // What an entry holds after its first word: the second, or a block with all bytes.
    uint64_t keep(const View& view) {
        return view.length <= within ? view.second : reinterpret_cast<uint64_t>(new_block(view));
    }
    static void fill(Entry& entry, const View& view, uint64_t rest, uint64_t level) {
        entry.first = view.first;
        entry.second = rest;
        entry.state = level | std::min(view.length, long_length) << level_bits;
    }

    void drop(const Entry& entry) {
        if (entry.short_length() > within) blocks.give_back(entry.block(), block_size(entry));
    }

    bool any_elsewhere() const { return blocks.any(); }  // keys that hold memory outside of their entries
    bool crowded() const { return blocks.crowded(); }

    // Entries whose tag is 0 hold no key.
    void compact(Entry* entries, const Tag* tags, size_t count) {
        Blocks fresh;
        for (size_t at = 0; at < count; ++at) {
            Entry* const entry = entries + at;
            if (tags[at] == Tag{} || entry->short_length() <= within) continue;
            const size_t size = block_size(*entry);
            uint8_t* block = fresh.take(size);
            std::memcpy(block, entry->block(), size);
            blocks.give_back(entry->block(), size);
            entry->second = reinterpret_cast<uint64_t>(block);
        }
        blocks = std::move(fresh);
    }

    size_t memory() const { return blocks.memory(); }

private:
    static constexpr uint64_t long_length = 0xffff;
    static constexpr uint64_t all = UINT64_MAX;
    // masks[n + 8] keeps the first n bytes of a word; masks[n] those of the word after it.
    static constexpr uint64_t masks[25] = {
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff,
        all, all, all, all, all, all, all, all, all};

    Blocks blocks;

    static size_t block_size(const Entry& entry) {
        return entry.short_length() != long_length ? entry.short_length() : entry.length() + 8;
    }

    uint8_t* new_block(const View& view) {
        const bool counted = view.length >= long_length;
        uint8_t* block = blocks.take(view.length + (counted ? 8 : 0));
        if (counted) std::memcpy(block, &view.length, 8);
        copy(block + (counted ? 8 : 0), view.bytes, view.length);
        return block;
    }

    static bool same_block(const Entry& entry, const View& view) {
        if (entry.length() != view.length) return false;
        const uint8_t* bytes = entry.bytes();
        const size_t last = view.length - 16;
        for (size_t at = 16; at < last; at += 16)
            if (differ(bytes, view.bytes, at)) return false;
        // The first eight bytes are in the entry. What follows them may overlap what comes last.
        return ((load_word(bytes + 8) ^ load_word(view.bytes + 8)) | differ(bytes, view.bytes, last)) == 0;
    }

    static uint64_t differ(const uint8_t* one, const uint8_t* other, size_t at) {
        return (load_word(one + at) ^ load_word(other + at)) | (load_word(one + at + 8) ^ load_word(other + at + 8));
    }

    // Of more than 16 bytes; for up to 32, two copies that overlap spare a call and its branches.
    static void copy(uint8_t* to, const uint8_t* from, size_t length) {
        if (length > 32) {
            std::memcpy(to, from, length);
            return;
        }
        uint8_t first[16], last[16];
        std::memcpy(first, from, 16);
        std::memcpy(last, from + length - 16, 16);
        std::memcpy(to, first, 16);
        std::memcpy(to + length - 16, last, 16);
    }
};

}  // namespace sketches
