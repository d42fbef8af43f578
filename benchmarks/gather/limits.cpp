// SPDX-License-Identifier: Apache-2.0
#include "limits.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"

namespace strata::benchmark {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 30;

void check_nccl(ncclResult_t code, const char* call) {
  if (code != ncclSuccess) throw CommError(std::string(call) + ": " + ncclGetErrorString(code));
}

double cpu_seconds_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Memory of the next GPU, mapped into this process; an owner of the mapping.
class Neighbor {
 public:
  Neighbor(const comm::Machine& machine, void* own) {
    cudaIpcMemHandle_t handle{};
    cuda::check(cudaIpcGetMemHandle(&handle, own), "cudaIpcGetMemHandle");
    const auto handles = machine.communicator().all_gather(
        std::string(reinterpret_cast<const char*>(&handle), sizeof(handle)));
    std::memcpy(&handle, handles[static_cast<std::size_t>((machine.rank() + 1) % machine.size())].data(),
                sizeof(handle));
    cuda::check(cudaIpcOpenMemHandle(&data_, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
  }
  ~Neighbor() { cudaIpcCloseMemHandle(data_); }
  Neighbor(const Neighbor&) = delete;
  Neighbor& operator=(const Neighbor&) = delete;
  const void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

double peer_copy(const comm::Machine& machine, const cuda::Stream& stream, const Timing& timing, void* to,
                 void* own) {
  const Neighbor neighbor(machine, own);
  const double seconds = median_of(machine, stream, timing, [&] {
                           cuda::copy_async(to, neighbor.data(), kBytes, stream);
                         }).seconds;
  machine.barrier();
  return static_cast<double>(kBytes) / seconds;
}

double all_to_all(const comm::Machine& machine, const cuda::Stream& stream, const Timing& timing, void* to,
                  void* from) {
  ncclUniqueId id{};
  if (machine.rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  machine.communicator().broadcast(&id, sizeof(id), 0);
  ncclComm_t raw = nullptr;
  check_nccl(ncclCommInitRank(&raw, machine.size(), id, machine.rank()), "ncclCommInitRank");
  const std::unique_ptr<ncclComm, decltype(&ncclCommDestroy)> communicator(raw, ncclCommDestroy);
  const std::size_t share = kBytes / static_cast<std::size_t>(machine.size());
  const double seconds =
      median_of(machine, stream, timing, [&] {
        check_nccl(ncclGroupStart(), "ncclGroupStart");
        for (int rank = 0; rank < machine.size(); ++rank) {
          const std::size_t at = share * static_cast<std::size_t>(rank);
          check_nccl(ncclSend(static_cast<std::byte*>(from) + at, share, ncclInt8, rank, raw, stream.get()),
                     "ncclSend");
          check_nccl(ncclRecv(static_cast<std::byte*>(to) + at, share, ncclInt8, rank, raw, stream.get()),
                     "ncclRecv");
        }
        check_nccl(ncclGroupEnd(), "ncclGroupEnd");
      }).seconds;
  return static_cast<double>(share) * (machine.size() - 1) / seconds;
}

}  // namespace

Median median_of(const comm::Machine& machine, const cuda::Stream& stream, const Timing& timing,
                 const std::function<void()>& work) {
  cuda::Event begin(stream.device(), true), end(stream.device(), true);
  std::vector<double> seconds;
  double cpu_seconds = 0;
  for (int run = 0; run < timing.warm_up + timing.runs; ++run) {
    machine.barrier();
    const double cpu_before = cpu_seconds_so_far();
    begin.record(stream);
    work();
    end.record(stream);
    stream.synchronize();
    if (run < timing.warm_up) continue;
    seconds.push_back(end.elapsed_ms(begin) / 1e3);
    cpu_seconds += cpu_seconds_so_far() - cpu_before;
  }
  std::ranges::sort(seconds);
  Median median{.seconds = seconds[seconds.size() / 2]};
  median.cores = cpu_seconds / std::accumulate(seconds.begin(), seconds.end(), 0.0);
  machine.communicator().all_reduce(std::span(&median.seconds, 1), comm::Communicator::Op::max);
  return median;
}

Limits measure_limits(const comm::Machine& machine, const cuda::Stream& stream, const Timing& timing) {
  const Device device = stream.device();
  const cuda::Buffer from(cuda::Memory::device, kBytes, "limits", device),
      to(cuda::Memory::device, kBytes, "limits", device);
  const cuda::Buffer host(cuda::Memory::pinned, kBytes, "limits", device);
  cuda::fill_async(from.data(), 1, kBytes, stream);
  std::memset(host.data(), 1, kBytes);
  const auto rate = [&](double bytes, const void* source) {
    return bytes / median_of(machine, stream, timing, [&] {
                     cuda::copy_async(to.data(), source, kBytes, stream);
                   }).seconds;
  };
  Limits limits{.device_copy = rate(2.0 * kBytes, from.data()),
                .host_to_device = rate(1.0 * kBytes, host.data())};
  if (machine.size() == 1) return limits;
  limits.peer_copy = peer_copy(machine, stream, timing, to.data(), from.data());
  limits.all_to_all = all_to_all(machine, stream, timing, to.data(), from.data());
  return limits;
}

}  // namespace strata::benchmark
