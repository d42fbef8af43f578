// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "strata/util/types.hpp"

/// Decides what a machine keeps where its batches read it fast. Pure functions.
namespace strata::plan {

/// What competes for memory: feature rows and neighbor lists, of the machine's own nodes and of nodes that
/// other machines own.
enum class Keepable : std::uint8_t { own_rows, own_lists, other_rows, other_lists };
inline constexpr std::size_t kKeepables = 4;
constexpr std::size_t index_of(Keepable kind) { return static_cast<std::size_t>(kind); }

/// Rows, or lists, that all save about the same time per byte.
struct KeepGroup {
  Keepable kind{};
  Count count = 0;
  std::int64_t bytes = 0;    ///< that all of them take
  double saved_seconds = 0;  ///< of a batch, if all of them are kept
};

struct KeepLimits {
  std::int64_t bytes = 0;  ///< for all kinds together
  /// By kind: seconds of a batch as soon as one of it is kept. Every node that is asked for is looked for.
  std::array<double, kKeepables> look_ups{};
};

/// Some of the four kinds: bit index_of(kind).
using KeepKinds = unsigned;
inline constexpr std::size_t kKeepSets = std::size_t{1} << kKeepables;
constexpr KeepKinds set_of(Keepable kind) { return 1U << index_of(kind); }
inline constexpr KeepKinds kKeepAll = kKeepSets - 1;

struct KeepPlan {
  struct Kept {
    Count count = 0;
    std::int64_t bytes = 0;
    double saved_seconds = 0;
  };
  std::array<Kept, kKeepables> kept{};
  double saved_seconds = 0;  ///< less the look-ups of the kinds that are kept

  const Kept& of(Keepable kind) const { return kept[index_of(kind)]; }
};

/// Takes from the groups of `kinds` what saves most time per byte, until the memory is full. The last group
/// is taken in part. What saves nothing is left.
///
/// 100 bytes, rows {10 x 8 bytes, 40 us} and lists {5 x 30 bytes, 30 us}: 0.5 and 0.2 us per byte, so all 10
/// rows are kept, and no list, because 20 bytes hold none.
KeepPlan keep(std::span<const KeepGroup> groups, const KeepLimits& limits, KeepKinds kinds = kKeepAll);

/// The set that saves most, the one with fewer kinds of equal ones. The empty set if none saves at least
/// `least` seconds. `saved`: KeepPlan::saved_seconds by set, which machines that agree on one have added up.
KeepKinds best_kinds(std::span<const double, kKeepSets> saved, double least);

}  // namespace strata::plan
