// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "collectives/nccl_communicator.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

constexpr int kSender = 0, kReceiver = 1;

int most_blocks_on(Device device) {
  constexpr int kShare = 8;  // of the SMs, so that four transfers at a time leave half of them to others
  return std::clamp(cuda::num_multiprocessors(device.index) / kShare, 1, DevicePipe::kMostBlocks);
}

NcclCommunicator::Member member_of(const DevicePipe::Setup& setup) {
  NcclCommunicator::Member member{.rank = setup.end == DevicePipe::End::sends ? kSender : kReceiver,
                                  .size = 2,
                                  .who = setup.who,
                                  .most_blocks = most_blocks_on(setup.device),
                                  .while_waiting = setup.while_waiting};
  if (setup.id.size() != sizeof(member.id)) throw CommError("what the other end sent is no id of NCCL");
  std::memcpy(&member.id, setup.id.data(), sizeof(member.id));
  return member;
}

class NcclPipe final : public DevicePipe {
 public:
  explicit NcclPipe(const Setup& setup)
      : device_(setup.device),
        end_(setup.end),
        stream_(setup.device),
        done_(setup.device),
        nccl_(member_of(setup), setup.device) {}

  void transfer(std::span<const Part> parts) override {
    constexpr std::size_t kMostInGroup = 64;
    const cuda::DeviceGuard guard(device_);
    for (std::size_t i = 0; i < parts.size(); i += kMostInGroup)
      launch(parts.subspan(i, std::min(kMostInGroup, parts.size() - i)));
    done_.record(stream_);
    nccl_.finish_when([&] { return cudaEventQuery(done_.get()) != cudaErrorNotReady; },
                      end_ == End::sends ? "ncclSend" : "ncclRecv");
    stream_.synchronize();  // throws what went wrong on the device
  }

 private:
  void launch(std::span<const Part> parts) {
    ncclResult_t queued = ncclSuccess;
    nccl_.finish(ncclGroupStart(), "ncclGroupStart");
    for (const Part& part : parts) {
      const ncclResult_t code = queue(part);
      // Within a group nothing has begun yet, so there is nothing to wait for.
      if (code != ncclSuccess && code != ncclInProgress) queued = code;
    }
    const ncclResult_t ended = ncclGroupEnd();
    nccl_.finish(queued, end_ == End::sends ? "ncclSend" : "ncclRecv");
    nccl_.finish(ended, "ncclGroupEnd");
  }
  ncclResult_t queue(const Part& part) {
    if (end_ == End::sends)
      return ncclSend(part.data, part.bytes, ncclInt8, kReceiver, nccl_.get(), stream_.get());
    return ncclRecv(part.data, part.bytes, ncclInt8, kSender, nccl_.get(), stream_.get());
  }

  const Device device_;
  const End end_;
  const cuda::Stream stream_;
  cuda::Event done_;
  NcclCommunicator nccl_;  // ends first, and with it what the stream still has to do
};

}  // namespace

std::string make_device_pipe_id() {
  ncclUniqueId id{};
  const ncclResult_t code = ncclGetUniqueId(&id);
  if (code != ncclSuccess)
    throw CommError(fmt::format("ncclGetUniqueId failed: {}", ncclGetErrorString(code)));
  return {reinterpret_cast<const char*>(&id), sizeof(id)};
}

std::unique_ptr<DevicePipe> open_device_pipe(const DevicePipe::Setup& setup) {
  if (!setup.device.is_cuda()) throw CommError("NCCL joins GPUs only");
  return std::make_unique<NcclPipe>(setup);
}

}  // namespace strata::comm
