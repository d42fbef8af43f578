// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "strata/batches/node_loader.hpp"

namespace strata::batches {

/// Throws InputError on all ranks if one of them gives a loader other options, or other nodes to deal, than
/// the first rank: it would wait for batches that never come. Collective.
void check_agreement(const comm::Communicator& world, const NodeLoaderOptions& options);

/// The same of graphs: their sources, of which parts may lie in folders of their own on each host, and what
/// is loaded of them. Collective.
void check_agreement(const comm::Communicator& world, const std::string& source, const GraphOptions& options);

/// The same of edges that ranks name by their ids. Collective.
void check_edges(const comm::Communicator& world, std::span<const EdgeId> edges);

/// The same of the number of an epoch that ranks begin. Collective.
void check_epoch(const comm::Communicator& world, std::uint32_t epoch);

/// How many nodes each rank gives; in order of rank. Collective.
std::vector<Count> counts_of_ranks(const comm::Communicator& world, Count mine);

}  // namespace strata::batches
