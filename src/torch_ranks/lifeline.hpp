// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "run.hpp"

namespace strata::torch_ranks {

/// Ends this process when the run ends for all: a rank called abort(), or its process is gone. Each rank
/// keeps a connection to the next one, in a ring, whose end tells that the next one died; the store tells all
/// others.
class Lifeline {
 public:
  explicit Lifeline(std::shared_ptr<const Run> run);  ///< collective over all ranks, at least two
  ~Lifeline();                                        ///< goes on watching unless closed
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  void close();  ///< collective; no rank may fail after it has begun

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::torch_ranks
