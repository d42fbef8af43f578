// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <utility>

#include "loader/batch_copier.hpp"
#include "strata/batches/node_loader.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"

namespace strata::batches {
namespace {

/// The key with which hop 0 draws what `hop` draws with `key`. It must match how keyed_words() mixes in the
/// hop.
BatchKey key_of_hop(BatchKey key, int hop) {
  key.seed ^= static_cast<std::uint64_t>(hop) << 48;
  return key;
}

void check_structure_is_here(Graph& graph) {
  if (graph.runtime().topology().num_machines() == 1 || graph.stored().is_replicated()) return;
  throw InputError(
      "other machines have parts of the graph's structure, which cannot be sampled from step by step",
      "Load the graph with replicate=\"on\", or let a NodeLoader sample.");
}

}  // namespace

struct NeighborSampler::State {
  std::shared_ptr<Graph> graph;
  sampling::SamplerOptions options;
  BatchCopier copier;
  std::unique_ptr<sampling::MiniBatchSampler> sampler;
  cuda::Event copied;  // out of the sampler's memory
  std::mutex mutex;    // of the call under way

  State(std::shared_ptr<Graph> g, const sampling::SamplerOptions& o)
      : graph(std::move(g)),
        options(o),
        copier(graph, NodeLoaderOptions::Form::blocks, false),
        copied(graph->runtime().device()) {
    check_structure_is_here(*graph);
    options.edge_ids = copier.copies_edge_ids();
    make_room(kFewSeeds);
  }

  static constexpr Count kFewSeeds = 1024;

  /// A sampler on a GPU has buffers for so many seeds, which are made anew for more.
  void make_room(Count seeds) {
    if (sampler && seeds <= options.max_seeds) return;
    options.max_seeds = std::max(seeds, 2 * options.max_seeds);
    ThreadPool& pool = graph->runtime().caller_pool();
    const Device device = graph->runtime().device();
    if (options.chooser != nullptr && device.is_cuda()) {
      sampler = sampling::make_uploading_sampler(graph->stored().host_lists(), options, {}, 1,
                                                 {.device = device, .pool = &pool});
    } else {
      sampler = sampling::make_sampler(graph->stored().view(), options, {}, 1, pool);
    }
  }

  std::shared_ptr<const NodeBatch> sample(std::span<const NodeId> nodes, const BatchKey& key,
                                          const cuda::Stream& stream) {
    const std::lock_guard lock(mutex);
    const cuda::DeviceGuard guard(graph->runtime().device());
    graph->stored();  // throws if it was closed
    stream.wait(copied);
    make_room(std::ssize(nodes));
    LoadedBatch sampled;
    sampled.key = key;
    sampled.sample = sampler->sample(nodes, key, 0, stream);
    sampled.num_global_seeds = sampled.sample.num_seeds;
    auto batch = std::make_shared<NodeBatch>();
    batch->loss_scale = 1;
    copier.copy(sampled, *batch, stream);
    copied.record(stream);
    return batch;
  }
};

NeighborSampler::NeighborSampler(std::shared_ptr<Graph> graph, const sampling::SamplerOptions& options)
    : state_(std::make_unique<State>(std::move(graph), options)) {}
NeighborSampler::~NeighborSampler() = default;

Device NeighborSampler::device() const { return state_->graph->runtime().device(); }

std::shared_ptr<const NodeBatch> NeighborSampler::sample(std::span<const NodeId> nodes, const BatchKey& key,
                                                         int first_hop, const cuda::Stream& stream) {
  const bool same_in_all_hops = state_->options.layer_dependent;
  return state_->sample(nodes, same_in_all_hops ? key : key_of_hop(key, first_hop), stream);
}

}  // namespace strata::batches
