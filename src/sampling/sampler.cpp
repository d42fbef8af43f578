// SPDX-License-Identifier: Apache-2.0
#include "strata/sampling/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "mini_batch_buffers.hpp"
#include "sampler_cpu.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"
#if STRATA_WITH_CUDA
#include "sampler_cuda.hpp"
#endif

namespace strata::sampling {
namespace {

constexpr std::size_t kMaxHops = 255;  // keys have eight bits for the hop

void check(const SamplerOptions& options, const store::GraphView& view, int num_buffers) {
  if (options.fanouts.empty())
    throw InputError("no fanouts were given", "Give one fanout per layer, such as 15,10,5.");
  if (options.fanouts.size() > kMaxHops) {
    throw InputError(
        fmt::format("{} fanouts were given; at most {} are possible", options.fanouts.size(), kMaxHops));
  }
  for (const int fanout : options.fanouts) {
    if (fanout >= -1) continue;
    throw InputError(fmt::format("the fanout {} is below -1", fanout),
                     "Give -1 for all neighbors, or a number of them.");
  }
  if (num_buffers < 1)
    throw InputError(fmt::format("the sampler needs at least one buffer, not {}", num_buffers));
  if (options.max_seeds < 0) throw InputError(fmt::format("max_seeds is {}", options.max_seeds));
  if (options.edge_ids && view.edge_ids.size != view.indices.size) {
    throw InputError("edge ids are to be sampled, but the graph was loaded without them",
                     "Set LoadOptions::edge_ids.");
  }
  if (options.sorted_inputs && !options.compact_inputs)
    throw InputError("inputs that are not compacted are not distinct, and cannot be given sorted",
                     "Leave compact_inputs on, or sorted_inputs off.");
  if (options.in_degrees && view.in_degrees == nullptr && view.num_nodes > 0) {
    throw InputError("in-degrees are to be sampled, but the graph was loaded without them",
                     "Set LoadOptions::in_degrees.");
  }
}

void check_relations(const SamplerOptions& options, const store::GraphView& view) {
  if (options.relation_fanouts.empty()) return;
  const auto relations = at(view.sublists.num_relations);
  if (options.relation_fanouts.size() != options.fanouts.size())
    throw InputError("there are not as many hops for each relation as fanouts");
  for (std::size_t hop = 0; hop < options.fanouts.size(); ++hop) {
    const std::vector<int>& fanouts = options.relation_fanouts[hop];
    if (fanouts.size() != relations)
      throw InputError(
          fmt::format("hop {} has {} fanouts, but there are {} relations", hop, fanouts.size(), relations));
    if (std::ranges::any_of(fanouts, [](int fanout) { return fanout < -1; }))
      throw InputError("a fanout is below -1", "Give -1 for all neighbors, or a number of them.");
    const int largest = std::ranges::max(fanouts);
    if ((std::ranges::min(fanouts) < 0 ? -1 : largest) != options.fanouts[hop])
      throw InputError(fmt::format("the fanout of hop {} is not the largest of its relations", hop));
  }
}

void check_method(const SamplerOptions& options, const store::GraphView& view) {
  const DeviceChooserMaker& maker = options.device_chooser;
  const bool on_gpu = has_narrow_ids(view) ? maker.narrow != nullptr : maker.wide != nullptr;
  if (options.chooser != nullptr || maker.narrow != nullptr || maker.wide != nullptr) {
    if (options.max_excluded > 0)
      throw InputError("a user-defined chooser cannot leave out the edges that are to be predicted",
                       "Take a sampler of Strata's, or exclude no edges.");
    if (view.device.is_cuda() ? on_gpu : options.chooser != nullptr) return;
    throw InputError(fmt::format("the user-defined chooser does not support {} and {}-bit ids",
                                 view.device.str(), has_narrow_ids(view) ? 32 : 64),
                     "Set SamplerOptions::chooser for the cpu, device_chooser for GPUs.");
  }
  if (options.method == Method::labor && options.replace)
    throw InputError("LABOR samples without replacement", "Leave replace out, or sample uniformly.");
  if (options.layer_dependent && options.method != Method::labor)
    throw InputError("layers depend on each other with LABOR only", "Leave layer_dependent out.");
  if (options.method == Method::weighted && view.weights == nullptr && view.indices.size > 0)
    throw InputError(
        "edges are to be sampled by weight, but the graph was loaded without weights",
        "Load the graph with its edge weights (GraphOptions::edge_weights; in Python load(weights=True) or "
        "from_tensors(edge_weight=...)), or choose another sampler.");
}

}  // namespace

void check_sampler(const SamplerOptions& options, const store::GraphView& view, int num_buffers) {
  check(options, view, num_buffers);
  check_relations(options, view);
  check_method(options, view);
}

void check_whole_inputs(const SamplerOptions& options, const store::GraphView& view, bool exchanges) {
  if (options.compact_inputs || (!exchanges && has_narrow_ids(view))) return;
  throw InputError("input nodes that are not compacted need one machine and ids of 32 bits",
                   "Leave compact_inputs on.");
}

void refuse_seed(NodeId node, Count num_nodes) {
  if (node < 0 || node >= num_nodes)
    throw InputError(fmt::format("the seed {} is not a node of the graph (0 to {})", node, num_nodes - 1),
                     "Give global ids of nodes.");
  throw InputError(fmt::format("node {} is among the seeds of a batch more than once", node),
                   "Give each node once; its neighbors would be the same each time.");
}

void check_local_ids_suffice(Count num_nodes) {
  if (num_nodes <= std::numeric_limits<std::int32_t>::max()) return;
  throw Error("a minibatch has " + format_count(num_nodes) + " distinct nodes; local ids are 32-bit",
              "Lower the batch size or the fanouts.");
}

MiniBatch blocks_of(const MiniBatchBuffers& buffers, const SamplerOptions& options, Device device,
                    Count num_seeds) {
  MiniBatch batch;
  batch.num_seeds = num_seeds;
  if (options.sorted_inputs) {
    batch.sorted_inputs = buffers.sorted_nodes.data();
    batch.sorted_positions = buffers.sorted_positions.data();
  }
  for (auto hop = buffers.hops.rbegin(); hop != buffers.hops.rend(); ++hop) {
    batch.blocks.push_back({.device = device,
                            .num_dst = hop->num_dst,
                            .num_src = hop->num_src,
                            .num_edges = hop->num_edges,
                            .indptr = hop->stride == 0 ? hop->indptr.data() : nullptr,
                            .indices = hop->indices.data(),
                            .edge_ids = options.edge_ids ? hop->edge_ids.data() : nullptr,
                            .stride = hop->stride,
                            .counts = hop->stride == 0 ? nullptr : hop->counts.data(),
                            .src_nodes = buffers.nodes.data(),
                            .src_original_ids = buffers.original_ids.data(),
                            .src_in_degrees = options.in_degrees ? buffers.in_degrees.data() : nullptr});
  }
  return batch;
}

ExchangeReport& ExchangeReport::operator+=(const ExchangeReport& other) {
  const std::size_t hops = std::max(traffic.size(), other.traffic.size());
  for (auto* numbers :
       {&frontier_nodes, &remote_nodes, &cached_nodes, &hop_bytes, &largest_requests, &largest_answers})
    numbers->resize(hops);
  traffic.resize(hops);
  for (std::size_t hop = 0; hop < other.traffic.size(); ++hop) {
    frontier_nodes[hop] += other.frontier_nodes[hop];
    remote_nodes[hop] += other.remote_nodes[hop];
    cached_nodes[hop] += other.cached_nodes[hop];
    hop_bytes[hop] += other.hop_bytes[hop];
    traffic[hop] += other.traffic[hop];
    largest_requests[hop] = std::max(largest_requests[hop], other.largest_requests[hop]);
    largest_answers[hop] = std::max(largest_answers[hop], other.largest_answers[hop]);
  }
  bytes_sent += other.bytes_sent;
  bytes_received += other.bytes_received;
  seconds += other.seconds;
  waited_seconds += other.waited_seconds;
  repeated_batches += other.repeated_batches;
  return *this;
}

bool pad(MiniBatch& batch, const PaddedShape& shape) {
  const std::size_t hops = batch.blocks.size();
  if (!batch.can_be_padded || shape.entries.size() != hops) return false;
  for (std::size_t hop = 0; hop < hops; ++hop) {
    const Block& block = batch.blocks[hops - 1 - hop];
    if (block.num_dst > shape.nodes[hop] || block.num_src > shape.nodes[hop + 1]) return false;
    if (block.stride == 0 && block.num_edges > shape.entries[hop]) return false;
  }
  for (std::size_t hop = 0; hop < hops; ++hop) {
    Block& block = batch.blocks[hops - 1 - hop];
    block.num_dst = shape.nodes[hop];
    block.num_src = block.global_indices ? shape.nodes[hop] : shape.nodes[hop + 1];
    block.num_edges = shape.entries[hop];
  }
  return true;
}

std::unique_ptr<MiniBatchSampler> make_sampler(const store::GraphView& view, const SamplerOptions& options,
                                               const ExchangeContext& exchange, int num_buffers,
                                               ThreadPool& pool) {
  check_sampler(options, view, num_buffers);
  if (!view.device.is_cuda()) return make_cpu_sampler(view, options, exchange, num_buffers, pool);
#if STRATA_WITH_CUDA
  return make_cuda_sampler(view, options, exchange, num_buffers);
#else
  throw InputError("the graph lies on " + view.device.str() + ", but this build has no CUDA");
#endif
}

}  // namespace strata::sampling
