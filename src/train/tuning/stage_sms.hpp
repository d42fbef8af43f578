// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/batches/pipeline.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::train {

/// Decides on which SMs of a GPU the stages run; at first all stages have all SMs. An owner of the stream
/// that libtorch uses meanwhile.
class StageSms {
 public:
  StageSms(Device device, batches::Pipeline& pipeline);
  ~StageSms();  ///< libtorch has its own stream again
  StageSms(const StageSms&) = delete;
  StageSms& operator=(const StageSms&) = delete;

  /// Loading moves to the first group, training to the second. Waits for the GPU. REQUIRES: the pipeline has
  /// given its last batch, and what libtorch recorded so far is forgotten.
  void move_to(const cuda::SmSplit& split);
  bool are(const cuda::SmSplit& split) const {
    return split.first == split_.first && split.second == split_.second;
  }

  const cuda::Stream& stream() const { return stream_; }  ///< of training: libtorch's current one
  /// "loading on 16 of 132 SMs, training on 116".
  std::string describe() const;

 private:
  Device device_;
  batches::Pipeline& pipeline_;
  cuda::SmSplit split_;
  cuda::Stream whole_;   // libtorch's own, on all SMs
  cuda::Stream stream_;  // the same, or one of ours
};

}  // namespace strata::train
