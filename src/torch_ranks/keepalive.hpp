// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "run.hpp"

namespace strata::torch_ranks {

/// Ends this process when the run ends for all: a rank called abort(), or its process is gone. Each rank
/// keeps a connection to the next one, in a ring; if it breaks, the next one died, and the store passes that
/// on to all others.
class Keepalive {
 public:
  explicit Keepalive(std::shared_ptr<const Run> run);  ///< collective over all ranks, at least two
  ~Keepalive();                                        ///< the watch goes on unless closed
  Keepalive(const Keepalive&) = delete;
  Keepalive& operator=(const Keepalive&) = delete;

  void close();  ///< collective; no rank may fail after it has begun

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::torch_ranks
