// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <mutex>
#include <optional>
#include <vector>

#include "strata/batches/batch.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/label_sets.hpp"

namespace strata::batches {

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

/// What a matrix of labels says of class c of a node with these words.
STRATA_HOST_DEVICE inline float label_value(const std::int32_t* words, Count classes, Count c) {
  if (is_unlabelled(words, classes)) return NAN;
  return has_class(words, c) ? 1.0F : 0.0F;
}

/// The same on a GPU.
void expand_edges_on_gpu(const sampling::Block& block, const EdgePairs& out, const cuda::Stream& stream);
void widen_labels_on_gpu(const PackedLabels& labels, std::int64_t* out, const cuda::Stream& stream);
/// Position of the first bad id, or -1. `first` is one element on the GPU, for the kernel's use.
Count first_bad_id_on_gpu(const IdSpan& ids, Count rows, Count* first, const cuda::Stream& stream);
void expand_label_sets_on_gpu(const PackedLabels& labels, Count classes, float* out,
                              const cuda::Stream& stream);

}  // namespace strata::batches
