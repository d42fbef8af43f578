// SPDX-License-Identifier: Apache-2.0
#include "collectives/reducer_mpi.hpp"

#include <algorithm>

#include "collectives/transfers.hpp"
#include "state.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::comm {

MpiReducer::MpiReducer(const Communicator& world, Device device, Count chunk)
    : communicator_(world.duplicate()), device_(device), chunk_(chunk) {}

const char* MpiReducer::name() const { return Internals::of(communicator_).backend->name(); }

void MpiReducer::sum(float* data, Count count, const cuda::Stream& stream) {
  if (communicator_.size() == 1) return;
  if (device_.is_cuda()) {
    sum_on_device(data, count, stream);
  } else {
    sum_on_host(data, count);
  }
}

void MpiReducer::sum_on_device(float* data, Count count, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(device_);
  if (staging_.size() < std::min(count, chunk_)) {
    staging_ =
        cuda::Array<float>(cuda::Memory::pinned, std::min(count, chunk_), "the gradient all-reduce", device_);
  }
  for (Count begin = 0; begin < count; begin += chunk_) {
    const Count size = std::min(chunk_, count - begin);
    const std::size_t bytes = at(size) * sizeof(float);
    cuda::copy_async(staging_.data(), data + begin, bytes, stream);
    stream.synchronize();
    sum_chunk(staging_.data(), size);
    cuda::copy_async(data + begin, staging_.data(), bytes, stream);
    stream.synchronize();  // because the staging memory is written again next
  }
}

void MpiReducer::sum_on_host(float* data, Count count) {
  for (Count begin = 0; begin < count; begin += chunk_)
    sum_chunk(data + begin, std::min(chunk_, count - begin));
}

void MpiReducer::sum_chunk(float* data, Count count) {
  const GroupState& state = Internals::of(communicator_);
  const int size = state.size, self = state.rank;
  const auto bytes_of = [&](int rank) {
    return (slice_begin(count, rank + 1) - slice_begin(count, rank)) * static_cast<Count>(sizeof(float));
  };
  const Count begin = slice_begin(count, self), width = slice_begin(count, self + 1) - begin;
  incoming_.resize(at(width * size));
  Transfers slices(state);
  for (int step = 1; step < size; ++step) {
    const int from = (self + size - step) % size, to = (self + step) % size;
    slices.receive(incoming_.data() + width * from, bytes_of(self), from);
    slices.send(data + slice_begin(count, to), bytes_of(to), to);
  }
  std::copy_n(data + begin, width, incoming_.data() + width * self);
  slices.wait();
  std::copy_n(incoming_.data(), width, data + begin);
  for (int rank = 1; rank < size; ++rank) {
    const float* addend = incoming_.data() + width * rank;
    for (Count i = 0; i < width; ++i) data[begin + i] += addend[i];
  }
  Transfers sums(state);
  for (int step = 1; step < size; ++step) {
    const int from = (self + size - step) % size, to = (self + step) % size;
    sums.receive(data + slice_begin(count, from), bytes_of(from), from);
    sums.send(data + begin, bytes_of(self), to);
  }
  sums.wait();
}

}  // namespace strata::comm
