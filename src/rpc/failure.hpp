// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <exception>
#include <string>

namespace strata::rpc {

/// What a call threw, on its way back.
struct Failure {
  std::string type, text, remedy;
  int rank = -1;
  std::string host, agent;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(type, text, remedy, rank, host, agent);
  }
};

/// The exception that is being handled.
Failure current_failure();
std::exception_ptr exception_of(const Failure& failure);

}  // namespace strata::rpc
