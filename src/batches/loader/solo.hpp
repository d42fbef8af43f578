// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/batches/graph.hpp"

namespace strata::batches {

/// This rank as if it were all of the run: for work that no other rank takes part in, on what the ranks of a
/// machine share. An owner; nothing is collective.
class Solo {
 public:
  explicit Solo(const Runtime& runtime);
  Solo(const Solo&) = delete;
  Solo& operator=(const Solo&) = delete;

  comm::Ranks ranks() const { return {&world_.communicator(), &topology_, &machine_}; }
  void close() { machine_.close(); }

 private:
  comm::World world_;
  comm::Topology topology_;
  comm::Machine machine_;
};

}  // namespace strata::batches
