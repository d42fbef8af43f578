// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "strata/comm/machine.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/threads.hpp"

/// Graphs from where they are stored to where a run reads them: opened, looked at, planned for and placed.
namespace strata::batches {

/// The first batches of a run, which are sampled before the graph is placed to count what they read.
struct FirstBatches {
  sampling::SamplerOptions sampler;  ///< as in training, except for max_seeds, which is set
  Count global_batch = 0;            ///< seeds per step
  std::uint64_t seed = 0;            ///< of the run
  ThreadPool* pool = nullptr;        ///< this rank's cores
  /// Machines sample together where they plan what to keep of each other's nodes.
  bool together = false;
  /// Sample even if every GPU holds the whole graph, where nothing depends on it.
  bool always = false;

  /// Batches per rank. A few show the heat of all but single rows. After the first one, a batch begins only
  /// if it would end in time when it takes as long as the longest so far. A papers100M-shaped graph has two
  /// seconds in all.
  Count max_batches = 64;
  std::chrono::duration<double> time_limit{1};
  /// The same where machines sample together: every batch costs messages, and their number must not depend on
  /// time. No further one begins after some rank has sampled so many nodes, summed over the layers.
  Count max_shared_batches = 16, max_shared_nodes = Count{1} << 23;
};

/// Opens the machine's run of parts, decides what lies where, and places it. All ranks read in parallel, and
/// the first rank shows a progress bar. Parts that do not fit into memory are refused before anything is
/// allocated.
///
/// `batches` say what is hot; without them it is how often a node occurs in neighbor lists.
///
/// Collective over all ranks. If one machine finds damage or has too little memory, all ranks throw.
store::MachineGraph load_parts(const graph::PartsOrigin& parts, const comm::Ranks& ranks,
                               const store::LoadOptions& options,
                               const std::optional<FirstBatches>& batches = {});

/// The same from a graph in memory; see store::OpenGraph::of_graph.
store::MachineGraph take_graph(std::unique_ptr<graph::Graph> graph, const comm::Machine& machine,
                               const store::LoadOptions& options,
                               const std::optional<FirstBatches>& batches = {});

/// The same from a synthetic graph; see store::OpenGraph::generate.
store::MachineGraph generate_graph(const graph::SyntheticSpec& spec, const graph::ReadOptions& read,
                                   const comm::Machine& machine, const store::LoadOptions& options,
                                   ThreadPool& pool, const std::optional<FirstBatches>& batches = {});

}  // namespace strata::batches
