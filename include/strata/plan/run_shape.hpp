// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "strata/plan/graph_shape.hpp"
#include "strata/plan/halo_plan.hpp"
#include "strata/plan/placement_request.hpp"
#include "strata/util/types.hpp"

/// What a forecast must know of a run and its batches. Values.
namespace strata::plan {

/// Multiplications per row that a layer of a model writes, and per row that it reads, as factors of the
/// products of its columns.
struct LayerArithmetic {
  double output_in_out = 0, output_out_out = 0;
  double input_in_out = 0;  ///< of models that project input rows first
};

struct RunShape {
  std::vector<int> fanouts = {};  ///< from the seeds outwards
  Count hidden = 0;
  LayerArithmetic layer = {};
  Count seeds = 0;            ///< per rank and step, at most
  int batches_in_flight = 3;  ///< 1: one stage after the other
  int buffers = 3;            ///< that a GPU has room for
  bool train_edges_only = false, edge_weights = false, in_degrees = false;
  std::int64_t gpu_memory_bytes = 0;  ///< for the graph; 0: what training leaves
  std::int64_t halo_cache_bytes = kAutomatic;
  PlacementRequest placement = {};
  FeatureFormat feature_format = FeatureFormat::stored;
  Replication replication = Replication::automatic;
  bool rows_travel_in_bf16 = false;
};

/// A batch of a rank: the mean of some that were sampled, before anything is cached.
struct BatchProfile {
  struct Hop {
    double nodes = 0;         ///< whose neighbors are sampled
    double picks = 0;         ///< neighbors of these
    double remote_nodes = 0;  ///< nodes of other machines
    double remote_picks = 0;  ///< neighbors of these
  };
  std::vector<Hop> hops;
  double inputs = 0, remote_inputs = 0;
  /// [i]: the share of the remote inputs, and of all inputs, in the first 2^-i of their parts' rows, which
  /// are ordered from hot to cold.
  static constexpr int kLevels = 16;
  std::array<double, kLevels> remote_heat{}, heat{};
  int batches = 0;
  Count steps_per_epoch = 0;

  double remote_visits() const {  ///< to lists of other machines, over all hops
    double visits = 0;
    for (const Hop& hop : hops) visits += hop.remote_nodes;
    return visits;
  }
};

}  // namespace strata::plan
