// Loops that the compiler makes one version of for each kind of vector unit, where the system can choose among them.
#pragma once
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define DPTALLY_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DPTALLY_WIDE
#endif
