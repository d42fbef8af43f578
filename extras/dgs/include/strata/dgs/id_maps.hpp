// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

#include "strata/cuda/stream.hpp"
#include "strata/sampling/one_hop.hpp"
#include "strata/util/types.hpp"

/// Hash tables of ids: new numbers for nodes, and Dist-GPU-sampling's cache of hot rows.
namespace strata::dgs {

/// Resources of id maps: memory of the stream's device that lives as long as what is made of it.
struct Workspace {
  cuda::Stream stream;
  std::function<void*(std::size_t bytes)> allocate;
};

/// New numbers for ids, in the order in which they first appear.
///
///     ids 7 3 7 9:   unique 7 3 9,   relabel(9 7) gives 2 0
class Relabeling {
 public:
  virtual ~Relabeling() = default;
  virtual Count num_unique() const = 0;
  virtual void unique(void* out) const = 0;  ///< [num_unique] in the type of the ids
  /// out[i] in the type of `ids`; -1 for an id that does not appear.
  virtual void relabel(const IdSpan& ids, void* out) const = 0;
};
/// `ids` outlive it. Waits for the number of unique ids.
std::unique_ptr<Relabeling> make_relabeling(const IdSpan& ids, const Workspace& workspace);

/// A table from ids to ids in memory of the caller; a view. Keys that are not there are -1.
struct HashMapView {
  void* keys = nullptr;    ///< [capacity]
  void* values = nullptr;  ///< [capacity]
  Count capacity = 0;      ///< a power of two
  bool wide = true;        ///< i64, else i32
};
Count capacity_for(Count num_keys);
/// Fills an empty table, all of whose keys are -1. The keys are distinct and not negative; of the type of the
/// table, as the values are.
void fill(const HashMapView& map, const IdSpan& keys, const IdSpan& values, const cuda::Stream& stream);

/// Rows that the stream's device reads; sizes of the array are in rows.
struct RowSource {
  sampling::PiecedArray rows;
  Count row_bytes = 0;
};
/// out[i] = row map[ids[i]] of `hot` if there is such a key, else row ids[i] of `cold`. On the cpu throws
/// std::out_of_range for an id that is in neither; on a GPU such a row is zeros.
void fetch(const HashMapView& map, const IdSpan& ids, const RowSource& hot, const RowSource& cold, void* out,
           const cuda::Stream& stream);

}  // namespace strata::dgs
