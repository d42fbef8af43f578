// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/store/halo_lists.hpp"
#include "strata/store/load_options.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::store {

/// The parts that this machine hosts, in memory once a machine. An owner.
class MachineGraph {
 public:
  /// Reads the machine's run of parts (parts_of_machines) straight into place, all ranks in parallel, with a
  /// progress bar on the first rank of `world`. Refuses what does not fit in memory before it allocates.
  ///
  /// Collective over `world`. What one machine finds, damage or too little memory, is thrown on all ranks.
  static MachineGraph load(const std::filesystem::path& directory, const comm::Communicator& world,
                           const comm::Topology& topology, const comm::Machine& machine,
                           const LoadOptions& options);
  /// The same from a graph in memory, as one part in its own order of ids. One machine only; rank 0 of the
  /// machine gives the graph, the others pass null. Collective. The graph is consumed piece by piece: no
  /// second full copy is made.
  static MachineGraph from_graph(std::unique_ptr<graph::Graph> graph, const comm::Machine& machine,
                                 const LoadOptions& options);
  /// The same from a synthetic graph, bit for bit graph::generate's, in its own order of ids. Where every
  /// rank of the machine has a GPU, the GPUs make neighbor lists (of kind=lognormal) and features straight
  /// into place; else the first rank generates and from_graph() takes over. One machine only; collective over
  /// it. Logs the time it took.
  ///
  /// `pool` holds this rank's cores; what the first rank does alone runs on as many threads as `read` says.
  /// Throws on all ranks alike: OutOfMemory before anything large is allocated, InputError as
  /// graph::generate.
  static MachineGraph generate(const graph::SyntheticSpec& spec, const graph::ReadOptions& read,
                               const comm::Machine& machine, const LoadOptions& load, ThreadPool& pool);
  MachineGraph(MachineGraph&&) noexcept;
  MachineGraph& operator=(MachineGraph&&) noexcept;
  ~MachineGraph();

  const graph::Manifest& manifest() const;
  /// Global ids of machine m: [machine_offsets()[m], machine_offsets()[m + 1]).
  std::span<const NodeId> machine_offsets() const;
  int machine_of(NodeId global) const;

  const GraphView& host_view() const;   ///< of this machine's nodes, in host memory
  const GraphView& host_lists() const;  ///< as view(), in host memory
  /// What a sampler reads, for this rank's compute device: host_view() on the cpu; where the structure is
  /// replicated, the lists of all nodes.
  const GraphView& view() const;
  bool is_replicated() const;           ///< on all machines alike
  const HaloLists* halo_lists() const;  ///< null: none
  /// Row = global id - first_node; the rows of halo_rows() follow. feature_cols as the manifest says.
  const tensor::ChunkTensor& features() const;
  const NodeIndex* halo_rows() const;  ///< other machines' nodes whose rows are here, by position; null: none
  /// [num_local, manifest().label_words()], as graph::Graph::labels; empty without labels.
  std::span<const std::int32_t> labels() const;
  bool has_label(Count row) const;  ///< REQUIRES: a graph with labels
  /// ALL training nodes of the graph (global ids), in the order of their original ids.
  std::span<const NodeId> train_nodes() const;
  std::span<const NodeId> valid_nodes() const;  ///< of this machine, ascending
  std::span<const NodeId> test_nodes() const;

  /// What lies where, for the banner.
  struct PlanRow {
    std::string tensor, stratum;  ///< replicated, striped, host
    Count rows;
    std::int64_t bytes;  ///< of replicated rows: on each GPU; of the others: on the machine
    struct Expected {
      double share;             ///< of the accesses to the tensor
      double bytes_per_second;  ///< useful bytes that one GPU reads, were the stratum read alone
    };
    std::optional<Expected> expected;  ///< on machines with GPUs, of the tensors that the plan is about
  };
  const std::vector<PlanRow>& plan() const;
  Count presampled_batches() const;  ///< that the plan was made from; 0: from the structure alone

  void close(const comm::Machine& machine);  ///< collective

 private:
  struct State;
  explicit MachineGraph(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace strata::store
