// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>

#include "peers.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

/// What a rank reports of its GPU's memory.
struct PeerReport {
  int gpu = 0;
  cudaIpcMemHandle_t handle{};
};

std::string blob_of(int gpu, std::byte* data) {
  PeerReport report{.gpu = gpu, .handle = {}};
  // A rank whose memory another one allocated has no handle for it; the allocating rank reports it.
  if (cudaIpcGetMemHandle(&report.handle, data) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  return {reinterpret_cast<const char*>(&report), sizeof(report)};
}

}  // namespace

Peers::Peers(const comm::Machine& machine, int own_gpu, std::byte* own) {
  const cuda::DeviceGuard guard(machine.device());
  pieces_.at(at(own_gpu)) = own;
  const std::vector<std::string> blobs = machine.communicator().all_gather(blob_of(own_gpu, own));
  machine.together([&] {
    for (const std::string& blob : blobs) {
      PeerReport report;
      if (blob.size() != sizeof(report)) continue;
      std::memcpy(&report, blob.data(), sizeof(report));
      const void*& piece = pieces_.at(at(report.gpu));
      if (piece != nullptr) continue;
      void* opened = nullptr;
      const cudaError_t code = cudaIpcOpenMemHandle(&opened, report.handle, cudaIpcMemLazyEnablePeerAccess);
      if (code != cudaSuccess) {
        throw CudaError(fmt::format("memory of GPU {} of the machine cannot be opened: {}", report.gpu,
                                    cudaGetErrorString(code)));
      }
      opened_.push_back(opened);
      piece = opened;
    }
  });
}

Peers::Peers(Peers&& other) noexcept
    : pieces_(std::exchange(other.pieces_, {})), opened_(std::exchange(other.opened_, {})) {}

Peers& Peers::operator=(Peers&& other) noexcept {
  std::swap(pieces_, other.pieces_);
  std::swap(opened_, other.opened_);
  return *this;
}

Peers::~Peers() { close(); }

void Peers::close() {
  for (void* const data : opened_) static_cast<void>(cudaIpcCloseMemHandle(data));
  opened_.clear();
  pieces_ = {};
}

}  // namespace strata::dgs
