// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

/// A model of a training step on several machines. Pure functions of what a run reports in `traffic` and
/// `run` of metrics.jsonl; benchmarks/scaling compares it with measured steps.
namespace strata::plan {

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
///     sample = sample_seconds + sum over hops of time(hop)            each stage ends a batch per 1 / K of
///     it gather = gather_seconds + time(rows) sum    = 0 on one rank, else 2 (R - 1) / R gradient_bytes / B
///     + 2 ceil(log2 R) L   (B, L: if M > 1) train  = compute_seconds + staging_seconds + loading_share
///     (sample_seconds
///     + gather_seconds)
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

}  // namespace strata::plan
