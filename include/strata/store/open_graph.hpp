// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/plan/graph_placement.hpp"
#include "strata/plan/graph_shape.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/host_array.hpp"

/// A graph on its way into memory: whoever opens it looks at its structure, plans, and has it placed.
namespace strata::store {

class GraphSource;

/// Nodes of other machines whose rows and lists a machine keeps. There may be a hundred million, so that the
/// ranks of a machine share one copy. An owner of this rank's mappings; null where nothing is kept.
struct HaloNodes {
  std::optional<tensor::HostArray<NodeId>> lists;  ///< ascending
  std::optional<tensor::HostArray<Count>> indptr;  ///< [lists + 1], of their edges
  std::optional<tensor::HostArray<NodeId>>
      rows;  ///< the hottest first, by powers of two of heat; ascending within a power
  std::optional<tensor::HostArray<std::uint32_t>> row_occurrences;  ///< of `rows`, in this machine's lists
};

/// A graph whose structure, labels and splits are in a machine's memory, and whose features wait for a
/// placement. An owner. What is opened is placed, or destroyed on all ranks.
class OpenGraph {
 public:
  /// A graph in memory, as one part in its own order of ids. For one machine only, and collective over it:
  /// rank 0 gives the graph, the other ranks pass null. The graph is consumed piece by piece, so that there
  /// is never a second full copy. Throws InputError on all ranks alike.
  static OpenGraph of_graph(std::unique_ptr<graph::Graph> graph, const comm::Machine& machine,
                            const LoadOptions& options);
  /// A synthetic graph, in its own order of ids; it equals that of graph::generate bit for bit. If every rank
  /// of the machine has a GPU, the GPUs make neighbor lists (of kind=lognormal) and features straight into
  /// place. Else the first rank generates the graph, and of_graph() takes over. For one machine only, and
  /// collective over it. Logs the time it took.
  ///
  /// `pool` has this rank's cores; what only the first rank does runs on as many threads as `read` says.
  /// `gpu_bytes` of all GPUs together will hold features. The pool and the machine outlive the result. Throws
  /// on all ranks alike: OutOfMemory before anything large is allocated, InputError as graph::generate.
  static OpenGraph generate(const graph::SyntheticSpec& spec, const graph::ReadOptions& read,
                            const comm::Machine& machine, const LoadOptions& options, std::int64_t gpu_bytes,
                            ThreadPool& pool);
  explicit OpenGraph(std::unique_ptr<GraphSource> source);
  OpenGraph(OpenGraph&&) noexcept;
  ~OpenGraph();

  const graph::Manifest& manifest() const;
  const plan::RegionSizes& sizes() const;
  const plan::FeatureShape& features() const;  ///< with the rows that keep() added
  GraphView nodes() const;                     ///< of the machine's own nodes, in host memory
  GraphView lists() const;                     ///< of all nodes whose lists are here
  std::span<const NodeId> train_nodes() const;
  std::span<const std::int32_t> train_clusters() const;  ///< as MachineGraph has them
  /// Makes the manifest count the validation and test nodes of all machines, where splits were narrowed.
  /// Collective over all ranks.
  void add_up_splits(const comm::Ranks& ranks);
  std::span<const NodeId> machine_offsets() const;
  std::span<const NodeId> part_offsets() const;  ///< of the machine's parts, [parts + 1]
  const std::vector<Count>& list_parts() const;  ///< nodes of each part whose lists are here
  const NodeIndex* halo_rows() const;            ///< null: none

  /// Calls visit(first node, indptr) from all threads, for chunks of a range of nodes of any machine. The
  /// indptr of a chunk counts within its part and has one entry more than the chunk has nodes. REQUIRES: the
  /// graph is of parts.
  void visit_indptr(Range nodes, const std::function<void(NodeId, std::span<const Count>)>& visit) const;
  /// Reads the lists of these nodes, and places their rows behind the machine's own. REQUIRES: the graph is
  /// of parts that were read with as many aliases as there are lists. Collective over the machine; throws on
  /// all of its ranks alike.
  void keep(HaloNodes nodes);
  /// Allocates the features, fills them in, and copies to the GPUs what the placement says. Collective over
  /// the machine; throws on all of its ranks alike.
  MachineGraph place(plan::GraphPlacement placement) &&;

 private:
  std::unique_ptr<GraphSource> source_;
};

/// Parts of a graph, open on disk: what is known of them before anything large is read.
class OpenParts {
 public:
  /// Opens the machine's run of parts (parts_of_machines), with the lists of all parts if `all_lists`, and
  /// reads the manifest. The first rank of all shows progress later. Collective over all ranks, as are the
  /// calls below unless they say otherwise; one machine's error is thrown on all ranks. The machine outlives
  /// the result and what is made of it.
  OpenParts(const graph::PartsOrigin& origin, const comm::Ranks& ranks, const LoadOptions& options,
            bool all_lists);
  OpenParts(OpenParts&&) noexcept;
  ~OpenParts();

  const graph::Manifest& manifest() const;  ///< not collective
  plan::RegionSizes sizes() const;          ///< not collective
  plan::FeatureShape features() const;      ///< not collective
  void take_all_lists();                    ///< from now on, the lists of all parts belong to every machine
  /// Reads the structure straight into place, in parallel on all ranks. `aliases` is the most lists that
  /// OpenGraph::keep() will get.
  OpenGraph read(Count aliases) &&;

 private:
  std::unique_ptr<class PartsSource> source_;
};

}  // namespace strata::store
