// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::cuda {

int device_count();                   ///< 0 without CUDA, without a driver or without a GPU
std::string device_name(int device);  ///< "NVIDIA H200"
std::string device_uuid(int device);  ///< names the physical GPU across processes

struct MemoryInfo {
  std::int64_t free_bytes, total_bytes;
};
MemoryInfo device_memory(int device);
int num_multiprocessors(int device);

/// Makes `device` current for this thread while it lives. Does nothing for the cpu.
///
///     const DeviceGuard guard(device);
///     kernel<<<blocks, threads, 0, stream.get()>>>(...);
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = -1;
};

/// Address on the PCI bus: "0000:3B:00.0". Empty in builds without CUDA.
std::string pci_address(int device);

/// The way from one GPU of this process to another.
struct PeerLink {
  int from = 0, to = 0;  ///< devices
  bool access = false;   ///< a kernel on `from` can read the memory of `to`
  int kind = 0;          ///< the driver's rank of links, 0 being the best; alike for links that are alike
  /// What it runs over, by nvidia-smi's names: "NV18" for 18 NVLinks ("NVLink" if their number is not
  /// known), "PIX" and "PXB" for PCIe switches, "PHB", "NODE" and "SYS" for ways through processors; empty:
  /// not known.
  std::string path = {};
  double bytes_per_second = 0;  ///< of a copy; 0: not measured
};

/// All pairs, each way, without touching the GPUs' memory.
std::vector<PeerLink> find_peer_links();

/// Measures copies of `bytes` along each of the links, one after the other. Takes as much memory on each
/// GPU, and a context. Throws OutOfMemory and CudaError.
void measure_peer_links(std::vector<PeerLink>& links, std::size_t bytes);

/// Registers host memory with CUDA so that kernels read it in place; an owner of the registration, not of the
/// memory. Memory is registered in blocks of at most 64 GiB, which end at multiples of 64 GiB. Does nothing
/// without a GPU. Throws CudaError with the remedy (the memlock limit).
class Registration {
 public:
  Registration() = default;
  Registration(void* data, std::size_t bytes);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// {"CUDA 13.0", "CUDA driver 13.0"}: the runtime, and the newest that the driver knows, where there is one.
/// Empty in builds without CUDA.
std::vector<std::string> library_versions();

}  // namespace strata::cuda
