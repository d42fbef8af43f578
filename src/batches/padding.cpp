// SPDX-License-Identifier: Apache-2.0
#include "padding.hpp"

#include <algorithm>

#include "strata/comm/device_exchange.hpp"
#include "strata/plan/forecast.hpp"

namespace strata::batches {
namespace {

constexpr Count kBatches = 16;

/// The largest of the measured batches: nodes after each hop, edges of each hop, and input rows that one
/// other rank is asked for.
struct Largest {
  std::vector<Count> nodes, edges;
  Count rows = 0;
};

Largest measure(const PaddingOptions& options, std::size_t hops, const cuda::Stream& stream,
                BatchSizes& sizes) {
  Largest largest{.nodes = std::vector<Count>(hops + 1), .edges = std::vector<Count>(hops), .rows = 0};
  sizes = {.nodes = std::vector<double>(hops), .edges = std::vector<double>(hops)};
  for (Count i = 0; i < kBatches; ++i) {
    const Count step = i * options.schedule->steps_per_epoch() / kBatches;
    const BatchKey key{.seed = options.seed, .epoch = 0, .step = static_cast<std::uint32_t>(step)};
    const sampling::MiniBatch batch =
        options.sampler->sample(options.schedule->step(0, step).seeds, key, 0, stream);
    for (std::size_t hop = 0; hop < hops; ++hop) {
      const sampling::Block& block = batch.blocks[hops - 1 - hop];
      largest.nodes[hop + 1] = std::max(largest.nodes[hop + 1], block.num_src);
      largest.edges[hop] = std::max(largest.edges[hop], block.num_edges);
      sizes.nodes[hop] += static_cast<double>(block.num_dst) / kBatches;
      sizes.edges[hop] += static_cast<double>(block.num_edges) / kBatches;
    }
    if (options.fetcher == nullptr) continue;
    const FetchedIds inputs{.ids = batch.input_nodes(),
                            .count = batch.num_inputs(),
                            .sorted = batch.sorted_inputs,
                            .sorted_positions = batch.sorted_positions};
    largest.rows = std::max(largest.rows, options.fetcher->largest_request(inputs, stream));
  }
  return largest;
}

Count with_margin(Count seen, Count bound) {
  constexpr Count kMultiple = 128;
  const auto wanted = static_cast<Count>(static_cast<double>(seen) * plan::kPaddingMargin) + kMultiple;
  return std::min(bound, wanted / kMultiple * kMultiple);
}

/// Room for what ranks ask each other for, given the most that one needs; the same on all ranks. All of it
/// crosses the wire, used or not; a batch that needs more makes it grow.
std::vector<Count> agreed_room(const comm::Communicator& ranks, std::vector<Count> needed) {
  constexpr Count kSpare = 32;
  ranks.all_reduce(needed, comm::Communicator::Op::max);
  for (Count& room : needed)
    if (room > 0)
      room = comm::rounded_cap(static_cast<Count>(static_cast<double>(room) * plan::kPaddingMargin) + kSpare);
  return needed;
}

}  // namespace

Padding measure_padding(const PaddingOptions& options, const cuda::Stream& stream) {
  const std::size_t hops = options.sampler->bounds().entries.size();
  if (hops == 0) return {};
  Padding padding;
  const Largest largest = measure(options, hops, stream, padding.sizes);
  const sampling::PaddedShape bounds = options.sampler->bounds();  // grew with what was measured
  sampling::PaddedShape& shape = padding.shape = bounds;
  for (std::size_t hop = 0; hop < hops; ++hop) {
    shape.nodes[hop + 1] =
        std::max(shape.nodes[hop], with_margin(largest.nodes[hop + 1], bounds.nodes[hop + 1]));
    const Count fanout = options.fanouts[hop];
    shape.entries[hop] = options.strided && bounds.entries[hop] == bounds.nodes[hop] * fanout
                             ? shape.nodes[hop] * fanout
                             : with_margin(largest.edges[hop], bounds.entries[hop]);
  }
  if (options.fetcher != nullptr) {  // on all ranks or on none; those without bounds, on CPUs, are not here
    const sampling::ExchangeReport report = options.sampler->report();
    shape.requests = agreed_room(*options.communicator, report.largest_requests);
    shape.answers = agreed_room(*options.communicator, report.largest_answers);
    padding.requested_rows = agreed_room(*options.communicator, {largest.rows}).front();
    options.fetcher->bound_requests(padding.requested_rows);
  }
  options.sampler->pad_nodes(shape);
  stream.synchronize();
  return padding;
}

}  // namespace strata::batches
