// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "strata/batches/fetcher.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/graph/source.hpp"
#include "strata/sampling/neighbor_chooser.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/threads.hpp"

namespace strata::batches {

/// Where a program's ranks are, and what this one may use. An owner; graphs and loaders hold it. The world
/// outlives it.
class Runtime {
 public:
  /// Collective. Throws InputError, on all ranks alike, for devices that are not there.
  Runtime(const comm::World& world, const comm::TopologyOptions& options);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const comm::Communicator& communicator() const { return world_.communicator(); }  ///< of all ranks
  const comm::World& world() const { return world_; }
  const comm::Topology& topology() const { return topology_; }
  const comm::Machine& machine() const { return machine_; }
  comm::Ranks ranks() const { return {&communicator(), &topology_, &machine_}; }
  Device device() const { return machine_.device(); }
  int cores() const { return cores_; }  ///< for this rank
  /// Of stages that work at the same time; one caller at a time each.
  ThreadPool& sample_pool() { return sample_pool_; }
  ThreadPool& gather_pool() { return gather_pool_; }
  ThreadPool& caller_pool() { return caller_pool_; }  ///< of the thread that calls graphs and loaders

  void close();  ///< collective; after all graphs

 private:
  const comm::World& world_;
  comm::Topology topology_;
  comm::Machine machine_;
  int cores_;
  ThreadPool sample_pool_, gather_pool_, caller_pool_;
};

using graph::Split;

/// What is loaded of a graph, and where it may lie.
struct GraphOptions {
  /// So that batches can name their edges; 8 bytes per edge. Unset: where the graph has them, which generated
  /// ones have not.
  std::optional<bool> edge_ids = {};
  bool edge_weights = false;  ///< for weighted sampling
  static constexpr std::int64_t kAutomatic = -1;
  /// Of each GPU, for the structure and the features; kAutomatic: half of what is free. The rest is the
  /// model's.
  std::int64_t gpu_bytes = kAutomatic;
  plan::BatchShape batch = {};  ///< the batches that the placement expects
  plan::Replication replication = plan::Replication::automatic;
  std::int64_t halo_bytes = 0;  ///< as store::LoadOptions::halo_bytes
};

class FeatureWriter;
class IdCheck;

/// What reads a graph from threads of its own, and must end before the graph does.
class GraphReader {
 public:
  virtual ~GraphReader() = default;
  virtual bool is_alone() const = 0;  ///< whether other ranks know nothing of it
  virtual void end() = 0;             ///< its threads, at the same step on all ranks
  virtual void close() = 0;           ///< end() and frees it; collective, unless it is alone
};

/// A graph that the ranks of a program hold together: store::MachineGraph with what it takes to use it. An
/// owner. Ids are global ids; those of a graph that was not read from parts are its original ids.
///
/// What is not collective may be called from any thread. load() and its like, close() and, on several
/// machines, gather_features() are collective: the threads of a rank must make these calls in the same order
/// on all ranks, so leave them to one thread. A graph stays usable until close(); every call after that
/// throws Error.
class Graph {
 public:
  /// Loads parts, reads a dataset, or generates. All of these are collective over the runtime's ranks and
  /// throw as batches::load_parts() and graph::read_graph() do, on all ranks alike. A dataset is read
  /// by the first rank, and only on one machine.
  static std::shared_ptr<Graph> load(std::shared_ptr<Runtime> runtime, const graph::Source& source,
                                     const GraphOptions& options);
  /// From a graph in memory: the first rank gives it, the others pass null. On one machine only; InputError.
  static std::shared_ptr<Graph> from_memory(std::shared_ptr<Runtime> runtime,
                                            std::unique_ptr<graph::Graph> graph, const GraphOptions& options);
  /// From arrays, of which the first rank's count. On one machine only.
  static std::shared_ptr<Graph> from_arrays(std::shared_ptr<Runtime> runtime, graph::GraphArrays arrays,
                                            const GraphOptions& options);
  /// The same of several types. Labels, and features of different widths, are the caller's.
  static std::shared_ptr<Graph> from_arrays(std::shared_ptr<Runtime> runtime, graph::TypedArrays arrays,
                                            const GraphOptions& options);
  Graph(std::shared_ptr<Runtime> runtime, store::MachineGraph graph);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Runtime& runtime() { return *runtime_; }
  const store::MachineGraph& stored() const;
  const graph::Manifest& manifest() const { return stored().manifest(); }

  /// Global ids of a split, of all machines, in the order of their original ids.
  std::span<const NodeId> nodes_of(Split split) const;

  /// Whether some node's global id is not its original id. The first call looks at all nodes.
  bool is_renumbered() const;

  /// Throws std::out_of_range for an id that is no node's, and names the first. The ids lie on the device of
  /// `stream`, for which it waits.
  void check_ids(std::span<const NodeId> ids, const cuda::Stream& stream) const;

  /// out[i] = original id of node ids[i], and the other way round; the ids and the result in host memory. The
  /// first call of global_ids() makes a table of all nodes. On any thread. Throw std::out_of_range as
  /// gather_features().
  void original_ids(std::span<const NodeId> ids, NodeId* out) const;
  void global_ids(std::span<const NodeId> original_ids, NodeId* out) const;

  /// out[i] = row of node ids[i]; ids and out [count, feature_cols] on the runtime's device. On several
  /// machines collective, also for a rank without ids. Throws std::out_of_range as check_ids(), and waits
  /// for `stream` to look for an id that is no node's.
  void gather_features(const NodeId* ids, Count count, float* out, const cuda::Stream& stream);

  /// Row of node ids[i] = rows[i], in the type of stored().features(); of an id that is given several times
  /// the last one counts, of ranks the highest. Collective, also for a rank without ids; all ranks read the
  /// new rows from then on, while batches that are already made keep theirs. Throws std::out_of_range as
  /// check_ids(), and InputError for a graph without features or with compressed ones, and where copies of
  /// rows would stay as they were; on all ranks alike.
  void write_features(const NodeId* ids, Count count, const std::byte* rows, const cuda::Stream& stream);

  /// out[i] = class of node ids[i], -1 where there is none; or, of graphs with sets of classes or targets, row i of
  /// [count, num_classes] as NodeBatch::label_sets. Ids and out in host memory; on one machine, on any
  /// thread. Throw InputError if the graph has no such labels or machines share it, std::out_of_range as
  /// gather_features().
  void labels(std::span<const NodeId> ids, std::int64_t* out) const;
  void label_sets(std::span<const NodeId> ids, float* out) const;

  /// The in-edges of nodes whose lists lie on this machine, in host memory; others are given none.
  struct InEdges {
    std::vector<Count> counts;     ///< [nodes]
    std::vector<NodeId> sources;   ///< packed in the order of the nodes
    std::vector<EdgeId> edge_ids;  ///< one per source; empty if the graph has none
    std::vector<float> weights;    ///< the same
  };
  /// For choosers, on any thread. Throws std::out_of_range for an id that is no node's.
  InEdges in_edges(std::span<const NodeId> nodes) const;
  /// The ends of edges as global ids; of an edge that is listed in both directions, from the lower original id
  /// to the higher. Collective, with the same ids on all ranks; throws std::out_of_range for an id that no edge has, InputError
  /// for a graph that was loaded without ids of edges.
  struct EdgeEnds {
    std::vector<NodeId> sources, destinations;
  };
  EdgeEnds ends_of(std::span<const EdgeId> edges);
  /// The ids of the edges from `first` to before `end`, ascending. Collective; throws InputError as ends_of().
  std::vector<EdgeId> edges_between(EdgeId first, EdgeId end);
  /// counts[i] numbers in [0, 1) for nodes[i], packed: they depend on the query's key and hop and on the
  /// nodes' original ids, as a chooser's choices must. On any thread.
  std::vector<double> keyed_numbers(const sampling::PickQuery& query, std::span<const Count> counts) const;

  /// From now on close() ends the reader, unless it is gone by then. All ranks add those that are not alone,
  /// in the same order.
  void add_reader(const std::shared_ptr<GraphReader>& reader);

  bool is_open() const { return graph_.has_value(); }
  /// Closes the readers that all ranks still have, ends the others, and frees the graph. Collective.
  void close();

 private:
  void close_readers();
  void check_labels(std::span<const NodeId> ids, bool sets) const;
  void check_edge_ids() const;
  std::vector<NodeId> gather_nodes(std::span<const NodeId> of_machine) const;

  std::shared_ptr<Runtime> runtime_;
  std::optional<store::MachineGraph> graph_;
  std::optional<comm::Communicator> row_communicator_;  // on several machines
  std::optional<RowFetcher> fetcher_;
  std::shared_ptr<FeatureWriter> feature_writer_;  // from the first write on
  std::shared_ptr<IdCheck> id_check_;
  std::vector<NodeId> valid_nodes_, test_nodes_;
  mutable std::mutex mutex_;  // of what follows
  mutable std::optional<bool> is_renumbered_;
  mutable std::vector<NodeId> global_of_;  // by original id; empty: not made
  std::vector<std::weak_ptr<GraphReader>> lone_readers_;
  std::map<Count, std::weak_ptr<GraphReader>> readers_;  // by number, which is the same on all ranks
  Count readers_made_ = 0;
};

class IdCheck;

/// Rows that somebody has in host memory, one after the other.
struct HostRows {
  void* data = nullptr;
  Count rows = 0;
  std::size_t row_bytes = 0;
  std::size_t element_bytes = 1;  ///< to which `data` and rows are aligned: 1, 2, 4 or 8
  std::shared_ptr<const void> keep_alive;
};

/// Rows in host memory that a GPU reads and writes in place (zero copy; Min et al., "Large Graph
/// Convolutional Network Training with GPU-Oriented Data Communication Architecture", VLDB 2021, whose
/// unified tensors these are). An owner of the registration with CUDA; of the memory only as `keep_alive` is.
/// Rows are bytes to it. On the cpu it gathers with threads.
///
/// For one caller at a time.
class UnifiedTensor {
 public:
  /// Memory that CUDA cannot register (files mapped on some file systems) is gathered by threads of the CPU
  /// and copied, with a warning. `settings` say how rows reach a GPU, and count for nothing without one.
  /// Throws InputError for an element size that has no type, and for settings out of range.
  UnifiedTensor(Device device, const HostRows& rows, const tensor::GatherSettings& settings = {});

  struct Ids {
    const void* data = nullptr;  ///< [count] on the device
    Count count = 0;
    bool wide = true;  ///< i64, else i32
  };
  /// out[i] = row ids[i]; out [count, row_bytes] on the device, aligned to elements. Asynchronous on a GPU
  /// without `check`. With it, throws std::out_of_range naming the first id below 0 or beyond the last row,
  /// and reads nothing that is not a row.
  void gather(const Ids& ids, void* out, const cuda::Stream& stream, bool check = true);
  /// row ids[i] = in[i], for distinct ids; as gather(). The host sees the rows after fence().
  void scatter(const Ids& ids, const void* in, const cuda::Stream& stream, bool check = true);
  void fence(const cuda::Stream& stream) const;  ///< waits for the stream

  Count rows() const { return tensor_.spec().rows; }

 private:
  tensor::ChunkTensor wrap(const HostRows& rows);
  template <typename Run>
  void run(const Ids& ids, const cuda::Stream& stream, bool check, Run work);
  void check(const Ids& ids, const cuda::Stream& stream) const;
  bool reads_in_place() const { return tensor_device_ == device_; }
  void gather_and_copy(const tensor::RowIds& rows, void* out, const cuda::Stream& stream);

  Device device_, tensor_device_;
  ThreadPool pool_;
  tensor::ChunkTensor tensor_;
  std::shared_ptr<IdCheck> id_check_;
  std::mutex staging_mutex_;
  cuda::Array<std::byte> staging_;  ///< pinned; of gathered rows that are copied to the GPU
};

}  // namespace strata::batches
