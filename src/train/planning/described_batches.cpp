// SPDX-License-Identifier: Apache-2.0
#include "planning/described_batches.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planning/batch_counts.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::train {
namespace {

/// A node by its type and its number in it, the hottest first.
struct TypedNode {
  std::size_t type = 0;
  Count number = 0;
};

/// Nodes of every type are dealt to the parts in turn; a part has type after type.
class DealtNodes {
 public:
  DealtNodes(const graph::GraphTypes& types, int parts) : parts_(parts) {
    for (std::size_t t = 0; t < types.nodes.size(); ++t)
      counts_.push_back(types.node_offsets[t + 1] - types.node_offsets[t]);
    std::vector<NodeId> offsets{0};
    for (int part = 0; part < parts; ++part) {
      for (std::size_t t = 0; t < counts_.size(); ++t) {
        firsts_.push_back(firsts_.empty() ? 0 : firsts_.back() + counts_of_part_.back());
        counts_of_part_.push_back((counts_[t] + parts - 1 - part) / parts);
      }
      offsets.push_back(firsts_.back() + counts_of_part_.back());
    }
    book_ = graph::PartitionBook(std::move(offsets));
  }

  const graph::PartitionBook& book() const { return book_; }
  Count count(std::size_t type) const { return counts_[type]; }
  Count count_of_part(int part, std::size_t type) const { return counts_of_part_[place(part, type)]; }

  NodeId id_of(const TypedNode& node) const {
    const auto part = static_cast<int>(node.number % parts_);
    return firsts_[place(part, node.type)] + node.number / parts_;
  }
  TypedNode node_of(NodeId id) const {
    const int part = book_.part_of(id);
    const auto begin = firsts_.begin() + static_cast<std::ptrdiff_t>(place(part, 0)),
               end = begin + std::ssize(counts_);
    auto range = std::upper_bound(begin, end, id) - 1;
    return {static_cast<std::size_t>(range - begin), (id - *range) * parts_ + part};
  }

 private:
  std::size_t place(int part, std::size_t type) const { return at(part) * counts_.size() + type; }

  int parts_;
  std::vector<Count> counts_;                   // [types]
  std::vector<Count> firsts_, counts_of_part_;  // [parts, types]
  graph::PartitionBook book_;
};

/// A relation between two types. Where a draw u is uniform in [0, 1), the node at u * u of its type is a skewed
/// end of an edge, and the one at u a uniform one.
struct DescribedRelation {
  std::size_t source = 0, destination = 0;
  double edges = 0, source_skew = 0;
};

/// The density at a place within [0, 1) of a type that ends are drawn from by u * u; its mean is 1.
double density_at(double place) { return 0.5 / std::sqrt(place); }

/// The number of edges that fall to a node on which `mean` fall: Poisson's, from a uniform draw.
Count degree_near(double mean, double u) {
  constexpr double kLarge = 64;  // from here on, the spread matters little
  if (mean > kLarge) return static_cast<Count>(mean + u);
  Count degree = 0;
  for (double chance = std::exp(-mean); u >= chance && chance > 0;
       u -= chance, chance *= mean / static_cast<double>(degree))
    ++degree;
  return degree;
}

class DescribedLists final : public Neighborhood {
 public:
  DescribedLists(const graph::Description& graph, const graph::Manifest& manifest, const DealtNodes& nodes)
      : nodes_(nodes), copied_types_(manifest.replicated_types) {
    const graph::GraphTypes& types = manifest.types;
    const auto number = [&](const std::string& type) {
      return static_cast<std::size_t>(std::ranges::find(types.nodes, type) - types.nodes.begin());
    };
    for (std::size_t r = 0; r < types.edges.size(); ++r) {
      const std::size_t source = number(types.edges[r].source),
                        destination = number(types.edges[r].destination);
      relations_.push_back({source, destination,
                            static_cast<double>(types.edge_offsets[r + 1] - types.edge_offsets[r]),
                            graph.source_skew[r]});
    }
    find_heat(types.nodes.size());
  }

  Picked pick(NodeId id, const Draw& draw, std::vector<NodeId>& picks) override {
    const TypedNode node = nodes_.node_of(id);
    Picked sum;
    for (std::size_t r = 0; r < relations_.size(); ++r) {
      if (relations_[r].destination != node.type || nodes_.count(relations_[r].source) == 0) continue;
      const List list = list_of(id, node, r);
      choose(list.degree, draw.fanouts[r],
             node_key(draw.batch, RandomUse::sample, draw.hop, id, static_cast<std::uint16_t>(r)));
      for (const Count position : positions_) picks.push_back(neighbor(list, position));
      sum.picks += std::ssize(positions_);
      sum.relations += !positions_.empty();
    }
    return sum;
  }

  bool is_copied(NodeId id) const override {
    return std::ranges::binary_search(copied_types_, nodes_.node_of(id).type);
  }

  double place_of(NodeId id) const override {
    const TypedNode node = nodes_.node_of(id);
    const Heat& own = heat_[node.type];
    const double heat = own.uniform + own.skewed * density_at(place_in_type(node));
    double hotter = 0, all = 0;
    for (std::size_t t = 0; t < heat_.size(); ++t) {
      const auto nodes = static_cast<double>(nodes_.count(t));
      hotter += nodes * (t == node.type ? place_in_type(node) : heat_[t].share_above(heat));
      all += nodes;
    }
    return std::min(hotter / all, 1.0);
  }

 private:
  /// How often a node of a type is a neighbor: uniform + skewed * density_at(its place).
  struct Heat {
    double uniform = 0, skewed = 0;
    double share_above(double heat) const {
      if (heat < uniform) return 1;
      if (skewed == 0) return 0;
      const double root = 0.5 * skewed / (heat - uniform);
      return std::min(1.0, root * root);
    }
  };

  void find_heat(std::size_t types) {
    heat_.resize(types);
    for (const DescribedRelation& relation : relations_) {
      Heat& heat = heat_[relation.source];
      const double mean = relation.edges / std::max(1.0, static_cast<double>(nodes_.count(relation.source)));
      heat.skewed += relation.source_skew * mean;
      heat.uniform += (1 - relation.source_skew) * mean;
    }
  }

  double place_in_type(const TypedNode& node) const {
    return (static_cast<double>(node.number) + 0.5) / static_cast<double>(nodes_.count(node.type));
  }

  /// The neighbors of a node over a relation, which are the same in all batches.
  struct List {
    std::size_t source = 0;   ///< their type
    double skewed_share = 0;  ///< of the neighbors
    std::uint64_t key = 0;
    Count degree = 0;
  };
  List list_of(NodeId id, const TypedNode& node, std::size_t r) const {
    const DescribedRelation& relation = relations_[r];
    const double mean = relation.edges / static_cast<double>(nodes_.count(node.type)),
                 skewed = relation.source_skew, all = skewed + (1 - skewed) * density_at(place_in_type(node));
    const std::uint64_t key = mix64(mix64(static_cast<std::uint64_t>(id)) + r);
    return {relation.source, skewed / all, key, degree_near(mean * all, unit_double(key))};
  }

  NodeId neighbor(const List& list, Count position) const {
    const std::uint64_t word = mix64(list.key + static_cast<std::uint64_t>(position));
    const double u = unit_double(word), place = unit_double(mix64(word)) < list.skewed_share ? u * u : u;
    return nodes_.id_of(
        {list.source, static_cast<Count>(place * static_cast<double>(nodes_.count(list.source)))});
  }

  void choose(Count degree, int fanout, std::uint64_t key) {
    positions_.clear();
    if (fanout == 0) return;
    if (fanout > 0 && fanout < degree) return sampling::append_uniform_picks(degree, fanout, key, positions_);
    positions_.resize(at(degree));
    std::iota(positions_.begin(), positions_.end(), Count{0});
  }

  const DealtNodes& nodes_;
  std::vector<std::size_t> copied_types_;  // ascending
  std::vector<DescribedRelation> relations_;
  std::vector<Heat> heat_;  // [types]
  std::vector<Count> positions_;
};

/// Distinct nodes of the target's type on a machine.
std::vector<NodeId> draw_seeds(const DealtNodes& nodes, std::size_t target, int machine, Count count,
                               std::uint64_t key) {
  const Count all = nodes.count_of_part(machine, target);
  const auto parts = Count{nodes.book().num_parts()};
  const Shuffle shuffle(static_cast<std::uint64_t>(all), key);
  std::vector<NodeId> seeds;
  for (Count i = 0; i < std::min(count, all); ++i)
    seeds.push_back(
        nodes.id_of({target, static_cast<Count>(shuffle(static_cast<std::uint64_t>(i))) * parts + machine}));
  return seeds;
}

}  // namespace

graph::Manifest manifest_of(const graph::Description& graph, int machines) {
  graph::Manifest manifest = graph.manifest;
  manifest.book = DealtNodes(manifest.types, machines).book();
  manifest.replicated_types = graph::types_to_replicate(manifest, {});
  return manifest;
}

BatchProfile profile_described(const graph::Description& graph, const graph::Manifest& manifest,
                               const ProfiledJob& job) {
  const DealtNodes nodes(manifest.types, job.machines);
  DescribedLists lists(graph, manifest, nodes);
  BatchCounts counts(lists, fanouts_by_relation(job, manifest.types), !job.train_edges_only);
  const Count steps = (manifest.num_train + job.global_batch - 1) / job.global_batch,
              seeds = std::min(job.global_batch, manifest.num_train) /
                      (Count{job.machines} * job.ranks_per_machine);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < job.batches; ++i) {
    if (i > 0 && std::chrono::steady_clock::now() - start > job.time_limit) break;
    const int machine = i * job.machines / job.batches;
    const BatchKey key{.seed = job.seed, .epoch = 0, .step = static_cast<std::uint32_t>(i)};
    const NodeId first = manifest.book.offsets()[at(machine)];
    counts.add(draw_seeds(nodes, graph.target, machine, std::max<Count>(1, seeds),
                          node_key(key, RandomUse::sample, 0, machine)),
               key, {first, manifest.book.offsets()[at(machine) + 1] - first});
  }
  return counts.mean(steps);
}

}  // namespace strata::train
