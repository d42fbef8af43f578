// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "strata/cuda/device.hpp"

namespace strata::rpc {

/// Pins `memory` for the life of its owner, so that `device` copies at full speed. Throws CudaError.
template <typename Owner>
std::shared_ptr<Owner> pinned(std::shared_ptr<Owner> owner, std::span<std::byte> memory, Device device) {
  struct Pinned {
    std::shared_ptr<Owner> owner;
    cuda::Registration registration;  // ends before the memory
  };
  const cuda::DeviceGuard guard(device);
  cuda::Registration registration(memory.data(), memory.size());
  Owner* const kept = owner.get();
  return {std::make_shared<Pinned>(Pinned{std::move(owner), std::move(registration)}), kept};
}

}  // namespace strata::rpc
