// SPDX-License-Identifier: Apache-2.0
#include "planning/batch_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "planning/batch_counts.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/util/random.hpp"
#include "strata/util/ranges.hpp"

namespace strata::train {
namespace {

/// Training nodes of all parts, in the order of their original ids, and their clusters if there are any.
struct TrainNodes {
  std::vector<NodeId> nodes;
  std::vector<std::int32_t> clusters;  ///< as store::MachineGraph::train_clusters(), of all parts
};

/// All parts of a graph, open. What is read of them is checked before it is used as an index.
class OpenParts {
 public:
  OpenParts(const graph::PartsOrigin& origin, const graph::Manifest& manifest, graph::Verify verify)
      : origin_(origin), manifest_(manifest), relations_(manifest.types) {
    for (int part = 0; part < num_parts(); ++part)
      readers_.push_back(graph::PartReader::open(origin, manifest, part, verify));
  }

  int num_parts() const { return manifest_.book.num_parts(); }
  const graph::Manifest& manifest() const { return manifest_; }
  const graph::PartReader& reader(int part) const { return readers_[at(part)]; }

  graph::PartData::SplitRows train_rows(int part) const {
    graph::PartData::SplitRows split = reader(part).read_split(graph::Split::train);
    for (std::size_t i = 0; i < split.rows.size(); ++i) {
      if (split.rows[i] < 0 || split.rows[i] >= reader(part).num_inner())
        refuse(part, fmt::format("a split names row {} of {}", split.rows[i], reader(part).num_inner()));
      if (split.ranks[i] < 0 || split.ranks[i] >= manifest_.num_train)
        refuse(part, fmt::format("a training node has rank {} of {}", split.ranks[i], manifest_.num_train));
    }
    return split;
  }

  /// The edges of a row.
  Range list_of(int part, Count row, graph::RecentBlocks& recent) const {
    Count ends[2];
    reader(part).read_indptr(row, 2, ends, &recent);
    if (ends[0] < 0 || ends[1] < ends[0] || ends[1] > reader(part).num_edges())
      refuse(part, fmt::format("indptr gives row {} the edges {} to {} of {}", row, ends[0], ends[1],
                               reader(part).num_edges()));
    return {ends[0], ends[1] - ends[0]};
  }

  /// The relation of an entry of the part's lists.
  int relation_of(int part, Count entry, graph::RecentBlocks& recent) const {
    if (relations_.size() == 1) return 0;
    EdgeId edge = 0;
    reader(part).read_edge_ids(entry, 1, &edge, &recent);
    const int relation = relations_.relation_of(edge);
    if (relation < 0) refuse(part, fmt::format("edge_ids[{}] is {}, which is of no relation", entry, edge));
    return relation;
  }

  /// The type of a node.
  std::size_t type_of(NodeId node) const {
    const int part = manifest_.book.part_of(node);
    const Count row = manifest_.book.local_of(node);
    NodeId original_id = 0;
    reader(part).read_original_ids(row, 1, &original_id);
    if (original_id < 0 || original_id >= manifest_.book.num_nodes())
      refuse(part, fmt::format("original_ids[{}] is {}", row, original_id));
    return graph::type_of_node(manifest_.types, original_id);
  }

  void read_neighbors(int part, Range edges, NodeId* out, graph::RecentBlocks& recent) const {
    reader(part).read_indices(edges.first, edges.count, out, &recent);
    const NodeId num_nodes = manifest_.book.num_nodes();
    for (Count i = 0; i < edges.count; ++i)
      if (out[i] < 0 || out[i] >= num_nodes)
        refuse(part, fmt::format("indices[{}] is {}, but nodes are 0 to {}", edges.first + i, out[i],
                                 num_nodes - 1));
  }

 private:
  [[noreturn]] void refuse(int part, const std::string& what) const {
    graph::refuse_damaged(origin_, part, what);
  }

  const graph::PartsOrigin& origin_;
  const graph::Manifest& manifest_;
  graph::RelationRanges relations_;
  std::vector<graph::PartReader> readers_;
};

TrainNodes train_nodes_of(const OpenParts& parts, bool with_clusters) {
  const graph::Manifest& manifest = parts.manifest();
  TrainNodes train{.nodes = std::vector<NodeId>(at(manifest.num_train)),
                   .clusters = std::vector<std::int32_t>(with_clusters ? at(manifest.num_train) : 0)};
  for (int part = 0; part < parts.num_parts(); ++part) {
    const graph::PartData::SplitRows split = parts.train_rows(part);
    for (std::size_t i = 0; i < split.rows.size(); ++i)
      train.nodes[at(split.ranks[i])] = manifest.book.global_of(part, split.rows[i]);
    if (!with_clusters) continue;
    const std::vector<std::int32_t> clusters = parts.reader(part).read_clusters_of(split.rows);
    const auto before = static_cast<std::int32_t>(static_cast<Count>(part) * manifest.num_clusters);
    for (std::size_t i = 0; i < clusters.size(); ++i)
      train.clusters[at(split.ranks[i])] = before + clusters[i];
  }
  return train;
}

/// The neighbors that inductive training sees; an empty one: all.
struct SeenNeighbors {
  std::vector<bool> nodes;      ///< training nodes
  std::vector<bool> relations;  ///< those whose sources have training nodes; it sees all sources of others
};

/// `train` are the training nodes in the order of their original ids.
SeenNeighbors seen_neighbors(const OpenParts& parts, const std::vector<NodeId>& train) {
  const graph::Manifest& manifest = parts.manifest();
  SeenNeighbors seen{.nodes = std::vector<bool>(at(manifest.book.num_nodes())), .relations = {}};
  for (const NodeId node : train) seen.nodes[at(node)] = true;
  std::vector<std::string> types;
  for (auto next = train.begin(); next != train.end();) {
    const std::size_t type = parts.type_of(*next);
    types.push_back(manifest.types.nodes[type]);
    next = std::partition_point(next, train.end(), [&](NodeId node) { return parts.type_of(node) <= type; });
  }
  for (const graph::EdgeType& relation : manifest.types.edges)
    seen.relations.push_back(std::ranges::count(types, relation.source) > 0);
  return seen;
}

/// Reads neighbor lists where they lie, and picks from them as the uniform sampler of a run does. Nodes are
/// known by their numbers in the parts, which key their choices in place of original ids.
class ListSampler final : public Neighborhood {
 public:
  ListSampler(const OpenParts& parts, SeenNeighbors seen) : parts_(parts), seen_(std::move(seen)) {
    const graph::Manifest& manifest = parts.manifest();
    if (manifest.replicated_types.empty()) return;
    copied_.resize(at(manifest.book.num_nodes()));
    for (const graph::EdgeType& relation : manifest.types.edges)
      sources_copied_.push_back(std::ranges::any_of(manifest.replicated_types, [&](std::size_t type) {
        return manifest.types.nodes[type] == relation.source;
      }));
  }

  Picked pick(NodeId node, const Draw& draw, std::vector<NodeId>& picks) override {
    const graph::PartitionBook& book = parts_.manifest().book;
    const int part = book.part_of(node);
    Range left = parts_.list_of(part, book.local_of(node), recent_);
    Picked sum;
    while (left.count > 0) {
      const int relation = parts_.relation_of(part, left.first, recent_);
      const Range sublist{left.first, entries_of(relation, part, left)};
      const std::uint64_t key =
          node_key(draw.batch, RandomUse::sample, draw.hop, node, static_cast<std::uint16_t>(relation));
      const bool sees_some = !seen_.nodes.empty() && seen_.relations[at(relation)];
      const Count taken = pick_from({part, sublist, sees_some}, draw.fanouts[at(relation)], key, picks);
      if (!copied_.empty() && sources_copied_[at(relation)])
        for (const NodeId pick : std::span(picks).last(at(taken))) copied_[at(pick)] = true;
      sum.picks += taken;
      sum.relations += taken > 0;
      left = {sublist.end(), left.count - sublist.count};
    }
    return sum;
  }

  bool is_copied(NodeId node) const override { return !copied_.empty() && copied_[at(node)]; }

  double place_of(NodeId node) const override {
    const graph::PartitionBook& book = parts_.manifest().book;
    const auto part = at(book.part_of(node));
    const NodeId first = book.offsets()[part];
    return static_cast<double>(node - first) / static_cast<double>(book.offsets()[part + 1] - first);
  }

 private:
  static constexpr Count kLongList = 4096;

  /// How many entries at the beginning are of this relation: lists are ordered by relation.
  Count entries_of(int relation, int part, Range list) {
    Count low = 1, high = list.count;
    if (parts_.relation_of(part, list.end() - 1, recent_) == relation) return high;
    while (low < high) {
      const Count middle = low + (high - low) / 2;
      if (parts_.relation_of(part, list.first + middle, recent_) == relation)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  struct List {
    int part;
    Range entries;
    bool sees_some;  ///< only training nodes are neighbors
  };
  Count pick_from(const List& from, int fanout, std::uint64_t key, std::vector<NodeId>& picks) {
    const auto& [part, list, sees_some] = from;
    if (list.count == 0 || fanout == 0) return 0;
    const auto chooses = [&](Count degree) { return fanout >= 0 && fanout < degree; };
    positions_.clear();
    if (!sees_some && list.count > kLongList && chooses(list.count)) {
      sampling::append_uniform_picks(list.count, fanout, key, positions_);
      std::ranges::sort(positions_);
      for (const Count position : positions_) {
        NodeId neighbor = 0;
        parts_.read_neighbors(part, {list.first + position, 1}, &neighbor, recent_);
        picks.push_back(neighbor);
      }
      return fanout;
    }
    list_.resize(at(list.count));
    parts_.read_neighbors(part, list, list_.data(), recent_);
    if (sees_some) std::erase_if(list_, [&](NodeId v) { return !seen_.nodes[at(v)]; });
    if (!chooses(std::ssize(list_))) {
      picks.insert(picks.end(), list_.begin(), list_.end());
      return std::ssize(list_);
    }
    sampling::append_uniform_picks(std::ssize(list_), fanout, key, positions_);
    for (const Count position : positions_) picks.push_back(list_[at(position)]);
    return fanout;
  }

  const OpenParts& parts_;
  graph::RecentBlocks recent_;
  SeenNeighbors seen_;
  std::vector<bool> sources_copied_;  // by relation: of a type that every machine has copies of
  std::vector<bool> copied_;          // nodes of such types that were picked; empty: there are none
  std::vector<NodeId> list_;
  std::vector<Count> positions_;
};

}  // namespace

BatchProfile profile_batches(const graph::PartsOrigin& parts, const graph::Manifest& manifest,
                             const ProfiledJob& job) {
  const graph::PartitionBook& book = manifest.book;
  const std::vector<int> first_part = graph::parts_of_machines(book.num_parts(), job.machines);
  const OpenParts open(parts, manifest, job.verify);
  const TrainNodes train = train_nodes_of(open, manifest.num_clusters > 0 && job.ranks_per_machine > 1);
  std::vector<NodeId> machine_offsets;
  for (const int part : first_part) machine_offsets.push_back(book.offsets()[at(part)]);

  ListSampler sampler(open, job.train_edges_only ? seen_neighbors(open, train.nodes) : SeenNeighbors());
  BatchCounts counts(sampler, fanouts_by_relation(job, manifest.types), !job.train_edges_only);
  Count steps_per_epoch = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < job.batches; ++i) {
    if (i > 0 && std::chrono::steady_clock::now() - start > job.time_limit) break;
    const auto machine = at(i * job.machines / job.batches);
    const auto first = at(first_part[machine]), last = at(first_part[machine + 1]);
    const batches::SeedSchedule schedule({.nodes = train.nodes,
                                          .clusters = train.clusters,
                                          .machine_offsets = machine_offsets,
                                          .part_offsets = book.offsets().subspan(first, last - first + 1),
                                          .machine = static_cast<int>(machine),
                                          .local_rank = i % job.ranks_per_machine,
                                          .machine_ranks = job.ranks_per_machine,
                                          .global_batch = job.global_batch,
                                          .seed = job.seed});
    steps_per_epoch = schedule.steps_per_epoch();
    const Count step = i * steps_per_epoch / job.batches;
    counts.add(schedule.step(0, step).seeds,
               {.seed = job.seed, .epoch = 0, .step = static_cast<std::uint32_t>(step)},
               {machine_offsets[machine], machine_offsets[machine + 1] - machine_offsets[machine]});
  }
  return counts.mean(steps_per_epoch);
}

}  // namespace strata::train
