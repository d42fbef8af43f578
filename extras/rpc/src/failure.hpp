// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <exception>
#include <string>

namespace strata::rpc {

/// The exception of a call, on its way back.
struct Failure {
  std::string type, text, remedy;
  int rank = -1;
  std::string host, agent;
  std::string device = {};  ///< RemoteError::device()
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(type, text, remedy, rank, host, agent, device);
  }
};

Failure failure_of(const std::exception_ptr& thrown);
std::exception_ptr exception_of(const Failure& failure);

}  // namespace strata::rpc
