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
#include "strata/store/array_strata.hpp"
#include "strata/store/chunk_tensor.hpp"
#include "strata/store/halo.hpp"
#include "strata/store/list_copies.hpp"
#include "strata/store/placement_request.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::store {

/// The structure that a sampler reads; a view for kernels and loops. Everything lies on, or can be read from,
/// `device`.
///
/// `indptr` has one entry a node with a list here (global ids [first_node, first_node + num_local)) and one
/// more; its values are positions in `indices`. `original_ids` and `in_degrees` cover ALL nodes of
/// the graph, so that choices for remote nodes can be keyed and GCN can be normalised without asking their
/// owner.
///
/// Where `device` is a GPU, some elements of `indptr` and some lists may have copies in the memory of GPUs,
/// which element() and position_of_list() with entry() find; the arrays have all of them all the same.
struct GraphView {
  Device device;
  Count num_nodes = 0;  ///< of the whole graph
  NodeId first_node = 0;
  Count num_local = 0;
  const Count* indptr = nullptr;             ///< [num_local + 1]
  IdSpan indices;                            ///< [edges with a list here] global ids
  IdSpan edge_ids;                           ///< [local edges], or size 0 if not loaded
  const float* weights = nullptr;            ///< [local edges] of edges, or null if not loaded
  IdSpan original_ids;                       ///< [num_nodes]
  const std::int32_t* in_degrees = nullptr;  ///< [num_nodes], or null if not loaded

  struct Copies {
    ArrayStrata indptr;
    ListCopies lists;
    EntryCopies indices, edge_ids, weights;
  };
  Copies copies = {};

  bool owns(NodeId global) const { return global >= first_node && global < first_node + num_local; }
};

/// Neighbour lists of some nodes of other machines, in host memory: `view` has the list of slot s as that of
/// node view.first_node + s. A view, but for the index.
struct HaloLists {
  NodeIndex index;
  GraphView view;
};

/// The batches of a run, for the placement.
struct BatchShape {
  Count seeds = 1024;                      ///< a rank
  std::vector<int> fanouts = {15, 10, 5};  ///< from the seeds outwards; -1: all neighbours
};

/// What one batch of a rank reads of a graph's structure and features.
struct BatchReads {
  std::span<const NodeId> input_nodes;  ///< distinct; rows of other machines' nodes are passed over
  Count lists = 0;                      ///< nodes whose neighbours are sampled, summed over the hops
  Count neighbors = 0;                  ///< entries of `indices`
  Count nodes = 0;                      ///< source nodes, summed over the layers
};

/// Reads some batches as training will, so that the placement knows what is hot.
struct Presampling {
  struct Source {
    const GraphView& graph;  ///< the structure in host memory, of all nodes where it is replicated
    std::span<const NodeId> train_nodes;
    NodeId first_node = 0;  ///< of this machine
    Count num_local = 0;
  };
  using Record = std::function<void(const BatchReads&)>;  ///< for one thread at a time

  /// Calls `record` for each batch. The ranks of a machine call it at once, each for batches of its own; it
  /// must not communicate. Empty: rows are as hot as their nodes occur often in `indices`.
  std::function<void(const Source&, const Record& record)> run = {};
  bool always = false;  ///< also where every GPU holds the whole graph, and nothing hangs on it
};

/// Is the structure of the whole graph kept on every machine, so that machines exchange features alone?
enum class Replication : std::uint8_t {
  automatic,  ///< where it leaves a fifth of every machine's free memory
  on,
  off,
};

/// How much of a GPU the store may take and what it shall load.
struct LoadOptions {
  bool edge_ids = false;
  bool edge_weights = false;  ///< InputError if the graph has none
  bool in_degrees = false;
  std::int64_t gpu_budget_bytes = 0;  ///< a GPU, for structure and features together; ignored on the cpu
  /// Of the budget, what each input row of a batch takes; how many there will be is estimated from the
  /// structure.
  std::int64_t bytes_an_input_row = 0;
  bool row_normalize = false;  ///< scale feature rows to sum of absolute values 1 while loading
  PlacementRequest placement = {};
  BatchShape batch = {};
  HostPath host_path = HostPath::automatic;  ///< how GPUs read feature rows in host memory
  int host_threads = 0;                      ///< for it; GatherSettings::threads
  Presampling presampling = {};
  bool verify_parts = true;  ///< refuse part files in which something changed since they were built
  Replication replication = Replication::off;
  /// Of host memory a machine, for what is kept of other machines' nodes, the hottest first: a quarter for
  /// neighbour lists (where the structure is not replicated), the rest for feature rows.
  std::int64_t halo_bytes = 0;
  static constexpr std::int64_t kAutomatic = -1;  ///< `halo_bytes`: a tenth of what is free
};

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
  /// rank of the machine has a GPU, the GPUs make neighbour lists (of kind=lognormal) and features straight
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
  const ChunkTensor& features() const;
  const NodeIndex* halo_rows() const;  ///< other machines' nodes whose rows are here, by slot; null: none
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
