// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cache/halo_heat.hpp"
#include "graph_regions.hpp"
#include "strata/comm/ranks.hpp"
#include "strata/store/load_options.hpp"
#include "strata/util/shares.hpp"

namespace strata::store {

/// How often batches of all ranks of a machine read each row and visit each list of the graph, in memory that
/// the ranks share: 8 bytes per node of the graph. An owner.
class ReadCounts {
 public:
  /// Nothing is counted yet. `own` are the machine's nodes. Collective over the machine.
  static ReadCounts create(const comm::Machine& machine, Count num_nodes, Range own);

  /// Counts a batch. The ranks of the machine may call it at the same time; one thread of each.
  void add(const BatchReads& batch);
  /// Waits for all ranks of the machine, and adds their totals up. Nothing may be added afterwards.
  /// Collective over the machine.
  void finish(const comm::Machine& machine);

  std::uint32_t rows(NodeId node) const { return rows_.data()[node]; }
  std::uint32_t visits(NodeId node) const { return visits_.data()[node]; }
  Range own() const { return own_; }
  /// Of all ranks of the machine. REQUIRES: finish() was called.
  struct Totals {
    Count batches = 0;
    Count own_visits = 0, neighbors = 0, nodes = 0;  ///< as BatchReads, of lists that are this machine's
    Count remote_rows = 0;
    std::vector<Count> remote_visits;  ///< by hop
  };
  const Totals& totals() const { return totals_; }
  HaloReads halo_reads() const;  ///< of a batch, on average

 private:
  ReadCounts(HostArray<std::uint32_t> rows, HostArray<std::uint32_t> visits, Range own)
      : rows_(std::move(rows)), visits_(std::move(visits)), own_(own) {}
  HostArray<std::uint32_t> rows_, visits_;  // [nodes of the graph]
  Range own_;
  Totals totals_;
};

/// What batches of other machines read of this machine's nodes. An owner.
struct ServedReads {
  HostArray<std::uint32_t> rows, visits;  ///< [own nodes] summed over the other machines
};

/// Tells the owner of every node how often batches of this machine read it: (id, counts) of nodes that were
/// read at all, once. Each rank sends a share of the nodes and holds 16 bytes per pair that it sends or
/// receives. Collective over all ranks.
ServedReads exchange_reads(const ReadCounts& counts, const comm::Ranks& ranks,
                           std::span<const NodeId> machine_offsets);

}  // namespace strata::store
