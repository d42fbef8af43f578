// SPDX-License-Identifier: Apache-2.0
#include "placing/presampler.hpp"

#include <algorithm>
#include <array>

#include "strata/batches/pipeline.hpp"

namespace strata::batches {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

plan::BatchReads reads_of(const sampling::MiniBatch& batch) {
  plan::BatchReads reads{.input_nodes = {batch.input_nodes(), at(batch.num_inputs())},
                         .neighbors = batch.num_edges()};
  for (const sampling::Block& block : batch.blocks) {
    reads.visited.insert(reads.visited.begin(), block.num_dst);  // the blocks begin with the last hop
    reads.lists += block.num_dst;
    reads.nodes += block.num_src;
  }
  return reads;
}

/// The seeds of a machine, split among its ranks as in training.
SeedSchedule schedule_of(const FirstBatches& batches, const store::OpenGraph& graph,
                         const comm::Machine& machine, std::span<const NodeId> machine_offsets, int index) {
  return SeedSchedule({.nodes = graph.train_nodes(),
                       .clusters = graph.train_clusters(),
                       .machine_offsets = machine_offsets,
                       .part_offsets = graph.part_offsets(),
                       .machine = index,
                       .local_rank = machine.rank(),
                       .machine_ranks = machine.size(),
                       .global_batch = batches.global_batch,
                       .seed = batches.seed});
}

sampling::SamplerOptions options_for(const FirstBatches& batches, const SeedSchedule& schedule) {
  sampling::SamplerOptions options = batches.sampler;
  options.max_seeds = schedule.max_seeds();
  return options;
}

plan::BatchReads sample(sampling::MiniBatchSampler& sampler, const SeedSchedule& schedule, std::uint64_t seed,
                        Count step) {
  const std::vector<NodeId> seeds = schedule.step(0, step).seeds;
  const BatchKey key{.seed = seed, .epoch = 0, .step = static_cast<std::uint32_t>(step)};
  return reads_of(sampler.sample(seeds, key, 0, {}));
}

}  // namespace

void sample_ahead(const FirstBatches& batches, const store::OpenGraph& graph, const comm::Machine& machine,
                  const RecordReads& record) {
  const auto start = Clock::now();
  const store::GraphView lists = graph.lists();
  // All nodes before its own are treated as one other machine, and all nodes after them as another one.
  const std::span<const NodeId> parts = graph.part_offsets();
  const std::array offsets{NodeId{0}, parts.front(), parts.back(), lists.num_nodes};
  const SeedSchedule schedule = schedule_of(batches, graph, machine, offsets, 1);
  const auto sampler = sampling::make_sampler(lists, options_for(batches, schedule), {}, 1, *batches.pool);
  const Count num_batches = std::min(batches.max_batches, schedule.steps_per_epoch());
  Seconds longest{0};
  for (Count step = 0; step < num_batches; ++step) {
    const auto batch_start = Clock::now();
    if (step > 0 && batch_start - start + longest > batches.time_limit) break;
    record(sample(*sampler, schedule, batches.seed, step));
    longest = std::max<Seconds>(longest, Clock::now() - batch_start);
  }
}

void sample_ahead_together(const FirstBatches& batches, const store::OpenGraph& graph,
                           const comm::Ranks& ranks, const RecordReads& record) {
  const comm::Machine& machine = *ranks.machine;
  const store::GraphView lists = graph.lists();
  const SeedSchedule schedule =
      schedule_of(batches, graph, machine, graph.machine_offsets(), machine.index());
  const bool asks = lists.num_local < lists.num_nodes;
  const auto sampler = sampling::make_sampler(lists, options_for(batches, schedule),
                                              {.communicator = asks ? ranks.world : nullptr,
                                               .topology = ranks.topology,
                                               .machine_offsets = graph.machine_offsets(),
                                               .pool = batches.pool},
                                              1, *batches.pool);
  const Count num_batches = std::min(batches.max_shared_batches, schedule.steps_per_epoch());
  std::int64_t most_nodes = 0;  // of a rank
  for (Count step = 0; step < num_batches && most_nodes < batches.max_shared_nodes; ++step) {
    const plan::BatchReads reads = sample(*sampler, schedule, batches.seed, step);
    record(reads);
    std::int64_t nodes = reads.nodes;
    ranks.world->all_reduce(std::span(&nodes, 1), comm::Communicator::Op::max);
    most_nodes += nodes;
  }
}

}  // namespace strata::batches
