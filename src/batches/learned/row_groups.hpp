// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "learned/row_rules.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/random.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::batches {

/// A list of rows, sorted: equal ones are a group. A view.
///
///     list {7, 3, 7, -1}, end 9     rows {3, 7, 7, 9}   order {1, 0, 2, 3}
struct RowGroups {
  const NodeId* rows = nullptr;         ///< [count] ascending; `end` is no row
  const std::int32_t* order = nullptr;  ///< [count] where each stood in the list; ascending in a group
  Count count = 0;
  NodeId end = 0;

  STRATA_HOST_DEVICE bool begins_at(Count i) const {
    return rows[i] < end && (i == 0 || rows[i - 1] != rows[i]);
  }
  /// Bounds of the group of entry i, whose size is mostly 1: found in steps that double.
  STRATA_HOST_DEVICE Count end_of(Count i) const { return i + 1 + equal_from(i, 1); }
  STRATA_HOST_DEVICE Count begin_of(Count i) const { return i - equal_from(i, -1); }

 private:
  STRATA_HOST_DEVICE Count equal_from(Count i, Count direction) const {
    const auto is_equal = [&](Count distance) {
      const Count other = i + direction * distance;
      return other >= 0 && other < count && rows[other] == rows[i];
    };
    Count found = 0, step = 1;
    while (is_equal(found + step)) {
      found += step;
      step *= 2;
    }
    for (step /= 2; step > 0; step /= 2)
      if (is_equal(found + step)) found += step;
    return found;
  }
};

/// The sums of the gradients of each group, in a tree whose shape follows from the group's size only. A view.
///
/// A part of level l sums 32^l entries of a group, or up to twice as many at its end; level 0 are the
/// gradients. A group's sum is that of its parts of the highest level of which it has one. So no sum has more
/// than 63 terms, unless a group has more than 2^20 entries.
struct GradientSums {
  static constexpr int kLevels = 3, kFanBits = 5;

  RowGroups groups;
  const float* gradients = nullptr;  ///< [.., cols]
  Count cols = 0;
  /// [count >> 5 l, cols] by level, of which the first is not used. The part that begins at entry i has row i
  /// >> 5 l.
  std::array<float*, kLevels + 1> parts{};

  static constexpr int shift(int level) { return kFanBits * level; }
  STRATA_HOST_DEVICE static int level_of(Count size) {
    int level = 0;
    while (level < kLevels && size >> shift(level + 1) > 0) ++level;
    return level;
  }
  STRATA_HOST_DEVICE const float* row(int level, Count begin) const {
    return level == 0 ? gradients + groups.order[begin] * cols
                      : parts[at(level)] + (begin >> shift(level)) * cols;
  }
  /// Terms of a sum: rows of one level.
  struct Terms {
    int level = 0;
    Count begin = 0, count = 0;
  };
  STRATA_HOST_DEVICE const float* term(const Terms& terms, Count k) const {
    return row(terms.level, terms.begin + (k << shift(terms.level)));
  }
  STRATA_HOST_DEVICE Terms terms_of(Count begin, Count end) const {
    const int level = level_of(end - begin);
    return {level, begin, (end - begin) >> shift(level)};
  }
  /// The terms of the part of a level that has this row of parts[level]; none if there is no such part.
  STRATA_HOST_DEVICE Terms terms_of_part(int level, Count row) const {
    const Count first = row << shift(level), last = first + (Count{1} << shift(level)) - 1;
    const Terms terms = part_from(level, groups.begin_of(first), groups.end_of(first), first);
    if (terms.count > 0 || groups.rows[last] == groups.rows[first]) return terms;
    const Count begin = groups.begin_of(last);
    return part_from(level, begin, groups.end_of(last), begin);
  }

 private:
  /// The part of the group that begins at `from` or less than a part behind it.
  STRATA_HOST_DEVICE Terms part_from(int level, Count begin, Count end, Count from) const {
    const Count parts_of_group = (end - begin) >> shift(level);
    const Count index = (from - begin + (Count{1} << shift(level)) - 1) >> shift(level);
    if (groups.rows[begin] >= groups.end || index >= parts_of_group) return {};
    const Count children = (end - begin) >> shift(level - 1), before = index << kFanBits;
    return {level - 1, begin + (index << shift(level)),
            index + 1 == parts_of_group ? children - before : Count{1} << kFanBits};
  }
};

/// The rows that one rank owns, and their state; null where there is none. A view of its device's memory, or
/// of host memory that the device reaches.
struct OwnRows {
  NodeId first = 0;  ///< the row of weights[0]
  Count cols = 0;
  float* weights = nullptr;       ///< [rows, cols]
  std::array<float*, 2> state{};  ///< [rows, cols], or [rows] of rowwise_adagrad
};

/// Where rows of ids are.
struct DealtRows {
  static constexpr Count kBlock = 64;
  struct OfMachine {
    NodeId first_id, end_id;
    NodeId first_row;
    Count ranks, rows_per_rank;
  };
  const OfMachine* machines = nullptr;
  int num_machines = 0;

  /// -1 for an id that has none.
  STRATA_HOST_DEVICE NodeId row_of(NodeId id) const {
    for (int m = 0; m < num_machines; ++m) {
      const OfMachine& machine = machines[m];
      if (id < machine.first_id || id >= machine.end_id) continue;
      const Count i = id - machine.first_id;
      if (machine.ranks == 1) return machine.first_row + i;
      const Count block = i / kBlock;
      return machine.first_row + block % machine.ranks * machine.rows_per_rank +
             block / machine.ranks * kBlock + i % kBlock;
    }
    return -1;
  }
};

/// Distinct rows, ascending, with what belongs to each. A view.
struct ListedRows {
  const NodeId* rows = nullptr;       ///< on the device
  const std::byte* values = nullptr;  ///< [rows, row_bytes] on the device
  Count row_bytes = 0;
  std::vector<Count> offsets;  ///< [bounds] how many rows lie below each bound
  Count count() const { return offsets.back(); }
};

/// Groups lists of rows, and does what depends on groups. An owner of the memory that this takes: what it
/// returns is good until the next call of the same function. Calls are asynchronous on a GPU's stream, unless
/// they say that they wait; all arrays lie on its device.
class RowGrouper {
 public:
  virtual ~RowGrouper() = default;

  virtual void map(const NodeId* ids, Count count, const DealtRows& dealt, NodeId* rows,
                   const cuda::Stream& stream) = 0;
  /// Rows outside of [0, end) are none. REQUIRES: count < 2^31.
  virtual RowGroups group(const NodeId* rows, Count count, NodeId end, const cuda::Stream& stream) = 0;
  virtual GradientSums sum(const RowGroups& groups, const float* gradients, Count cols,
                           const cuda::Stream& stream) = 0;
  virtual void update(const GradientSums& sums, const OwnRows& rows, RowOptimizer optimizer,
                      const RowStep& step, const cuda::Stream& stream) = 0;
  /// The rows of the groups with their sums. Waits. `bounds` ascend, from 0 to the groups' end.
  virtual ListedRows list_sums(const GradientSums& sums, std::span<const NodeId> bounds,
                               const cuda::Stream& stream) = 0;
  /// The same with the last of each group's `values`, [.., row_bytes].
  virtual ListedRows list_last(const RowGroups& groups, const std::byte* values, Count row_bytes,
                               std::span<const NodeId> bounds, const cuda::Stream& stream) = 0;
};

std::unique_ptr<RowGrouper> make_row_grouper(Device device, ThreadPool& pool);
std::unique_ptr<RowGrouper> make_row_grouper_on_gpu(Device device);  ///< CUDA builds only

}  // namespace strata::batches
