// SPDX-License-Identifier: Apache-2.0
#pragma once
// torch's wheel has gloo within, but its header shows it only on request.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <ATen/ops/from_blob.h>

#include <chrono>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "strata/util/types.hpp"

namespace strata::torch_ranks {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using Gloo = c10d::ProcessGroupGloo;
using GlooPtr = c10::intrusive_ptr<Gloo>;

/// How long calls wait for other ranks: the watchdog and the keepalive end runs that hang, nothing else does.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

/// torch's message of an error, without its stack.
std::string text_of(const std::exception& error);

std::vector<std::uint8_t> bytes_of(const std::string& text);
std::string string_of(const std::vector<std::uint8_t>& bytes);

inline at::Tensor bytes_at(void* data, Count bytes) { return at::from_blob(data, {bytes}, at::kByte); }

}  // namespace strata::torch_ranks
