// SPDX-License-Identifier: Apache-2.0
#include "strata/cuda/device.hpp"

#if STRATA_WITH_CUDA
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <map>

#include "nvml_paths.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#endif

namespace strata::cuda {

#if STRATA_WITH_CUDA

namespace {

Device gpu(int index) { return {.kind = Device::Kind::cuda, .index = index}; }

int attribute(cudaDeviceP2PAttr which, int from, int to) {
  int value = 0;
  check(cudaDeviceGetP2PAttribute(&value, which, from, to), "cudaDeviceGetP2PAttribute");
  return value;
}

/// Opens peer access; without it, copies go through host memory.
void open_link(const PeerLink& link) {
  const DeviceGuard guard(gpu(link.from));
  const cudaError_t code = cudaDeviceEnablePeerAccess(link.to, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError();  // handled here; a later check must not see it
  else
    check(code, "cudaDeviceEnablePeerAccess");
}

/// Seconds of a copy: the least of some.
double copy_seconds(const PeerLink& link, const Buffer& to, const Buffer& from) {
  constexpr int kTimes = 3;
  const DeviceGuard guard(gpu(link.from));
  const Stream stream(gpu(link.from));
  Event begin(gpu(link.from), true), end(gpu(link.from), true);
  double least = 0;
  for (int i = 0; i <= kTimes; ++i) {  // the first warms up
    begin.record(stream);
    check(cudaMemcpyPeerAsync(to.data(), link.to, from.data(), link.from, from.bytes(), stream.get()),
          "cudaMemcpyPeerAsync");
    end.record(stream);
    stream.synchronize();
    const double seconds = 1e-3 * end.elapsed_ms(begin);
    if (i > 0) least = i == 1 ? seconds : std::min(least, seconds);
  }
  return least;
}

}  // namespace

std::string pci_address(int device) {
  std::array<char, 32> text{};
  check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device), "cudaDeviceGetPCIBusId");
  return text.data();
}

std::vector<PeerLink> find_peer_links() {
  std::vector<PeerLink> links;
  for (int from = 0; from < device_count(); ++from)
    for (int to = 0; to < device_count(); ++to)
      if (from != to)
        links.push_back({.from = from,
                         .to = to,
                         .access = attribute(cudaDevP2PAttrAccessSupported, from, to) != 0,
                         .kind = attribute(cudaDevP2PAttrPerformanceRank, from, to)});
  find_paths(links);
  return links;
}

void measure_peer_links(std::vector<PeerLink>& links, std::size_t bytes) {
  std::map<int, Buffer> memory;
  for (const PeerLink& link : links)
    if (!memory.contains(link.from))
      memory.emplace(link.from, Buffer(Memory::device, bytes, "bytes to measure with", gpu(link.from)));
  for (PeerLink& link : links) {
    if (link.access) open_link(link);
    link.bytes_per_second =
        static_cast<double>(bytes) / copy_seconds(link, memory.at(link.to), memory.at(link.from));
  }
}

#else

std::string pci_address(int) { return {}; }
std::vector<PeerLink> find_peer_links() { return {}; }
void measure_peer_links(std::vector<PeerLink>&, std::size_t) {}

#endif

}  // namespace strata::cuda
