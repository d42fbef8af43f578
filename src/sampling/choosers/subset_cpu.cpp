// SPDX-License-Identifier: Apache-2.0
#include "choosers/subset_cpu.hpp"

// One clone per vector width, chosen when the program is loaded. Sanitizers run before that choice is
// possible.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define STRATA_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define STRATA_VECTOR_CLONES
#endif

namespace strata::sampling {
namespace {

// whole vectors of draws, so that short subsets need no loop for the rest
constexpr std::uint32_t kLanes = 16;

STRATA_VECTOR_CLONES
void draw_short(const Subset& subset, std::uint32_t count, std::uint32_t* positions) {
  std::uint32_t draws[Subset::kMaxCount + kLanes];
  for (std::uint32_t begin = 0; begin < count; begin += kLanes) {
    for (std::uint32_t j = 0; j < kLanes; ++j) draws[begin + j] = subset.short_draw(begin + j);
  }
  for (std::uint32_t j = 0; j < count; ++j) positions[j] = draws[j];
}

bool holds(const std::uint32_t* positions, std::uint32_t count, std::uint32_t wanted) {
  bool found = false;
  for (std::uint32_t i = 0; i < count; ++i) found |= positions[i] == wanted;
  return found;
}

}  // namespace

void choose_subset(const Subset& subset, int count, std::uint32_t* positions) {
  const auto size = static_cast<std::uint32_t>(count);
  if (subset.is_short(size)) {
    draw_short(subset, size, positions);
  } else {
    for (std::uint32_t j = 0; j < size; ++j) positions[j] = subset.draw(j);
  }
  // Most draws are distinct. One word shows this for nearly all of them, with one bit per residue of the
  // position modulo 64.
  std::uint64_t met = 0;
  for (std::uint32_t j = 0; j < size; ++j) {
    const std::uint64_t bit = std::uint64_t{1} << (positions[j] % 64);
    if ((met & bit) != 0 && holds(positions, j, positions[j])) positions[j] = subset.first + j;
    met |= std::uint64_t{1} << (positions[j] % 64);
  }
}

}  // namespace strata::sampling
