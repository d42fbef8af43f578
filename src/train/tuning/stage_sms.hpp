// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "loading/batch_loader.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::train {

/// Decides on which SMs of a GPU the stages run; at first all stages have all SMs. An owner of the stream
/// that libtorch uses meanwhile.
class StageSms {
 public:
  StageSms(Device device, BatchLoader& loader);
  ~StageSms();  ///< gives libtorch its own stream back
  StageSms(const StageSms&) = delete;
  StageSms& operator=(const StageSms&) = delete;

  /// Moves loading to the first group and training to the second. Waits for the GPU. REQUIRES: the loader has
  /// returned its last batch, and all recordings of libtorch are forgotten.
  void move_to(const cuda::SmSplit& split);
  bool are(const cuda::SmSplit& split) const {
    return split.first == split_.first && split.second == split_.second;
  }

  const cuda::Stream& stream() const { return stream_; }  ///< of training: libtorch's current one
  /// "loading on 16 of 132 SMs, training on 116".
  std::string describe() const;

 private:
  Device device_;
  BatchLoader& loader_;
  cuda::SmSplit split_;
  cuda::Stream whole_;   // libtorch's own, on all SMs
  cuda::Stream stream_;  // the same, or one of ours
};

}  // namespace strata::train
