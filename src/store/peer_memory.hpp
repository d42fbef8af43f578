#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gpu_map.hpp"
#include "strata/comm/machine.hpp"
#include "strata/util/types.hpp"

namespace strata::store {

/// The same number of bytes on every GPU of a machine, which each rank reads and writes: its own directly,
/// the others through CUDA IPC. An owner; the destructor leaves this rank's export to the end of the process,
/// for others may still read it.
class PeerMemory {
 public:
  /// Null on every rank where one of them cannot reach a GPU of the others; `reason` says why then. Throws
  /// OutOfMemory on all ranks if one GPU is too small. Collective over the machine.
  struct Result {
    std::unique_ptr<PeerMemory> memory;
    std::string reason;
  };
  static Result create(const comm::Machine& machine, const GpuMap& gpus, std::size_t bytes_a_gpu,
                       const std::string& name);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// By GPU; device addresses of this process.
  const std::vector<std::byte*>& pointers() const { return pointers_; }
  void close(const comm::Machine& machine);  ///< collective; waits for this device's work

 private:
  explicit PeerMemory(Device device) : device_(device) {}
  void export_own(std::size_t bytes, const std::string& name);
  void import_all(const GpuMap& gpus, int rank, const std::vector<std::string>& handles);
  void close_imports() noexcept;
  void free_export() noexcept;

  Device device_;
  std::byte* exported_ = nullptr;
  std::vector<std::byte*> imports_;  // to be closed; a subset of pointers_
  std::vector<std::byte*> pointers_;
};

}  // namespace strata::store
