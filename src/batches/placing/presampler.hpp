// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "strata/batches/placed_graph.hpp"
#include "strata/comm/machine.hpp"
#include "strata/store/open_graph.hpp"

namespace strata::batches {

using RecordReads = std::function<void(const plan::BatchReads&)>;  ///< for one thread at a time

/// Samples the first batches of the first epoch and records what they read. Each rank samples its own
/// batches, as in training, from the structure in host memory; together the ranks use all cores of the
/// machine. Neighbors of other machines' nodes are not sampled. The ranks of a machine call it at the same
/// time; it does not communicate.
void sample_ahead(const FirstBatches& batches, const store::OpenGraph& graph, const comm::Machine& machine,
                  const RecordReads& record);

/// The same of all machines together, which ask each other for neighbors. Collective over all ranks.
void sample_ahead_together(const FirstBatches& batches, const store::OpenGraph& graph,
                           const comm::Ranks& ranks, const RecordReads& record);

}  // namespace strata::batches
