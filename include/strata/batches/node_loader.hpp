// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "strata/batches/batch.hpp"
#include "strata/batches/graph.hpp"
#include "strata/batches/links.hpp"
#include "strata/cuda/sm_group.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::batches {

/// Blocks of any nodes, when they are asked for: for programs that decide from one hop what the next one is.
///
///     NeighborSampler sampler(graph, {.fanouts = {4}});
///     auto batch = sampler.sample(seeds, {.seed = 7, .epoch = 0, .step = 3}, 0, stream);
///     batch->blocks[0]                      // the in-edges; batch->nodes are the sources, seeds first
///
/// The structure of the whole graph must lie on this machine: one machine, or replicated. Nothing is
/// collective. Any thread may call it; calls of several threads take turns, in which the work of a GPU does
/// not overlap.
class NeighborSampler {
 public:
  /// Of the options: fanouts, method, replace, layer_dependent, chooser, transpose, input_transpose. Throws
  /// InputError as sampling::make_sampler(), and if other machines have parts of the structure.
  NeighborSampler(std::shared_ptr<Graph> graph, const sampling::SamplerOptions& options);
  ~NeighborSampler();
  NeighborSampler(const NeighborSampler&) = delete;
  NeighborSampler& operator=(const NeighborSampler&) = delete;

  Device device() const;  ///< that batches lie on
  /// Distinct nodes, in host memory; the batch has neither features nor labels, and lives as long as
  /// NodeLoader's. Hop h here draws what hop `first_hop` + h of a sampler of several hops draws with this
  /// key. Throws InputError for a node that the graph does not have or that is given twice.
  std::shared_ptr<const NodeBatch> sample(std::span<const NodeId> nodes, const BatchKey& key, int first_hop,
                                          const cuda::Stream& stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Pipeline;
}  // namespace strata::batches

namespace strata::batches {

/// What the batches of a loader are. The same on all ranks, unless each has nodes of its own.
struct NodeLoaderOptions {
  /// A split, or global ids of nodes, distinct, in the order in which an epoch without `shuffle` takes them.
  std::variant<Split, std::vector<NodeId>> nodes = Split::train;
  /// Seeds are the ends of these instead; batches have neither labels nor nodes of a rank's own.
  std::shared_ptr<const LinkOptions> links = nullptr;
  /// False: `nodes` are the same on all ranks, and the steps are dealt to the ranks. True: they are this
  /// rank's own, of which it makes its own steps, as many as it likes; nothing is then collective. Only on
  /// one machine.
  bool own_nodes = false;
  /// False: `nodes` are ids of this rank's own, which its machine owns, and ranks go in step: a rank's
  /// batches have its own nodes as seeds, and none when these are used up and other ranks' are not.
  bool deals = true;
  Count batch_size = 1;  ///< seeds per rank; a step has so many times the number of ranks
  bool shuffle = false, drop_last = false;
  std::uint64_t seed = 0;  ///< keys the order of seeds and the choice of neighbors
  /// How neighbors are chosen: fanouts, method, replace, layer_dependent, chooser. The rest is the loader's.
  sampling::SamplerOptions sampler;
  enum class Form : std::uint8_t {
    merged,  ///< NodeBatch::edge_index; each node's neighbors are chosen once
    blocks,  ///< lists of blocks; as strata-train's batches
  } form = Form::blocks;
  bool transposes = false;  ///< of blocks, sampling::Block::transposed_indptr
  bool features = true, labels = true;
  bool overlap = true;  ///< stages of different batches work at the same time
};

/// How a loader's memory was used.
struct LoaderMemory {
  Count batches_made = 0;  ///< memory for so many batches was allocated
  Count batches_held = 0;  ///< are in use now
};

/// Batches over some nodes of a graph, for whoever trains: Pipeline, with batches that their user may
/// keep. An owner of the pipeline.
///
///     NodeLoader loader(graph, {.batch_size = 1024, .shuffle = true, .sampler = {.fanouts = {15, 10, 5}}});
///     loader.begin(0);
///     while (auto batch = loader.next(stream)) ...
///     loader.close();
///
/// One thread at a time calls it. All ranks make the same calls, and take the same number of batches; the
/// constructor, begin() and close() are collective. Not so with NodeLoaderOptions::own_nodes, where no call
/// is. Threads may go over loaders of their own at the same time, on several ranks, too; one thread makes and
/// closes them, because all ranks do that in the same order.
/// Graph::close() closes the loaders that are left.
class NodeLoader {
 public:
  /// Throws InputError, on all ranks alike: a node that is given twice, ranks that give different nodes or
  /// options, a node of its own that another machine owns, and as Pipeline; and std::out_of_range for
  /// a node that the graph does not have.
  NodeLoader(std::shared_ptr<Graph> graph, const NodeLoaderOptions& options);
  ~NodeLoader();  ///< ends the stages
  NodeLoader(const NodeLoader&) = delete;
  NodeLoader& operator=(const NodeLoader&) = delete;

  Device device() const;          ///< that batches lie on
  Count num_seeds() const;        ///< per epoch, of all ranks that go in step
  Count steps_per_epoch() const;  ///< batches that each rank gets
  /// Begins an epoch, in whose midst the one before may be. Throws InputError on all ranks, and leaves the
  /// one before as it is, if they begin different ones: they would repeat each other's batches.
  void begin(std::uint32_t epoch);
  /// Whether next() would return, or throw, within so long.
  bool wait_for(std::chrono::milliseconds patience);
  /// The next batch, or null after the last. A rank without seeds in a step gets a batch without nodes. The
  /// memory of batches that are gone is used again: work that read it was enqueued on the stream of their
  /// next(), before they went.
  std::shared_ptr<const NodeBatch> next(const cuda::Stream& stream);
  void end();  ///< of the epoch, wherever it is
  /// Ends the epoch; both stages of later ones work on these SMs of the GPU.
  void run_on(const cuda::SmGroup& sms);

  Count failed_draws() const;  ///< LinkSeeds::failed_draws() of this rank
  LoaderMemory memory() const;
  sampling::ExchangeReport neighbor_exchange() const;
  RowExchangeReport row_exchange() const;
  void close();

 private:
  Pipeline& pipeline() const;  // throws after close()
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::batches
