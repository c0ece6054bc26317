"""Public sets of keys, far too large to list, each numbered from 0 to size - 1.

A pure mechanism must be able to report any key that anybody might have, so the set of all keys has to be stated without
looking at the data. A universe is such a set with a bijection to 0 .. size - 1 in the order of the set. Every key has
one written form: "01.2.3.4" is no address of `ipv4`, though people may mean one by it. Numbers and dates may also come
as text, as they do in CSV files: "7", not "07", and "2024-01-31". Whatever is not a key, missing values too, is
outside; rows outside are left out of a release silently, since a refusal would tell that they exist.

Ready-made, by name (`read_universe`):

=======================  ===============================================================================================
``uint64``               whole numbers from 0 to 2^64 - 1
``ipv4``                 "192.0.2.1", in the order of the addresses
``ipv6``                 "2001:db8::1": lower case, no leading zeros, the first longest run of two or more zero groups
                         as "::" (RFC 5952, section 4), never with a dotted end
``uuid``                 lower case with dashes, all 2^128 of them
``date``                 0001-01-01 to 9999-12-31
``e164``                 "+" and 1 to 15 digits, the first of them not 0, in the order of the numbers
``words:12``             lower-case words of 1 to 12 letters a-z, shorter ones first
``strings:4:ACGT``       strings of exactly 4 characters out of "ACGT", in the order of the alphabet given
``integers:-5..99``      whole numbers from -5 to 99
=======================  ===============================================================================================
"""

from dptally.universes.kinds import (
    Bijection,
    Dates,
    FixedStrings,
    IntegerRange,
    Ipv4,
    Ipv6,
    PhoneNumbers,
    Universe,
    Uuids,
    Words,
    read_universe,
)

__all__ = [
    "Bijection",
    "Dates",
    "FixedStrings",
    "IntegerRange",
    "Ipv4",
    "Ipv6",
    "PhoneNumbers",
    "Universe",
    "Uuids",
    "Words",
    "read_universe",
]
