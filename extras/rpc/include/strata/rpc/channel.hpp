// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>

#include "strata/util/text.hpp"

namespace strata::rpc {

/// The ways of tensors from one process to another. Everything else of a message goes over TCP.
enum class Channel : std::uint8_t {
  cuda_ipc,       ///< memory of the receiver's GPU that the sender's has mapped: tensors on GPUs only
  shared_memory,  ///< memory that the processes of a machine share
  nccl,           ///< NCCL's send and receive: large tensors between GPUs of two machines only
  tcp,            ///< together with the rest of the message
};

/// The amount that took a channel.
struct Volume {
  std::uint64_t messages = 0;  ///< over TCP; tensors on the other channels
  std::uint64_t bytes = 0;
  bool operator==(const Volume&) const = default;
};
struct Traffic {
  Channel channel = Channel::tcp;
  Volume sent, received;
};

}  // namespace strata::rpc

namespace strata {

template <>
inline constexpr auto enum_names<rpc::Channel> =
    std::to_array<EnumName<rpc::Channel>>({{rpc::Channel::cuda_ipc, "cuda-ipc"},
                                           {rpc::Channel::shared_memory, "shared-memory"},
                                           {rpc::Channel::nccl, "nccl"},
                                           {rpc::Channel::tcp, "tcp"}});

}  // namespace strata
