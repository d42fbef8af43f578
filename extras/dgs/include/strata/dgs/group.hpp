// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "strata/comm/backend.hpp"
#include "strata/comm/machine.hpp"
#include "strata/dgs/chunk_tensor.hpp"
#include "strata/util/threads.hpp"

namespace strata::dgs {

/// The ranks of one machine that make tensors together, as with Dist-GPU-sampling's NCCL communicator. An
/// owner.
///
/// Its tensors live here. Memory of a tensor that all ranks have dropped returns at the next create() or
/// close(), because no destructor waits for others. Calls that are collective come from one thread at a time.
class Group {
 public:
  /// Collective over the backend's ranks. `gpu`: the GPU that this rank uses, or the cpu where it has none;
  /// if one rank has none, all ranks work on the host. Throws InputError on all ranks if they do not share
  /// memory.
  Group(std::shared_ptr<comm::Backend> backend, Device gpu);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  int rank() const { return machine_->rank(); }
  int size() const { return machine_->size(); }
  Device device() const { return machine_->device(); }
  const comm::Machine& machine() const { return *machine_; }
  ThreadPool& pool() { return pool_; }

  /// Collective: all ranks give the same shape, type and capacity, else InputError on all of them.
  std::shared_ptr<ChunkTensor> create(const ChunkTensor::Spec& spec);
  /// Returns the memory of a tensor now. Collective. Throws InputError on all ranks if one of them still has
  /// something of it, such as a view; then nothing happened.
  void close(std::shared_ptr<ChunkTensor> tensor);
  /// Bytes of this rank's GPU that tensors hold.
  Count allocated_bytes() const;
  /// Leaves the group. Collective. Throws InputError on all ranks if one of them still holds a tensor.
  void close();

 private:
  using Number = std::int64_t;  ///< of a tensor: how many were made before it

  void free_dropped();
  std::vector<Number> dropped_by_all() const;
  void free(Number number);

  std::unique_ptr<comm::World> world_;
  std::unique_ptr<comm::Machine> machine_;
  int num_gpus_ = 0, own_gpu_ = -1;
  ThreadPool pool_;
  mutable std::mutex mutex_;  // of the map, which allocated_bytes() reads at any time
  std::map<Number, std::shared_ptr<ChunkTensor>> tensors_;
  Number made_ = 0;
};

}  // namespace strata::dgs
