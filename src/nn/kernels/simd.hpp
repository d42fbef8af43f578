// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/util/types.hpp"

/// Compiles loops for several instruction sets and chooses the best one at run time, so that programs stay
/// portable.
///
/// Without contraction and with one column per lane, all instruction sets give the same bits.
namespace strata::nn {

#if defined(__x86_64__)
enum class InstructionSet { base, avx2, avx512 };

inline InstructionSet best_instruction_set() {
  static const InstructionSet best =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
          ? InstructionSet::avx512
      : __builtin_cpu_supports("avx2") ? InstructionSet::avx2
                                       : InstructionSet::base;
  return best;
}

template <typename Body>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"), flatten, noinline)) void
run_avx512(const Body& body, Count begin, Count end) {
  body(begin, end);
}

template <typename Body>
__attribute__((target("avx2"), flatten, noinline)) void run_avx2(const Body& body, Count begin, Count end) {
  body(begin, end);
}

/// Calls body(begin, end), whose whole call tree must be inline.
template <typename Body>
void run_vectorized(const Body& body, Count begin, Count end) {
  switch (best_instruction_set()) {
    case InstructionSet::avx512:
      return run_avx512(body, begin, end);
    case InstructionSet::avx2:
      return run_avx2(body, begin, end);
    case InstructionSet::base:
      return body(begin, end);
  }
}
#else
template <typename Body>
void run_vectorized(const Body& body, Count begin, Count end) {
  body(begin, end);
}
#endif

}  // namespace strata::nn
