// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/plan/heat.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/store/halo.hpp"
#include "strata/tensor/host_array.hpp"
#include "strata/util/ranges.hpp"

namespace strata::batches {

/// How often batches of all ranks of a machine read each row and visit each list of the graph, in memory that
/// the ranks share: 8 bytes per node of the graph. An owner.
class ReadCounts {
 public:
  /// Nothing is counted yet. `own` are the machine's nodes. Collective over the machine.
  static ReadCounts create(const comm::Machine& machine, Count num_nodes, Range own);

  /// Counts a batch. The ranks of the machine may call it at the same time; one thread of each.
  void add(const plan::BatchReads& batch);
  /// Waits for all ranks of the machine, and adds their totals up. Nothing may be added afterwards.
  /// Collective over the machine.
  void finish(const comm::Machine& machine);

  std::uint32_t rows(NodeId node) const { return rows_.data()[node]; }
  std::uint32_t visits(NodeId node) const { return visits_.data()[node]; }
  Range own() const { return own_; }
  /// Of all ranks of the machine. REQUIRES: finish() was called.
  struct Totals {
    Count batches = 0;
    Count own_visits = 0, neighbors = 0,
          nodes = 0;  ///< as plan::BatchReads, of lists that are this machine's
    Count remote_rows = 0;
    std::vector<Count> remote_visits;  ///< by hop
  };
  const Totals& totals() const { return totals_; }
  plan::HaloReads halo_reads() const;  ///< of a batch, on average

 private:
  ReadCounts(tensor::HostArray<std::uint32_t> rows, tensor::HostArray<std::uint32_t> visits, Range own)
      : rows_(std::move(rows)), visits_(std::move(visits)), own_(own) {}
  tensor::HostArray<std::uint32_t> rows_, visits_;  // [nodes of the graph]
  Range own_;
  Totals totals_;
};

/// What batches of other machines read of this machine's nodes. An owner.
struct ServedReads {
  tensor::HostArray<std::uint32_t> rows, visits;  ///< [own nodes] summed over the other machines
};

/// Tells the owner of every node how often batches of this machine read it: (id, counts) of nodes that were
/// read at all, once. Each rank sends a share of the nodes and holds 16 bytes per pair that it sends or
/// receives. Collective over all ranks.
ServedReads exchange_reads(const ReadCounts& counts, const comm::Ranks& ranks,
                           std::span<const NodeId> machine_offsets);

/// What a batch reads on average.
struct MeanReads {
  plan::BatchAccesses accesses;
  Count batches = 0;  ///< of all ranks, in which this was counted
};

/// Adds up what batches of a rank read, in memory of a few KiB.
class AccessCounter {
 public:
  /// `part_rows` as in plan::HeatSource; `halo` finds the halo's rows, null: none.
  AccessCounter(const store::GraphView& graph, std::span<const Count> part_rows,
                const store::NodeIndex* halo = nullptr);

  void add(const plan::BatchReads& batch);

  /// Of a batch, over those of all ranks; nothing if none read a feature row of this machine. Other machines
  /// are taken to read as many rows here as are read there, of the same heat as those of this machine's
  /// nodes. Collective over the machine.
  std::optional<MeanReads> mean(const comm::Machine& machine) const;

 private:
  plan::BucketMap map_;
  NodeId first_node_;
  Count num_local_;
  const store::NodeIndex* halo_;
  std::vector<std::int64_t> rows_;  // by bucket
  Count local_inputs_ = 0, other_inputs_ = 0, lists_ = 0, neighbors_ = 0, nodes_ = 0, batches_ = 0;
};

/// The tables of rows that a machine reads.
struct ReadTables {
  std::span<const Count> part_rows;        ///< as in plan::HeatSource
  const store::NodeIndex* halo = nullptr;  ///< of the last segment; null: none
};

/// Of a batch, on average over those that were counted: what this machine's ranks read here and, where
/// `served` is given, what those of other machines do. Lists are those of this machine's nodes. Nothing if no
/// row of this machine was read. Collective over the machine.
std::optional<MeanReads> mean_accesses(const comm::Machine& machine, const ReadCounts& counts,
                                       const ServedReads* served, const ReadTables& tables);

}  // namespace strata::batches
