// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/device_exchange.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {

std::string make_device_pipe_id() { throw CommError("a build without CUDA has no NCCL"); }
std::unique_ptr<DevicePipe> open_device_pipe(const DevicePipe::Setup&) {
  throw CommError("a build without CUDA has no NCCL");
}

}  // namespace strata::comm
