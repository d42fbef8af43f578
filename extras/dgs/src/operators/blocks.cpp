// SPDX-License-Identifier: Apache-2.0
#include "operators/blocks.hpp"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <limits>
#include <stdexcept>
#include <utility>

#include "operators/arguments.hpp"
#include "operators/relabel.hpp"
#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

constexpr std::int64_t kMostNodes = std::numeric_limits<std::int32_t>::max();

/// Nodes so far with those of `neighbors` behind them, and the positions of the latter.
std::pair<at::Tensor, at::Tensor> numbered(const at::Tensor& nodes, const at::Tensor& neighbors) {
  auto [all, positions] = relabel({nodes, neighbors}, {neighbors});
  if (all.numel() > kMostNodes)
    throw InputError(fmt::format("{} nodes in one mini-batch, of at most {}", all.numel(), kMostNodes),
                     "Sample fewer seeds or neighbors.");
  return {all, positions.front().to(at::kInt)};
}

/// Seeds in the type of the indices, which may be too small for ids that are no nodes.
at::Tensor narrow_ids(const at::Tensor& seeds, const ChunkedGraph& graph) {
  const at::Tensor ids = ids_on(seeds, graph.indptr.rows().device(), "seeds");
  if (graph.indices.dtype() != at::kInt || ids.scalar_type() == at::kInt || ids.numel() == 0)
    return ids.to(graph.indices.dtype());
  const auto [smallest, largest] = at::aminmax(ids);
  const at::Tensor range = at::stack({smallest, largest}).cpu();  // waits for a GPU once
  const auto least = range.const_data_ptr<std::int64_t>()[0], most = range.const_data_ptr<std::int64_t>()[1];
  if (least < 0 || most > std::numeric_limits<std::int32_t>::max())
    throw std::out_of_range(fmt::format("seed {} is no node of {}", least < 0 ? least : most,
                                        graph.indptr.rows().spec().rows - 1));
  return ids.to(at::kInt);
}

at::Tensor distinct(const at::Tensor& seeds, const ChunkedGraph& graph) {
  const at::Tensor ids = narrow_ids(seeds, graph);
  at::Tensor unique = std::get<0>(relabel({ids}, {}));
  if (unique.numel() != ids.numel())
    throw InputError(fmt::format("{} of {} seeds are there twice", ids.numel() - unique.numel(), ids.numel()),
                     "Give distinct seeds: unique() of them.");
  return unique;
}

struct Lists {
  at::Tensor starts, ends;
};

Lists no_lists(const at::Tensor& like) {
  return {.starts = at::empty({0}, like.options().dtype(at::kLong)),
          .ends = at::empty({0}, like.options().dtype(at::kInt))};
}

/// The same edges by their neighbors, which are positions among `num_nodes` nodes.
Lists out_lists(const at::Tensor& starts, const at::Tensor& neighbors, std::int64_t num_nodes) {
  const auto [sorted, order] = at::sort(neighbors, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const at::Tensor nodes = at::arange(num_nodes + 1, sorted.options());
  return {.starts = at::searchsorted(sorted, nodes),
          .ends = at::searchsorted(starts, order, /*out_int32=*/true, /*right=*/true).sub_(1)};
}

/// The starts of both lists of each node if the second one has one entry.
at::Tensor two_starts(const at::Tensor& starts) {
  const std::int64_t size = starts.numel() - 1;
  const at::Tensor nodes = at::arange(size + 1, starts.options());
  const at::Tensor first = starts + nodes;
  const at::Tensor second = starts.slice(0, 1) + nodes.slice(0, 0, size);
  const at::Tensor pairs = at::stack({first.slice(0, 0, size), second}, 1).flatten();
  return at::cat({pairs, first.slice(0, size)});
}

}  // namespace

Blocks sample_blocks(const BlockArguments& arguments, const ChunkedGraph& graph) {
  if (arguments.inputs_by_id && graph.indptr.rows().spec().rows - 1 > kMostNodes)
    throw InputError("ids of the graph do not fit into 32 bits", "Leave inputs_by_id out.");
  Blocks blocks{distinct(arguments.seeds, graph), {}, {}, {}, {}};
  auto& [nodes, starts, neighbors, out_starts, out_ends] = blocks;
  const auto add = [&](const Lists& in, const Lists& out) {
    starts.push_back(in.starts);
    neighbors.push_back(in.ends);
    out_starts.push_back(out.starts);
    out_ends.push_back(out.ends);
  };
  for (std::size_t hop = 0; hop < arguments.fanouts.size(); ++hop) {
    const bool is_last = hop + 1 == arguments.fanouts.size();
    const bool by_id = is_last && arguments.inputs_by_id;
    const NeighborLists found = sample_lists({.seeds = nodes, .num_picks = arguments.fanouts[hop]}, graph,
                                             by_id ? ListEnd::seed : ListEnd::neighbor);
    if (by_id) {
      add({two_starts(found.starts), found.neighbors.to(at::kInt)}, no_lists(nodes));
      break;
    }
    auto [all, positions] = numbered(nodes, found.neighbors);
    nodes = std::move(all);
    const bool with_out = !is_last || arguments.input_gradients;
    add({found.starts, positions},
        with_out ? out_lists(found.starts, positions, nodes.numel()) : no_lists(nodes));
  }
  return blocks;
}

}  // namespace strata::dgs
