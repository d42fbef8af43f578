// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::cuda {

/// The device to make current for a call with a stream: CUDA takes a null handle for the default stream of
/// the current device.
inline Device device_to_call_with(const Stream& stream) {
  return stream.get() == nullptr ? stream.device() : Device{};
}

}  // namespace strata::cuda
