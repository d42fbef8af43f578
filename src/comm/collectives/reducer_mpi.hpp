// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/comm/reducer.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::comm {

/// Sums in host memory: every rank sums a slice of the buffer, always in order of rank, and sends the sums to
/// all. So each rank sends and receives about twice the buffer, and all ranks and runs get the same bits.
class MpiReducer final : public AllReducer {
 public:
  /// Works on `chunk` values at a time, which bounds the staging memory.
  MpiReducer(const Communicator& world, Device device, Count chunk = Count{1} << 22);

  void sum(float* data, Count count, const cuda::Stream& stream) override;
  const char* name() const override;
  void close() override { communicator_.close(); }

 private:
  void sum_on_device(float* data, Count count, const cuda::Stream& stream);
  void sum_on_host(float* data, Count count);
  void sum_chunk(float* data, Count count);
  Count slice_begin(Count count, int rank) const { return count * rank / communicator_.size(); }

  Communicator communicator_;
  Device device_;
  Count chunk_;
  cuda::Array<float> staging_;   // pinned; a device buffer is summed here
  std::vector<float> incoming_;  // this rank's slice, from every other rank
};

}  // namespace strata::comm
