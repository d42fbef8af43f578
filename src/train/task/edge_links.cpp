// SPDX-License-Identifier: Apache-2.0
#include "task/edge_links.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"

namespace strata::train {
namespace {

using Pair = std::pair<NodeId, NodeId>;  // destination, source: original ids

/// This rank's share of its machine's links.
std::vector<Pair> own_links(const store::MachineGraph& graph, const comm::Machine& machine) {
  const store::GraphView& view = graph.host_view();
  const Range nodes = share_of({0, view.num_local}, machine.rank(), machine.size());
  std::vector<Pair> links;
  for (Count list = nodes.first; list < nodes.end(); ++list) {
    const NodeId destination = view.original_ids[view.first_node + list];
    for (Count entry = view.indptr[list]; entry < view.indptr[list + 1]; ++entry) {
      const NodeId source = view.original_ids[view.indices[entry]];
      if (is_link(source, destination, graph.manifest().undirected)) links.push_back({destination, source});
    }
  }
  return links;
}

}  // namespace

std::vector<NodeId> global_ids_of(const store::MachineGraph& graph) {
  const store::GraphView& view = graph.host_view();
  std::vector<NodeId> global(at(view.num_nodes));
  for (NodeId v = 0; v < view.num_nodes; ++v) global[at(view.original_ids[v])] = v;
  return global;
}

std::shared_ptr<const batches::LinkOptions> links_of(const store::MachineGraph& graph,
                                                     const TrainConfig& config, const comm::Ranks& ranks,
                                                     std::span<const NodeId> global_ids) {
  std::string mine;
  {
    const std::vector<Pair> own = own_links(graph, *ranks.machine);
    mine.assign(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(Pair));
  }
  std::vector<Pair> links;
  for (const std::string& blob : ranks.world->all_gather(mine)) {
    const std::size_t begin = links.size();
    links.resize(begin + blob.size() / sizeof(Pair));
    std::memcpy(static_cast<void*>(links.data() + begin), blob.data(), blob.size());
  }
  if (links.empty())
    throw InputError("the graph has no edges to learn from",
                     "Give a graph with edges, or a smaller --edge-split.");
  std::ranges::sort(links);
  auto options = std::make_shared<batches::LinkOptions>();
  for (const auto& [destination, source] : links) {
    options->sources.push_back(global_ids[at(source)]);
    options->destinations.push_back(global_ids[at(destination)]);
  }
  options->source_candidates = options->destination_candidates = {0, std::ssize(global_ids)};
  options->negatives = {.mode = batches::NegativeOptions::Mode::triplet,
                        .amount = static_cast<double>(config.negatives)};
  if (config.exclude != Exclusion::off) options->edges.emplace();
  if (config.exclude == Exclusion::reverse) options->reverse_edges.emplace();
  return options;
}

}  // namespace strata::train
