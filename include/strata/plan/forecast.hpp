// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/graph/part_file.hpp"
#include "strata/plan/graph_shape.hpp"
#include "strata/plan/halo_plan.hpp"
#include "strata/plan/placement.hpp"
#include "strata/util/types.hpp"

/// What a run takes of memory beside its graph: what buffers are sized by, and what is left to the graph. A
/// run and a forecast use the same numbers.
namespace strata::plan {

/// Of a buffer that turns out too small; some batches are larger.
inline constexpr double kBufferGrowth = 1.25;
inline constexpr double kPaddingMargin = 1.04;  ///< of a fixed size over the largest batch that was measured
inline constexpr double kUsableGpu = 0.92;      ///< the driver, NCCL and fragmentation take the rest

/// What decides how much a step takes of a GPU.
struct StepShape {
  std::span<const int> fanouts;
  Count hidden = 0;
  int batches_in_flight = 3;
};

/// An upper bound of what a rank takes of a GPU beside the graph: a batch of which every pick of every fanout
/// finds a new node, with its activations, and the libraries.
std::int64_t training_device_bytes(const StepShape& step, Count seeds, Count num_nodes);

/// What is left to the graph of a GPU with so much free memory.
constexpr std::int64_t graph_bytes_of_gpu(std::int64_t free_bytes, std::int64_t training_bytes) {
  const double usable = static_cast<double>(free_bytes) * kUsableGpu;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(usable) - training_bytes);
}

/// What an input row of a batch takes of a GPU, in all buffers.
constexpr std::int64_t bytes_per_input_row(Count feature_cols, int batches_in_flight) {
  return static_cast<std::int64_t>(static_cast<double>(feature_cols) * sizeof(float) * kBufferGrowth *
                                   batches_in_flight);
}

// What a forecast must know of a run and its batches. Values.

/// Multiplications of a layer of a model, as factors of the products of its columns.
struct LayerArithmetic {
  double output_in_out = 0, output_out_out = 0;  ///< per row that it writes
  double input_in_out = 0;    ///< per row that it reads, of models that project these first
  double sublist_in_out = 0;  ///< per node and relation over which it has neighbors
  double pick_in_out = 0;     ///< per neighbor
  double matrices_in_out = 0, matrices_out_out = 0;  ///< its weights
};

struct RunShape {
  std::vector<int> fanouts = {};  ///< from the seeds outwards
  Count hidden = 0;
  LayerArithmetic layer = {};
  Count seeds = 0;            ///< per rank and step, at most
  int batches_in_flight = 3;  ///< 1: one stage after the other
  int buffers = 3;            ///< that a GPU has room for
  bool train_edges_only = false, edge_weights = false, in_degrees = false;
  Count learned_cols = 0;             ///< of input rows that are learned; 0: none
  std::int64_t learned_bytes = 0;     ///< of all of them with their optimizer, on every rank
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
    double sublists = 0;      ///< pairs of these and of relations over which they have neighbors
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

// What a profile of batches lets expect of other machines' nodes, for a forecast. Pure functions.

/// Of a feature row between machines: in its code, or rounded.
std::int64_t sent_row_bytes(const RunShape& run, const graph::Manifest& manifest);

/// Bytes of rows as they travel, and of neighbors over MPI.
WireBytes wire_bytes(const RunShape& run, const graph::Manifest& manifest);

/// The nodes of the types that every machine keeps copies of (graph::Manifest::replicated_types), and the
/// entries of their lists.
struct CopiedNodes {
  Count nodes = 0, entries = 0;

  static CopiedNodes of(const graph::Manifest& manifest);
  /// Bytes of host memory that the rows and lists take which `keeps` says, if another machine owns all.
  std::int64_t bytes(const HaloBudget& keeps, const RegionSizes& sizes, int ranks) const;
};

/// What the profile's batches read of `others` nodes of other machines, by how hot these are in their parts.
struct ExpectedOffer {
  const RunShape& run;
  const graph::Manifest& manifest;
  const BatchProfile& profile;
  const WireBytes& wire;
  double others = 0;
  int ranks = 1;  ///< of a machine
};
HaloOffer offer_of(const ExpectedOffer& expected);

/// Floating-point operations and bytes of neighbors' rows of one step: forward, and backward for all but the
/// first layer's input.
struct StepWork {
  double flops = 0, aggregated_bytes = 0;
};
StepWork work_of(const RunShape& run, const graph::Manifest& manifest, const BatchProfile& profile);

/// Of weights and biases.
double parameters_of(const RunShape& run, const graph::Manifest& manifest);

/// What one step keeps of the rows between layers: outputs, what is computed on the way to them, and
/// gradients. An estimate, which fits measured runs of libtorch on CPUs within a third.
double activation_bytes(const RunShape& run, const graph::Manifest& manifest, const BatchProfile& profile);

// A model of a training step on several machines. Pure functions of what a run reports in `traffic` and
// `run` of metrics.jsonl; benchmarks/scaling compares it with measured steps.

/// What connects a rank with other machines.
struct Link {
  double bytes_per_second = 0;  ///< that a rank sends while it receives as many and all others do, too
  double latency_seconds = 0;   ///< from the start of a message to its end, of a short one
  double message_seconds = 0;   ///< that each further message of a round costs
};

/// What a rank sends of a batch in one hop, for its rows, or for its gradients.
struct WireLoad {
  double bytes = 0;     ///< sent or received, whichever is more
  double messages = 0;  ///< sent
  double rounds = 0;    ///< exchanges that follow each other
};

/// A step of the rank that takes longest. Seconds are those of a batch without its exchanges.
struct StepInputs {
  double sample_seconds = 0, gather_seconds = 0;
  double compute_seconds = 0;  ///< forward, backward and update
  /// By which training becomes longer where input rows are written to a buffer first, which one machine reads
  /// where they lie.
  double staging_seconds = 0;
  std::vector<WireLoad> hops = {};  ///< empty: neighbor lists lie on every machine
  WireLoad rows = {};
  double gradient_bytes = 0;
  int ranks = 1, machines = 1;
  int batches_in_flight = 3;  ///< that are sampled, gathered or trained at the same time; 1: one by one
  int sampled_at_once = 1, gathered_at_once = 1;  ///< batches that these stages work on at the same time
  /// The share of the seconds of sampling and gathering, and of those in which bytes move, by which training
  /// becomes longer because it shares cores or SMs with them. 1 on a CPU whose cores are all busy; 0 where
  /// `compute_seconds` were measured beside them.
  double loading_share = 0, wire_share = 0;
  Link link = {};
};

enum class Limit : std::uint8_t { compute, sampling, gathering, bandwidth, latency };
std::string_view name_of(Limit limit);

/// Seconds of a step, and of each thing that can limit it.
struct StepEstimate {
  double step = 0;
  double train = 0;      ///< arithmetic, what others take from it, and the sum of gradients
  double sum = 0;        ///< of these, the sum of gradients
  double sample = 0;     ///< per batch that the stage ends
  double gather = 0;     ///< the same
  double wire = 0;       ///< that bytes and messages of a step occupy the link
  double in_flight = 0;  ///< of a batch from its start to its end, per batch in flight
  Limit limit = Limit::compute;
};

/// The model. With L = latency, o = message_seconds, B = bytes_per_second, and for each load
///
///     moves(x) = x.bytes / B + max(0, x.messages - x.rounds) o        time(x) = x.rounds L + moves(x)
///
/// a batch takes, with K = batches_per_stage and n = batches_in_flight,
///
///     sample = sample_seconds + sum over hops of time(hop)            each stage ends a batch per 1 / K of it
///     gather = gather_seconds + time(rows)
///     sum    = 0 on one rank, else 2 (R - 1) / R gradient_bytes / B + 2 ceil(log2 R) L   (B, L: if M > 1)
///     train  = compute_seconds + staging_seconds + loading_share (sample_seconds + gather_seconds)
///              + wire_share (moves of all hops and rows) + sum
///     wire   = moves of all hops and rows + 2 (R - 1) / R gradient_bytes / B
///     step   = max(train, sample / sampled_at_once, gather / gathered_at_once, wire,
///                  (sample + gather + train) / n)
///
/// and without overlap (n = 1) step = sample + gather + train.
///
/// Example: L = 10 us, o = 0, B = 10 GB/s; compute 600 us, sample 100 us, gather 50 us; two hops of 1 MB with
/// 2 rounds each, rows of 20 MB with 2 rounds; 1 MB of gradients on 2 ranks of 2 machines; wire_share 0.5; 3
/// in flight. A hop takes 20 + 100 = 120 us, so sample = 340; rows 20 + 2000, so gather = 2070; sum = 100 +
/// 20 = 120; train = 600 + 0.5 * 2200 + 120 = 1820; wire = 2200 + 100 = 2300; in flight (340 + 2070 + 1820) /
/// 3 = 1410. The step takes 2300 us, and bandwidth limits it.
StepEstimate estimate_step(const StepInputs& inputs);

/// The same batch on one machine: nothing crosses machines, and gradients are summed within it for nothing.
/// Its step divided by that on many is their efficiency.
StepInputs without_wire(const StepInputs& inputs);

/// The machines that a plan is for. All are alike.
struct Cluster {
  int machines = 1;
  int gpus = 0;   ///< per machine, one rank each; 0: CPUs
  int ranks = 1;  ///< per machine without GPUs
  int links = 0;  ///< per machine, shared evenly by its ranks; 0: one per rank
  Link link = {.bytes_per_second = 50e9, .latency_seconds = 10e-6, .message_seconds = 1e-6};  ///< one of them
  std::int64_t gpu_memory = std::int64_t{140} << 30;
  std::int64_t host_memory = std::int64_t{1} << 40;
  std::optional<double> compute_seconds;  ///< of a step of one rank, where it was measured; else estimated
  std::optional<double> sample_seconds, gather_seconds;  ///< likewise
  std::string measured;  ///< the folder of a run whose times count instead of estimates; empty: none

  bool has_gpus() const { return gpus > 0; }
  int ranks_per_machine() const { return has_gpus() ? gpus : ranks; }
  int all_ranks() const { return machines * ranks_per_machine(); }
  /// A rank's share of the links of its machine.
  Link link_of_rank() const;
};

/// Reads "machines=16,gpus=8,link=400Gbit/s,latency=10us,gpu-memory=140GiB,...". Throws InputError with what
/// is wrong, the nearest key and an example; also for keys that are given twice or contradict each other.
Cluster parse_cluster(std::string_view text);

/// What a rank that computes on CPUs takes of host memory beside the graph: the libraries, the batches in
/// flight, a step's activations, and the model with its gradients and the state of its optimizer. An estimate
/// for batches such as the sampled ones. What takes more only where it is free does not count: exact
/// evaluation, and batches in flight beyond three.
std::int64_t training_host_bytes(const RunShape& run, const graph::Manifest& manifest,
                                 const BatchProfile& profile);

/// What lies where on the largest machine.
struct MemoryPlan {
  std::int64_t structure_bytes = 0;  ///< in host memory: lists, ids, labels, splits
  std::int64_t feature_bytes = 0;    ///< in host memory: rows that the GPUs have no room for, or all
  std::int64_t copies_bytes = 0;     ///< in host memory: nodes of small types that other machines own
  std::int64_t cache_bytes = 0;      ///< in host memory, of what else other machines own
  std::int64_t training_bytes = 0;   ///< in host memory, of all ranks; 0 where GPUs compute
  std::int64_t graph_bytes() const { return structure_bytes + feature_bytes + copies_bytes + cache_bytes; }
  std::int64_t host_bytes() const { return graph_bytes() + training_bytes; }
  std::int64_t gpu_training_bytes = 0, gpu_graph_bytes = 0;  ///< per GPU
  std::int64_t gpu_budget_bytes = 0;                         ///< per GPU, for the graph
  bool replicated = false;                                   ///< the structure of the whole graph
  double cached_lists = 0, cached_rows = 0;  ///< share of remote lists and rows that the cache answers
  MachinePlan placement;                     ///< of features and structure; empty on CPUs
  bool fits_host = true, fits_gpu = true;
};

MemoryPlan plan_memory(const RunShape& run, const graph::Manifest& manifest, const Cluster& cluster,
                       const BatchProfile& profile);

}  // namespace strata::plan
