// Snappy's raw format, decoded into a buffer of known size.
//
// There are two kinds of elements, literals and copies of what was written before, and both come down to moving bytes.
// Which comes next can hardly be foretold, so away from the ends of the buffers short ones are moved without a branch
// on their kind: always 32 bytes, of which those past the element are overwritten by the next one. Long ones, copies of
// themselves and those near an end are moved with care.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace snappy {

struct Tag {
    uint8_t length;         // of the element; of literals with more than 60 bytes, see `decode_one`
    uint8_t header;         // bytes the tag and its number take
    uint16_t far;           // what the tag adds to the distance
    uint32_t mask;          // which of the four bytes after the tag are the distance
    uint64_t literal_mask;  // all bits set for a literal, none for a copy
};

constexpr std::array<Tag, 256> make_tags() {
    std::array<Tag, 256> tags{};
    for (unsigned byte = 0; byte < 256; ++byte) {
        const auto length = static_cast<uint8_t>((byte >> 2) + 1);
        switch (byte & 3) {
            case 0: tags[byte] = {length, 1, 0, 0, UINT64_MAX}; break;
            case 1: {
                const auto short_length = static_cast<uint8_t>((byte >> 2 & 7) + 4);
                tags[byte] = {short_length, 2, static_cast<uint16_t>(byte >> 5 << 8), 0xff, 0};
                break;
            }
            case 2: tags[byte] = {length, 3, 0, 0xffff, 0}; break;
            default: tags[byte] = {length, 5, 0, UINT32_MAX, 0};
        }
    }
    return tags;
}

inline constexpr std::array<Tag, 256> tags = make_tags();

class Decoder {
public:
    Decoder(const uint8_t* input, size_t input_size, uint8_t* output, size_t size)
        : input(input), input_end(input + input_size), start(output), output(output), output_end(output + size) {}

    // Whether the input is whole and stands for exactly as many bytes as the output has.
    bool decode() {
        if (!starts_with_size()) return false;
        while (input != input_end) {
            decode_short_ones();
            if (!decode_one()) return false;
        }
        return output == output_end;
    }

private:
    static constexpr ptrdiff_t margin = 64;  // more than an element of 32 bytes, its header and what is moved beyond it

    const uint8_t *input, *const input_end;
    uint8_t *const start, *output, *const output_end;

    bool starts_with_size() {
        uint64_t size = 0;
        for (int shift = 0; shift < 35; shift += 7) {
            if (input == input_end) return false;
            size |= static_cast<uint64_t>(*input & 0x7f) << shift;
            if (*input++ < 0x80) return size == static_cast<uint64_t>(output_end - start);
        }
        return false;
    }

    // Stops before the first element that is not short, or not right, and before the margins.
    void decode_short_ones() {
        const uint8_t* from_input = input;
        uint8_t* to = output;
        while (input_end - from_input > margin && output_end - to > margin) {
            const Tag& tag = tags[*from_input];
            uint32_t after;
            std::memcpy(&after, from_input + 1, sizeof after);
            const uint64_t distance = (after & tag.mask) + tag.far, length = tag.length;
            const uint64_t reach = distance | (tag.literal_mask & 32);  // a copy must not reach into itself
            if ((length > 32) | (reach < length) | (distance > static_cast<uint64_t>(to - start))) [[unlikely]] break;
            const uint8_t* const body = from_input + tag.header;
            const auto here = reinterpret_cast<uintptr_t>(body), back = reinterpret_cast<uintptr_t>(to) - distance;
            const auto* from = reinterpret_cast<const uint8_t*>(back ^ ((back ^ here) & tag.literal_mask));
            uint8_t moved[32];
            std::memcpy(moved, from, sizeof moved);
            std::memcpy(to, moved, sizeof moved);
            to += length;
            from_input = body + (length & tag.literal_mask);
        }
        input = from_input;
        output = to;
    }

    bool decode_one() {
        if (input == input_end) return true;
        const Tag& tag = tags[*input];
        uint64_t length = tag.length, header = tag.header;
        const bool literal = tag.literal_mask != 0;
        if (literal && length > 60) header += length - 60;  // the length is in 1 to 4 bytes after the tag
        if (static_cast<size_t>(input_end - input) < header) return false;
        uint32_t after = 0;
        std::memcpy(&after, input + 1, header - 1);
        input += header;
        if (literal && tag.length > 60) length = uint64_t{after} + 1;
        if (length > static_cast<size_t>(output_end - output)) return false;
        if (literal) {
            if (length > static_cast<size_t>(input_end - input)) return false;
            std::memcpy(output, input, length);
            input += length;
        } else {
            const uint64_t distance = (after & tag.mask) + tag.far;
            if (distance == 0 || distance > static_cast<uint64_t>(output - start)) return false;
            for (uint64_t at = 0; at < length; ++at) output[at] = (output - distance)[at];  // may repeat itself
        }
        output += length;
        return true;
    }
};

}  // namespace snappy
