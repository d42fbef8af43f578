// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/presampler.hpp"

#include <algorithm>
#include <array>

#include "strata/batches/seed_schedule.hpp"

namespace strata::batches {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

store::BatchReads reads_of(const sampling::MiniBatch& batch) {
  store::BatchReads reads{.input_nodes = {batch.input_nodes(), static_cast<std::size_t>(batch.num_inputs())},
                          .neighbors = batch.num_edges()};
  for (const sampling::Block& block : batch.blocks) {
    reads.visited.insert(reads.visited.begin(), block.num_dst);  // the blocks begin with the last hop
    reads.lists += block.num_dst;
    reads.nodes += block.num_src;
  }
  return reads;
}

/// The seeds of a machine, split among its ranks as in training.
SeedSchedule schedule_of(const store::Presampling::Source& source, std::span<const NodeId> machine_offsets,
                         int machine, const PresampleOptions& options) {
  return SeedSchedule({.nodes = source.train_nodes,
                       .clusters = source.train_clusters,
                       .machine_offsets = machine_offsets,
                       .part_offsets = source.part_offsets,
                       .machine = machine,
                       .local_rank = options.machine->rank(),
                       .machine_ranks = options.machine->size(),
                       .global_batch = options.global_batch,
                       .seed = options.seed});
}

/// The first batches of training, as all machines sample them together.
void presample_together(const store::Presampling::Source& source, const store::Presampling::Record& record,
                        const PresampleOptions& options) {
  const store::Presampling::Source::Ranks& ranks = *source.ranks;
  const SeedSchedule schedule = schedule_of(source, ranks.machine_offsets, ranks.machine, options);
  sampling::SamplerOptions sampler_options = options.sampler;
  sampler_options.max_seeds = schedule.max_seeds();
  const bool asks = source.graph.num_local < source.graph.num_nodes;
  const auto sampler = sampling::make_sampler(source.graph, sampler_options,
                                              {.communicator = asks ? &ranks.world : nullptr,
                                               .topology = &ranks.topology,
                                               .machine_offsets = ranks.machine_offsets,
                                               .pool = options.pool},
                                              1, *options.pool);
  const Count num_batches = std::min(options.max_shared_batches, schedule.steps_per_epoch());
  std::int64_t most_nodes = 0;  // of a rank
  for (Count step = 0; step < num_batches && most_nodes < options.max_shared_nodes; ++step) {
    const std::vector<NodeId> seeds = schedule.step(0, step).seeds;
    const BatchKey key{.seed = options.seed, .epoch = 0, .step = static_cast<std::uint32_t>(step)};
    const store::BatchReads reads = reads_of(sampler->sample(seeds, key, 0, {}));
    record(reads);
    std::int64_t nodes = reads.nodes;
    ranks.world.all_reduce(std::span(&nodes, 1), comm::Communicator::Op::max);
    most_nodes += nodes;
  }
}

void presample(const store::Presampling::Source& source, const store::Presampling::Record& record,
               const PresampleOptions& options) {
  if (source.ranks != nullptr) return presample_together(source, record, options);
  const auto start = Clock::now();
  const store::GraphView& graph = source.graph;
  // All nodes before its own are treated as one other machine, and all nodes after them as another one.
  const std::array offsets{NodeId{0}, source.part_offsets.front(), source.part_offsets.back(),
                           graph.num_nodes};
  const SeedSchedule schedule = schedule_of(source, offsets, 1, options);
  sampling::SamplerOptions sampler_options = options.sampler;
  sampler_options.max_seeds = schedule.max_seeds();
  const auto sampler = sampling::make_sampler(graph, sampler_options, {}, 1, *options.pool);
  const Count num_batches = std::min(options.max_batches, schedule.steps_per_epoch());
  Seconds longest{0};
  for (Count step = 0; step < num_batches; ++step) {
    const auto batch_start = Clock::now();
    if (step > 0 && batch_start - start + longest > options.time_limit) break;
    const std::vector<NodeId> seeds = schedule.step(0, step).seeds;
    const BatchKey key{.seed = options.seed, .epoch = 0, .step = static_cast<std::uint32_t>(step)};
    record(reads_of(sampler->sample(seeds, key, 0, {})));
    longest = std::max<Seconds>(longest, Clock::now() - batch_start);
  }
}

}  // namespace

store::Presampling make_presampling(const PresampleOptions& options) {
  return {.run = [options](const store::Presampling::Source& source,
                           const store::Presampling::Record& record) { presample(source, record, options); }};
}

}  // namespace strata::batches
