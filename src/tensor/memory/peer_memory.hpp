// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/types.hpp"

namespace strata::tensor {

/// The same number of bytes on every GPU of a map. Each rank reads and writes all of them: its own directly,
/// the others through CUDA IPC. An owner; the destructor keeps this rank's exports until the process ends,
/// because other ranks may still read them.
class PeerMemory {
 public:
  /// `memory` is null on every rank if one rank cannot reach a GPU of another, or has STRATA_PEER_ACCESS=off
  /// in its environment; `reason` is then set. create() throws OutOfMemory on all ranks if one GPU is too
  /// small, and is collective over the machine.
  struct Result {
    std::unique_ptr<PeerMemory> memory;
    std::string reason;
  };
  static Result create(const comm::Machine& machine, const GpuMap& gpus, std::size_t bytes_per_gpu,
                       const std::string& name);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// Device addresses in this process, by GPU.
  const std::vector<std::byte*>& pointers() const { return pointers_; }
  void close(const comm::Machine& machine);  ///< collective; waits for this device's work

 private:
  /// This rank's memory on one GPU, which other processes open.
  struct Export {
    int gpu;  ///< index in the map
    Device device;
    std::byte* data;
  };

  explicit PeerMemory(Device device) : device_(device) {}
  void export_own(const GpuMap& gpus, int rank, std::size_t bytes, const std::string& name);
  std::string handles() const;  ///< IPC handles of the exports, one after the other
  void import_all(const GpuMap& gpus, int rank, const std::vector<std::string>& handles);
  std::byte* own(int gpu) const;
  void close_imports() noexcept;
  void free_exports() noexcept;

  Device device_;
  std::vector<Export> exports_;
  std::vector<std::byte*> imports_;  // to be closed; a subset of pointers_
  std::vector<std::byte*> pointers_;
};

}  // namespace strata::tensor
