// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "strata/placement/placement_request.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/enum_names.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {
struct Manifest;
}
namespace strata::comm {
class Communicator;
struct Topology;
}  // namespace strata::comm

namespace strata::store {

/// The batches of a run, as far as the placement must know them.
struct BatchShape {
  Count seeds = 1024;                      ///< per rank
  std::vector<int> fanouts = {15, 10, 5};  ///< from the seeds outwards; -1: all neighbors
};

/// What one batch of a rank reads of a graph's structure and features.
struct BatchReads {
  std::span<const NodeId> input_nodes;  ///< distinct
  std::vector<Count> visited = {};      ///< by hop: so many of the first input nodes' neighbors are sampled
  Count lists = 0;                      ///< nodes whose neighbors are sampled, summed over the hops
  Count neighbors = 0;                  ///< entries of `indices`
  Count nodes = 0;                      ///< source nodes, summed over the layers
};

/// Reads some batches as training will, so that the placement knows what is hot.
struct Presampling {
  struct Source {
    const GraphView& graph;  ///< the structure in host memory, of all nodes where it is replicated
    std::span<const NodeId> train_nodes;
    /// Global ids of this machine's parts, [parts + 1]. Must outlive the call only.
    std::span<const NodeId> part_offsets;
    std::span<const std::int32_t> train_clusters = {};  ///< as MachineGraph::train_clusters()
    /// Set: the ranks of all machines call at the same time, and neighbors of other machines' nodes are
    /// sampled, too, by asking for them over these ranks, which nothing else uses meanwhile. The number of
    /// batches is then a matter of the graph and the options, never of time.
    struct Ranks {
      const comm::Communicator& world;
      const comm::Topology& topology;
      std::span<const NodeId> machine_offsets;
      int machine = 0;
    };
    const Ranks* ranks = nullptr;
  };
  using Record = std::function<void(const BatchReads&)>;  ///< for one thread at a time

  /// Calls `record` for each batch. The ranks of a machine call it at the same time, each for batches of its
  /// own; it must not communicate, except over Source::ranks. Empty: the heat of a row is how often its node
  /// occurs in `indices`.
  std::function<void(const Source&, const Record& record)> run = {};
  bool together = false;  ///< `run` takes Source::ranks; the same on all ranks
  bool always = false;    ///< presample even if every GPU holds the whole graph, where nothing depends on it
};

/// Whether every machine keeps the structure of the whole graph, so that machines exchange only features.
enum class Replication : std::uint8_t {
  automatic,  ///< if it leaves a fifth of every machine's free memory
  on,
  off,
};

/// What feature rows are in memory.
enum class FeatureFormat : std::uint8_t {
  stored,  ///< as the parts or the graph have them
  i8,      ///< compressed while loading; see RowCode
  i4,
};

/// Bytes of a row in memory. Throws InputError for features that are compressed otherwise, or not of floats.
Count feature_row_bytes(const graph::Manifest& manifest, FeatureFormat format);

/// What it takes to ask other machines, and to find and read what is kept of their nodes. The same on all
/// ranks.
struct ExchangeCosts {
  double row_seconds = 0;        ///< to get a feature row: its bytes and those of the request on the link
  double list_seconds = 0;       ///< to get a node's picks, without the picks themselves
  double pick_seconds = 0;       ///< of each of them
  bool whole_fanouts = false;    ///< answers have room for all of a fanout
  double find_row_seconds = 0;   ///< to look for a row among those that are kept
  double find_list_seconds = 0;  ///< to look for a list
  /// Useful bytes per second of kept rows on GPUs and in host memory. 0 on CPUs: rows that are not kept are
  /// read in another machine's memory instead, and this one reads as many for others.
  double near = 0, far = 0;
  double host_list_seconds =
      0;                 ///< what a GPU waits longer for a list in host memory than for one of its own
  bool striped = false;  ///< rows on GPUs are spread over those of the machine
};

/// How much of a GPU the store may take, and what it loads.
struct LoadOptions {
  bool edge_ids = false;
  bool edge_weights = false;  ///< InputError if the graph has none
  /// Lists have the edges among training nodes only, as inductive training reads them; all edges are in
  /// MachineGraph::whole_view(). Not with `edge_ids`. No lists of other machines' nodes are kept.
  bool train_edges_only = false;
  bool in_degrees = false;
  bool degrees_of_loops = true;       ///< whether `in_degrees` count self-loops
  std::int64_t gpu_budget_bytes = 0;  ///< per GPU, for structure and features together; ignored on the cpu
  /// Bytes of the budget to leave free for each input row of a batch. The number of input rows is estimated
  /// from the structure.
  std::int64_t bytes_per_input_row = 0;
  bool row_normalize = false;  ///< while loading, scale each feature row so that its absolute values sum to 1
  FeatureFormat feature_format = FeatureFormat::stored;
  placement::PlacementRequest placement = {};
  BatchShape batch = {};
  tensor::HostPath host_path = tensor::HostPath::automatic;  ///< how GPUs read feature rows in host memory
  int host_threads = 0;                                      ///< for `host_path`; see GatherSettings::threads
  Presampling presampling = {};
  bool verify_parts = true;  ///< refuse part files that changed since they were built
  Replication replication = Replication::off;
  /// Host memory per machine for what it keeps of other machines' nodes: those feature rows and neighbor
  /// lists (unless the structure is replicated) that save most of the exchange per byte.
  std::int64_t halo_bytes = 0;
  /// Rows of them are rounded as batches::RowExchangeContext::in_bf16 rounds those that travel, so that
  /// numbers do not depend on what is kept. Compressed rows never are.
  bool halo_rows_in_bf16 = false;
  /// With them, only what makes a batch faster is kept. Without, all of `halo_bytes` is used, and bytes on
  /// the wire say what saves most.
  std::optional<ExchangeCosts> exchange_costs = {};
  static constexpr std::int64_t kAutomatic = -1;  ///< as `halo_bytes`: a tenth of what is free
  /// MachineGraph::load() returns when the structure, the labels and the hottest feature rows are in place;
  /// MachineGraph::arrival() reads the others.
  bool late_features = false;
};

}  // namespace strata::store

namespace strata {

template <>
inline constexpr auto enum_names<store::Replication> =
    std::to_array<EnumName<store::Replication>>({{store::Replication::automatic, "auto"},
                                                 {store::Replication::on, "on"},
                                                 {store::Replication::off, "off"}});

template <>
inline constexpr auto enum_names<store::FeatureFormat> =
    std::to_array<EnumName<store::FeatureFormat>>({{store::FeatureFormat::stored, "stored"},
                                                   {store::FeatureFormat::i8, "i8"},
                                                   {store::FeatureFormat::i4, "i4"}});

}  // namespace strata
