// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mutex>
#include <optional>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/block.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::loader {

/// Where the edges of a block go: [num_edges] each.
struct EdgePairs {
  std::int64_t* sources = nullptr;
  std::int64_t* destinations = nullptr;
};
/// Writes a packed block's edges as pairs of local ids, in the order of its lists. On the block's device: at
/// once on the cpu, else asynchronously on `stream`.
void expand_edges(const sampling::Block& block, const EdgePairs& out, const cuda::Stream& stream,
                  ThreadPool& pool);

/// Labels as a pipeline gives them; [count] or [count, words].
struct PackedLabels {
  const std::int32_t* words = nullptr;
  Count count = 0;
};
/// out [count], on the device of `stream`.
void widen_labels(const PackedLabels& labels, std::int64_t* out, const cuda::Stream& stream);
/// out [count, classes]: 1 where a node has the class, else 0; nan in rows without labels.
void expand_label_sets(const PackedLabels& labels, Count classes, float* out, const cuda::Stream& stream);

struct BadId {
  Count position;
  NodeId id;
};
/// Looks for ids that are no rows, on any thread. It keeps the memory that a GPU needs for this, because
/// freeing memory of a GPU waits for all of its work.
class IdCheck {
 public:
  /// The first id outside [0, rows), if there is one. The ids lie on the device of `stream`, for which it
  /// waits.
  std::optional<BadId> find(const IdSpan& ids, Count rows, const cuda::Stream& stream);

 private:
  using Word = cuda::Array<Count>;  ///< one element on the GPU
  Count first_bad_position(const IdSpan& ids, Count rows, const cuda::Stream& stream);
  Word take_word(Device device);

  std::mutex mutex_;
  std::vector<Word> unused_;
};

/// The same on a GPU.
void expand_edges_on_gpu(const sampling::Block& block, const EdgePairs& out, const cuda::Stream& stream);
void widen_labels_on_gpu(const PackedLabels& labels, std::int64_t* out, const cuda::Stream& stream);
/// Position of the first bad id, or -1. `first` is one element on the GPU, for the kernel's use.
Count first_bad_id_on_gpu(const IdSpan& ids, Count rows, Count* first, const cuda::Stream& stream);
void expand_label_sets_on_gpu(const PackedLabels& labels, Count classes, float* out,
                              const cuda::Stream& stream);

}  // namespace strata::loader
