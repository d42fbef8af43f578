// SPDX-License-Identifier: Apache-2.0
#include "collectives/reducer_nccl.hpp"

#include "collectives/nccl_communicator.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::comm {
namespace {

class NcclReducer final : public AllReducer {
 public:
  NcclReducer(const Communicator& world, Device device, int most_blocks)
      : device_(device), nccl_(world, device, most_blocks) {}

  void sum(float* data, Count count, const cuda::Stream& stream) override {
    if (count == 0) return;
    const cuda::DeviceGuard guard(device_);
    nccl_.finish(ncclAllReduce(data, data, at(count), ncclFloat32, ncclSum, nccl_.get(), stream.get()),
                 "ncclAllReduce");
  }
  const char* name() const override { return "nccl"; }
  void close() override {
    const cuda::DeviceGuard guard(device_);
    nccl_.close();
  }

 private:
  Device device_;
  NcclCommunicator nccl_;
};

}  // namespace

std::unique_ptr<AllReducer> make_nccl_reducer(const Communicator& world, Device device, int most_blocks) {
  return std::make_unique<NcclReducer>(world, device, most_blocks);
}

}  // namespace strata::comm
