// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "planning/batch_profile.hpp"
#include "strata/util/random.hpp"
#include "strata/util/ranges.hpp"

namespace strata::train {

/// The neighbors of a graph's nodes, from which batches are sampled.
class Neighborhood {
 public:
  virtual ~Neighborhood() = default;

  /// A hop of a batch.
  struct Draw {
    BatchKey batch;
    std::uint32_t hop = 0;
    std::span<const int> fanouts;  ///< [relations]
  };
  struct Picked {
    Count picks = 0, relations = 0;  ///< neighbors, and relations over which there are some
  };
  /// Appends the picks of a node. Nodes in ascending order are the cheapest.
  virtual Picked pick(NodeId node, const Draw& draw, std::vector<NodeId>& picks) = 0;
  /// The share of its part's rows that is hotter.
  virtual double place_of(NodeId node) const = 0;
  /// Whether every machine has copies of the node's row and list. REQUIRES: the node was picked, or is a seed.
  virtual bool is_copied(NodeId node) const = 0;
};

/// [hops][relations], whether or not the job names relations.
std::vector<std::vector<int>> fanouts_by_relation(const ProfiledJob& job, const graph::GraphTypes& types);

/// Samples batches and counts what they read.
class BatchCounts {
 public:
  /// `copies_lists`: also the lists of nodes that are copied, not only their rows.
  BatchCounts(Neighborhood& neighborhood, std::vector<std::vector<int>> fanouts, bool copies_lists)
      : neighborhood_(neighborhood), fanouts_(std::move(fanouts)), copies_lists_(copies_lists) {
    sum_.hops.resize(fanouts_.size());
  }

  /// Samples the batch of these seeds on the machine that has the nodes `own`.
  void add(std::vector<NodeId> seeds, const BatchKey& key, Range own);
  BatchProfile mean(Count steps_per_epoch) const;

 private:
  void add_inputs(const std::vector<NodeId>& inputs, Range own);

  Neighborhood& neighborhood_;
  std::vector<std::vector<int>> fanouts_;
  bool copies_lists_;
  BatchProfile sum_;
};

}  // namespace strata::train
