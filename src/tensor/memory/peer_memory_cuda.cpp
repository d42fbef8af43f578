// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "memory/peer_memory.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/ipc.hpp"
#include "strata/util/text.hpp"

namespace strata::tensor {
namespace {

/// IPC shares whole granules of 2 MiB. Sizes are multiples of it, so that no other allocation lies in a
/// shared granule.
constexpr std::size_t kGranule = std::size_t{2} << 20;

void* allocate(Device device, std::size_t bytes, const std::string& name) {
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, bytes);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // handled here; a later check must not see it
    const cuda::MemoryInfo info = cuda::device_memory(device.index);
    throw OutOfMemory(fmt::format("no room for the striped rows of \"{}\" on {}: wanted {}, free {} of {}",
                                  name, device.str(), format_bytes(static_cast<std::int64_t>(bytes)),
                                  format_bytes(info.free_bytes), format_bytes(info.total_bytes)),
                      "Lower --gpu-memory, store features as bf16 (strata-partition build --features bf16), "
                      "or use more GPUs.");
  }
  cuda::check(code, "cudaMalloc");
  return data;
}

/// The handle of memory; empty if this driver cannot share it, and then there are no stripes.
std::string ipc_handle(void* data) {
  cudaIpcMemHandle_t handle{};
  if (cudaIpcGetMemHandle(&handle, data) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  return {reinterpret_cast<const char*>(&handle), sizeof(handle)};
}

struct Opened {
  std::byte* data = nullptr;
  std::string error;
};

Opened open_handle(const std::string& blob) {
  cudaIpcMemHandle_t handle{};
  if (blob.size() != sizeof(handle)) return {nullptr, "the GPU's memory cannot be shared between processes"};
  std::memcpy(&handle, blob.data(), sizeof(handle));
  void* data = nullptr;
  const cudaError_t code = cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess);
  if (code == cudaSuccess) return {static_cast<std::byte*>(data), {}};
  cudaGetLastError();
  return {nullptr, cudaGetErrorString(code)};
}

/// Lets the current device read another device of this process.
void enable_peer_access(Device other) {
  const cudaError_t code = cudaDeviceEnablePeerAccess(other.index, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return;
  }
  cuda::check(code, "cudaDeviceEnablePeerAccess");
}

}  // namespace

PeerMemory::Result PeerMemory::create(const comm::Machine& machine, const GpuMap& gpus,
                                      std::size_t bytes_per_gpu, const std::string& name) {
  std::unique_ptr<PeerMemory> memory(new PeerMemory(machine.device()));
  const cuda::DeviceGuard guard(machine.device());
  machine.together([&] { memory->export_own(gpus, machine.rank(), bytes_per_gpu, name); });
  const std::vector<std::string> handles =
      machine.communicator().all_gather(machine.size() == 1 ? std::string() : memory->handles());
  std::string failure;
  try {
    if (cuda::peer_access_is_off()) throw CudaError("STRATA_PEER_ACCESS=off is in the environment");
    memory->import_all(gpus, machine.rank(), handles);
  } catch (const CudaError& error) {
    failure = error.what();
  }
  for (const std::string& reason : machine.communicator().all_gather(failure)) {
    if (reason.empty()) continue;
    memory->close(machine);
    return {nullptr, reason};
  }
  return {std::move(memory), {}};
}

PeerMemory::~PeerMemory() { close_imports(); }

void PeerMemory::export_own(const GpuMap& gpus, int rank, std::size_t bytes, const std::string& name) {
  const std::size_t rounded = std::max<std::size_t>(1, (bytes + kGranule - 1) / kGranule) * kGranule;
  for (int gpu = 0; gpu < gpus.size(); ++gpu) {
    const GpuMap::Gpu& of_map = gpus.gpus[static_cast<std::size_t>(gpu)];
    if (of_map.owner != rank) continue;
    const Device device{Device::Kind::cuda, of_map.index};
    const cuda::DeviceGuard guard(device);
    exports_.push_back({gpu, device, static_cast<std::byte*>(allocate(device, rounded, name))});
  }
}

std::string PeerMemory::handles() const {
  std::string handles;
  for (const Export& e : exports_) {
    const cuda::DeviceGuard guard(e.device);
    handles += ipc_handle(e.data);
  }
  return handles;
}

std::byte* PeerMemory::own(int gpu) const {
  const auto found = std::ranges::find(exports_, gpu, &Export::gpu);
  if (found == exports_.end()) return nullptr;
  if (found->device != device_) enable_peer_access(found->device);
  return found->data;
}

void PeerMemory::import_all(const GpuMap& gpus, int rank, const std::vector<std::string>& handles) {
  std::vector<std::size_t> next(handles.size(), 0);  // index of the next handle of each owner
  for (int gpu = 0; gpu < gpus.size(); ++gpu) {
    const int owner = gpus.gpus[static_cast<std::size_t>(gpu)].owner;
    if (owner == rank) {
      pointers_.push_back(own(gpu));
      continue;
    }
    std::size_t& at = next[static_cast<std::size_t>(owner)];
    const std::string& of_owner = handles[static_cast<std::size_t>(owner)];
    const Opened opened =
        open_handle(at < of_owner.size() ? of_owner.substr(at, sizeof(cudaIpcMemHandle_t)) : std::string());
    at += sizeof(cudaIpcMemHandle_t);
    if (opened.data == nullptr) {
      throw CudaError(fmt::format("rank {} of the machine ({}) cannot reach a GPU of rank {}: {}", rank,
                                  device_.str(), owner, opened.error));
    }
    imports_.push_back(opened.data);
    pointers_.push_back(opened.data);
  }
}

void PeerMemory::close_imports() noexcept {
  try {
    const cuda::DeviceGuard guard(device_);
    for (std::byte* data : imports_) cudaIpcCloseMemHandle(data);
  } catch (const std::exception&) {  // the device is lost, and its mappings with it
  }
  imports_.clear();
}

void PeerMemory::free_exports() noexcept {
  try {
    for (const Export& e : exports_) {
      const cuda::DeviceGuard guard(e.device);
      cudaFree(e.data);
    }
  } catch (const std::exception&) {  // the device is lost, and its memory with it
  }
  exports_.clear();
}

void PeerMemory::close(const comm::Machine& machine) {
  const cuda::DeviceGuard guard(device_);
  cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  close_imports();
  machine.barrier();
  free_exports();
  pointers_.clear();
}

}  // namespace strata::tensor
