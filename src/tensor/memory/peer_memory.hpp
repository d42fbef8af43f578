// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/tensor/gpu_map.hpp"
#include "strata/util/types.hpp"

namespace strata::tensor {

/// The same number of bytes on every GPU of a map, which each rank reads and writes: its own directly, the
/// others through CUDA IPC. An owner; the destructor leaves this rank's exports to the end of the process,
/// for others may still read them.
class PeerMemory {
 public:
  /// Null on every rank where one of them cannot reach a GPU of the others, or if STRATA_PEER_ACCESS=off is
  /// in the environment of one; `reason` says why then. Throws OutOfMemory on all ranks if one GPU is too
  /// small. Collective over the machine.
  struct Result {
    std::unique_ptr<PeerMemory> memory;
    std::string reason;
  };
  static Result create(const comm::Machine& machine, const GpuMap& gpus, std::size_t bytes_per_gpu,
                       const std::string& name);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// By GPU; device addresses of this process.
  const std::vector<std::byte*>& pointers() const { return pointers_; }
  void close(const comm::Machine& machine);  ///< collective; waits for this device's work

 private:
  /// Memory of this rank's on one GPU, and what other processes open it with.
  struct Export {
    int gpu;  ///< in the map
    Device device;
    std::byte* data;
  };

  explicit PeerMemory(Device device) : device_(device) {}
  void export_own(const GpuMap& gpus, int rank, std::size_t bytes, const std::string& name);
  std::string handles() const;  ///< of the exports, one after the other
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
