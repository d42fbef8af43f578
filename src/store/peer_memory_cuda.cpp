#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "agreement.hpp"
#include "peer_memory.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/runtime.hpp"
#include "strata/util/format.hpp"

namespace strata::store {
namespace {

/// IPC shares whole 2 MiB granules; with sizes that are multiples of it no other allocation lies in a shared
/// one.
constexpr std::size_t kGranule = std::size_t{2} << 20;

void* allocate(Device device, std::size_t bytes, const std::string& name) {
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, bytes);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // handled here; must not surface in a later check
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

/// Empty if this driver cannot share memory (then nobody can import it and stripes are given up).
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

}  // namespace

PeerMemory::Result PeerMemory::create(const comm::Machine& machine, const GpuMap& gpus,
                                      std::size_t bytes_a_gpu, const std::string& name) {
  std::unique_ptr<PeerMemory> memory(new PeerMemory(machine.device()));
  const cuda::DeviceGuard guard(machine.device());
  const bool owner = gpus.owner[static_cast<std::size_t>(gpus.mine)] == machine.rank();
  agree(machine.communicator(), [&] {
    if (owner) memory->export_own(bytes_a_gpu, name);
  });
  const bool alone = machine.size() == 1;
  const std::string own_handle = owner && !alone ? ipc_handle(memory->exported_) : std::string();
  const std::vector<std::string> handles = machine.communicator().all_gather(own_handle);
  std::string failure;
  try {
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

void PeerMemory::export_own(std::size_t bytes, const std::string& name) {
  const std::size_t rounded = std::max<std::size_t>(1, (bytes + kGranule - 1) / kGranule) * kGranule;
  exported_ = static_cast<std::byte*>(allocate(device_, rounded, name));
}

void PeerMemory::import_all(const GpuMap& gpus, int rank, const std::vector<std::string>& handles) {
  for (const int owner : gpus.owner) {
    if (owner == rank) {
      pointers_.push_back(exported_);
      continue;
    }
    const Opened opened = open_handle(handles[static_cast<std::size_t>(owner)]);
    if (opened.data == nullptr) {
      throw CudaError(fmt::format("rank {} of the machine ({}) cannot reach the GPU of rank {}: {}", rank,
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

void PeerMemory::free_export() noexcept {
  try {
    const cuda::DeviceGuard guard(device_);
    cudaFree(exported_);
  } catch (const std::exception&) {  // likewise
  }
  exported_ = nullptr;
}

void PeerMemory::close(const comm::Machine& machine) {
  const cuda::DeviceGuard guard(device_);
  cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  close_imports();
  machine.barrier();
  free_export();
  pointers_.clear();
}

}  // namespace strata::store
