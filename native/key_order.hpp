// Putting stored keys in order: a radix sort on the bits in which the keys differ.
//
// Eight bytes of each key are read as a number; bits that all keys share are squeezed out, which keeps the order; the
// highest 32 bits left are sorted, and keys that still tie are sorted again by what follows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sketches {

struct Item {
    uint32_t code;
    uint32_t place;  // of an entry
};
static_assert(sizeof(Item) == sizeof(uint64_t), "words and items share their scratch memory");

namespace order {

constexpr size_t few = 12;

#if defined(__x86_64__)
__attribute__((target("bmi2"))) inline void squeeze_fast(const uint64_t* words, size_t count, uint64_t mask, int shift,
                                                         Item* items) {
    for (size_t at = 0; at < count; ++at) items[at].code = static_cast<uint32_t>(_pext_u64(words[at], mask) >> shift);
}
#endif

// The bits of each word that `mask` selects, moved together by steps of 1, 2, 4, ...: each step moves the bits whose
// distance, the number of unselected bits below them, has that power of two in it.
inline void squeeze_plain(const uint64_t* words, size_t count, uint64_t mask, int shift, Item* items) {
    uint64_t moves[6];
    uint64_t selected = mask, below = ~mask << 1;
    for (int step = 0; step < 6; ++step) {
        uint64_t odd = below;  // at each bit, the parity of the number of unselected bits below it
        for (int distance = 1; distance < 64; distance *= 2) odd ^= odd << distance;
        moves[step] = odd & selected;
        selected = (selected ^ moves[step]) | moves[step] >> (1 << step);
        below &= ~odd;
    }
    for (size_t at = 0; at < count; ++at) {
        uint64_t word = words[at] & mask;
        for (int step = 0; step < 6; ++step) {
            const uint64_t moving = word & moves[step];
            word = (word ^ moving) | moving >> (1 << step);
        }
        items[at].code = static_cast<uint32_t>(word >> shift);
    }
}

inline void squeeze(const uint64_t* words, size_t count, uint64_t mask, int shift, Item* items) {
#if defined(__x86_64__)
    static const bool fast = __builtin_cpu_supports("bmi2") != 0;
    if (fast) return squeeze_fast(words, count, mask, shift, items);
#endif
    squeeze_plain(words, count, mask, shift, items);
}

inline void sort_few_codes(Item* items, size_t count) {
    for (size_t at = 1; at < count; ++at) {
        const Item item = items[at];
        size_t hole = at;
        for (; hole > 0 && items[hole - 1].code > item.code; --hole) items[hole] = items[hole - 1];
        items[hole] = item;
    }
}

// Insertion sort of what is nearly in order; gives up, with the items in some order, where it would take many steps.
inline bool finish_codes(Item* items, size_t count) {
    size_t steps = 2 * count;
    for (size_t at = 1; at < count; ++at) {
        const Item item = items[at];
        if (items[at - 1].code <= item.code) [[likely]] continue;
        size_t hole = at;
        do {
            items[hole] = items[hole - 1];
            --hole;
        } while (hole > 0 && items[hole - 1].code > item.code);
        items[hole] = item;
        if (at - hole > steps) return false;
        steps -= at - hole;
    }
    return true;
}

// One pass of a radix sort, on the bits that `mask` leaves after `shift`; `places` says where each digit starts.
inline void scatter(const Item* from, Item* to, size_t count, int shift, uint32_t mask, uint32_t* places) {
    for (size_t at = 0; at < count; ++at) to[places[from[at].code >> shift & mask]++] = from[at];
}

// Passes over the highest of `width` bits, five more than would tell evenly spread codes apart, then each run that still
// ties by itself. Two passes where there are few codes; where there are many, a third keeps the digits short, so that
// the places they go to stay in the nearest memory.
inline void sort_codes(Item* items, Item* scratch, size_t count, int width) {
    if (count <= few) return sort_few_codes(items, count);
    if (width == 0) return;
    constexpr size_t many = 20'000;
    const bool thrice = count > many;
    const int taken = std::min({width, static_cast<int>(std::bit_width(count)) + 5 + 3 * thrice, thrice ? 27 : 22});
    const int shift = width - taken, digits = thrice ? 3 : 2, bits = (taken + digits - 1) / digits;
    const uint32_t mask = (1u << bits) - 1;
    uint32_t places[3][2048];
    for (int digit = 0; digit < digits; ++digit) std::fill(places[digit], places[digit] + mask + 1, 0);
    if (thrice)
        for (size_t at = 0; at < count; ++at) {
            const uint32_t code = items[at].code >> shift;
            ++places[0][code & mask];
            ++places[1][code >> bits & mask];
            ++places[2][code >> 2 * bits & mask];
        }
    else
        for (size_t at = 0; at < count; ++at) {
            const uint32_t code = items[at].code >> shift;
            ++places[0][code & mask];
            ++places[1][code >> bits & mask];
        }
    for (int digit = 0; digit < digits; ++digit) {
        uint32_t sum = 0;
        for (uint32_t value = 0; value <= mask; ++value) sum += std::exchange(places[digit][value], sum);
    }
    scatter(items, scratch, count, shift, mask, places[0]);
    scatter(scratch, items, count, shift + bits, mask, places[1]);
    if (thrice) {
        scatter(items, scratch, count, shift + 2 * bits, mask, places[2]);
        std::copy(scratch, scratch + count, items);
    }
    if (shift == 0 || finish_codes(items, count)) return;
    for (size_t start = 0, at = 1; at <= count; ++at)
        if (at == count || items[at].code >> shift != items[start].code >> shift) {
            if (at - start > 1) sort_codes(items + start, scratch, at - start, shift);
            start = at;
        }
}

template <typename Keys>
size_t longest(const typename Keys::Entry* entries, const Item* items, size_t count) {
    size_t found = 0;
    for (size_t at = 0; at < count; ++at) found = std::max(found, Keys::length(entries[items[at].place]));
    return found;
}

// Sort items by the keys of their entries, all of which agree on what lies before `depth`. If `hint` is given, it is the
// number of bytes that the keys sorted before had in common, below 8: where these keys do too, one reading is spared.
template <typename Keys>
void sort_items(const typename Keys::Entry* entries, Item* items, uint64_t* words, size_t count, size_t depth,
                size_t* hint = nullptr) {
    if (count <= few) {
        for (size_t at = 1; at < count; ++at) {
            const Item item = items[at];
            size_t hole = at;
            for (; hole > 0 && Keys::less(entries[item.place], entries[items[hole - 1].place]); --hole)
                items[hole] = items[hole - 1];
            items[hole] = item;
        }
        return;
    }
    uint64_t mask = 0;
    bool read = false;
    if (!Keys::words_decide && hint != nullptr && *hint > 0) {
        const auto& one = entries[items[0].place];
        const uint64_t first = Keys::word(one, 0), later = Keys::word(one, *hint);
        uint64_t before = 0;
        for (size_t at = 0; at < count; ++at) {
            const auto& entry = entries[items[at].place];
            before |= Keys::word(entry, 0) ^ first;
            words[at] = Keys::word(entry, *hint);
            mask |= words[at] ^ later;
        }
        read = before >> (64 - 8 * *hint) == 0 && std::countl_zero(mask) < 24;
        if (read) depth = *hint;
    }
    while (!read) {
        const uint64_t first = Keys::word(entries[items[0].place], depth);
        mask = 0;
        for (size_t at = 0; at < count; ++at) {
            if (depth > 0 && at + 8 < count) Keys::prefetch(entries[items[at + 8].place], depth);
            words[at] = Keys::word(entries[items[at].place], depth);
            mask |= words[at] ^ first;
        }
        if (Keys::words_decide) break;
        if (mask == 0 && longest<Keys>(entries, items, count) <= depth + 8) {
            // Zeros stand past the end of a key, so these differ in trailing zero bytes alone: the shorter is smaller.
            std::sort(items, items + count, [&](const Item& first, const Item& second) {
                return Keys::length(entries[first.place]) < Keys::length(entries[second.place]);
            });
            return;
        }
        const size_t shared = mask == 0 ? 8 : static_cast<size_t>(std::countl_zero(mask)) / 8;
        if (shared < 3) break;  // else there is more to tell keys apart further on
        depth += shared;
    }
    if (hint != nullptr) *hint = depth < 8 ? depth : 0;
    const int width = std::popcount(mask), shift = std::max(0, width - 32);
    squeeze(words, count, mask, shift, items);
    sort_codes(items, reinterpret_cast<Item*>(words), count, width - shift);
    if (Keys::words_decide && shift == 0) return;  // distinct keys have distinct codes
    bool ties = false;
    for (size_t at = 1; at < count; ++at) ties |= items[at].code == items[at - 1].code;
    if (!ties) return;
    for (size_t start = 0, at = 1; at <= count; ++at)
        if (at == count || items[at].code != items[start].code) {
            if (at - start > 1)
                sort_items<Keys>(entries, items + start, words, at - start, shift > 0 ? depth : depth + 8);
            start = at;
        }
}

}  // namespace order
}  // namespace sketches
