// SPDX-License-Identifier: Apache-2.0
#include "task/edge_links.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>

#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"
#include "type_choices.hpp"

namespace strata::train {
namespace {

/// This rank's share of its machine's links.
std::vector<Link> own_links(const store::MachineGraph& graph, const LinkTypes& types,
                            const comm::Machine& machine) {
  const store::GraphView& view = graph.host_view();
  const bool undirected = graph.manifest().undirected;
  const Range nodes = share_of({0, view.num_local}, machine.rank(), machine.size());
  std::vector<Link> links;
  for (Count list = nodes.first; list < nodes.end(); ++list) {
    const NodeId destination = view.original_ids[view.first_node + list];
    for (Count entry = view.indptr[list]; entry < view.indptr[list + 1]; ++entry) {
      Link link{.source = view.original_ids[view.indices[entry]], .destination = destination};
      if (!is_link(link.source, destination, undirected)) continue;
      if (view.edge_ids.size > 0) link.edge = view.edge_ids[entry];
      link.relation = types.of(link.edge);
      if (view.weights != nullptr) link.weight = view.weights[entry];
      if (link.relation >= 0) links.push_back(link);
    }
  }
  return links;
}

Range nodes_named(const graph::GraphTypes& types, const std::string& name, Count num_nodes) {
  const auto type = std::ranges::find(types.nodes, name) - types.nodes.begin();
  return graph::nodes_of_type(types, at(type), num_nodes);
}

}  // namespace

std::vector<NodeId> global_ids_of(const store::MachineGraph& graph) {
  const store::GraphView& view = graph.host_view();
  std::vector<NodeId> global(at(view.num_nodes));
  for (NodeId v = 0; v < view.num_nodes; ++v) global[at(view.original_ids[v])] = v;
  return global;
}

LinkTypes::LinkTypes(const TrainConfig& config, const graph::Manifest& manifest)
    : relations_(link_relations(config, manifest.types)),
      places_(manifest.types.edges.size(), -1),
      ranges_(manifest.types) {
  const Count num_nodes = manifest.book.num_nodes();
  Count before = 0;
  for (const std::size_t r : relations_) {
    const graph::EdgeType& type = manifest.types.edges[r];
    places_[r] = std::ssize(names_);
    names_.push_back(graph::joined_name_of(type));
    const Range edges = graph::edges_of_relation(manifest.types, r, manifest.num_edges);
    first_edges_.push_back(edges.first - before);
    before += edges.count;
    sources_.push_back(nodes_named(manifest.types, type.source, num_nodes));
    destinations_.push_back(nodes_named(manifest.types, type.destination, num_nodes));
  }
}

Count LinkTypes::of(EdgeId edge) const {
  const int relation = ranges_.size() == 1 ? 0 : ranges_.relation_of(edge);
  return relation < 0 ? -1 : places_[at(Count{relation})];
}

std::string LinkTypes::name(Count relation) const { return names_[at(relation)]; }

std::vector<Link> listed_links(const store::MachineGraph& graph, const LinkTypes& types,
                               const comm::Ranks& ranks) {
  std::string mine;
  {
    const std::vector<Link> own = own_links(graph, types, *ranks.machine);
    mine.assign(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(Link));
  }
  std::vector<Link> links;
  for (const std::string& blob : ranks.world->all_gather(mine)) {
    const std::size_t begin = links.size();
    links.resize(begin + blob.size() / sizeof(Link));
    std::memcpy(static_cast<void*>(links.data() + begin), blob.data(), blob.size());
  }
  std::ranges::sort(links, {}, [](const Link& link) {
    return std::tuple(link.relation, link.destination, link.source, link.edge);
  });
  return links;
}

std::vector<Link> held_links(const store::MachineGraph& graph, const LinkTypes& types, graph::Split split) {
  const std::span<const std::int64_t> held = graph.held_edges(split);
  std::vector<Link> links;
  for (std::size_t e = 0; e < held.size(); e += 3) {
    const Link link{.source = held[e],
                    .destination = held[e + 1],
                    .edge = held[e + 2],
                    .relation = types.of(held[e + 2])};
    if (link.relation >= 0 && link.source != link.destination) links.push_back(link);
  }
  return links;
}

std::shared_ptr<const batches::LinkOptions> link_options(std::span<const Link> links, const LinkTypes& types,
                                                         const TrainConfig& config,
                                                         std::span<const NodeId> global_ids) {
  auto options = std::make_shared<batches::LinkOptions>();
  for (const Link& link : links) {
    options->sources.push_back(global_ids[at(link.source)]);
    options->destinations.push_back(global_ids[at(link.destination)]);
    if (types.size() > 1) options->relations.of_links.push_back(static_cast<RelationId>(link.relation));
  }
  options->source_candidates = types.sources(0);
  options->destination_candidates = types.destinations(0);
  for (Count r = 0; types.size() > 1 && r < types.size(); ++r) {
    options->relations.sources.push_back(types.sources(r));
    options->relations.destinations.push_back(types.destinations(r));
  }
  using Mode = batches::NegativeOptions::Mode;
  options->negatives = {.mode = config.task == TaskKind::edge                       ? Mode::none
                                : config.negative_ends == NegativeEnds::destination ? Mode::triplet
                                                                                    : Mode::both,
                        .amount = static_cast<double>(config.negatives)};
  if (config.exclude != Exclusion::off) {
    options->edges.emplace();
    // Other edges between the ends of one may give its target away, but belong to what a link is told from.
    if (config.task == TaskKind::link && !links.empty() && links.front().edge >= 0)
      for (const Link& link : links) options->edges->ids.push_back(link.edge);
  }
  if (config.exclude == Exclusion::reverse) options->reverse_edges.emplace();
  return options;
}

}  // namespace strata::train
