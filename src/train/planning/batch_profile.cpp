// SPDX-License-Identifier: Apache-2.0
#include "planning/batch_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "strata/batches/pipeline.hpp"
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
      : origin_(origin), manifest_(manifest) {
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

/// Reads neighbor lists where they lie, and picks from them as the uniform sampler of a run does. Nodes are
/// known by their numbers in the parts, which key their choices in place of original ids.
class ListSampler {
 public:
  /// `allowed` says which nodes are neighbors; empty: all.
  ListSampler(const OpenParts& parts, std::vector<bool> allowed)
      : parts_(parts), allowed_(std::move(allowed)) {}

  /// A hop of a batch.
  struct Draw {
    BatchKey batch;
    std::uint32_t hop = 0;
    int fanout = 0;
  };
  /// Appends the picks of a node; returns how many there are. Nodes in ascending order are the cheapest.
  Count pick(NodeId node, const Draw& draw, std::vector<NodeId>& picks) {
    const graph::PartitionBook& book = parts_.manifest().book;
    const int part = book.part_of(node);
    const Range list = parts_.list_of(part, book.local_of(node), recent_);
    if (list.count == 0 || draw.fanout == 0) return 0;
    const std::uint64_t key = node_key(draw.batch, RandomUse::sample, draw.hop, node);
    const auto chooses = [&](Count degree) { return draw.fanout >= 0 && draw.fanout < degree; };
    positions_.clear();
    if (allowed_.empty() && list.count > kLongList && chooses(list.count)) {
      sampling::append_uniform_picks(list.count, draw.fanout, key, positions_);
      std::ranges::sort(positions_);
      for (const Count position : positions_) {
        NodeId neighbor = 0;
        parts_.read_neighbors(part, {list.first + position, 1}, &neighbor, recent_);
        picks.push_back(neighbor);
      }
      return draw.fanout;
    }
    list_.resize(at(list.count));
    parts_.read_neighbors(part, list, list_.data(), recent_);
    if (!allowed_.empty()) std::erase_if(list_, [&](NodeId v) { return !allowed_[at(v)]; });
    if (!chooses(std::ssize(list_))) {
      picks.insert(picks.end(), list_.begin(), list_.end());
      return std::ssize(list_);
    }
    sampling::append_uniform_picks(std::ssize(list_), draw.fanout, key, positions_);
    for (const Count position : positions_) picks.push_back(list_[at(position)]);
    return draw.fanout;
  }

 private:
  static constexpr Count kLongList = 4096;

  const OpenParts& parts_;
  graph::RecentBlocks recent_;
  std::vector<bool> allowed_;
  std::vector<NodeId> list_;
  std::vector<Count> positions_;
};

std::vector<bool> marks_of(const std::vector<NodeId>& nodes, Count num_nodes) {
  std::vector<bool> marks(at(num_nodes));
  for (const NodeId node : nodes) marks[at(node)] = true;
  return marks;
}

struct OwnRange {
  NodeId begin, end;
  bool has(NodeId node) const { return node >= begin && node < end; }
};

/// In how many of the levels a row lies.
void add_heat(std::array<double, BatchProfile::kLevels>& heat, double place) {
  for (std::size_t level = 0; level < heat.size(); ++level)
    if (place < std::ldexp(1.0, -static_cast<int>(level))) ++heat[level];
}

void add_inputs(const std::vector<NodeId>& inputs, const graph::PartitionBook& book, const OwnRange& own,
                BatchProfile& sum) {
  for (const NodeId node : inputs) {
    const auto part = at(book.part_of(node));
    const auto size = static_cast<double>(book.offsets()[part + 1] - book.offsets()[part]);
    const double place = static_cast<double>(node - book.offsets()[part]) / size;
    add_heat(sum.heat, place);
    ++sum.inputs;
    if (own.has(node)) continue;
    add_heat(sum.remote_heat, place);
    ++sum.remote_inputs;
  }
}

void add_batch(std::vector<NodeId> nodes, const BatchKey& key, const std::vector<int>& fanouts,
               const OwnRange& own, ListSampler& sampler, const graph::PartitionBook& book,
               BatchProfile& sum) {
  std::ranges::sort(nodes);
  std::vector<NodeId> picks, found;
  for (std::size_t hop = 0; hop < fanouts.size(); ++hop) {
    BatchProfile::Hop& of_hop = sum.hops[hop];
    picks.clear();
    for (const NodeId node : nodes) {
      const Count taken = sampler.pick(node, {key, static_cast<std::uint32_t>(hop), fanouts[hop]}, picks);
      ++of_hop.nodes;
      of_hop.picks += static_cast<double>(taken);
      if (own.has(node)) continue;
      ++of_hop.remote_nodes;
      of_hop.remote_picks += static_cast<double>(taken);
    }
    std::ranges::sort(picks);
    picks.erase(std::unique(picks.begin(), picks.end()), picks.end());
    found.clear();
    std::ranges::set_union(nodes, picks, std::back_inserter(found));
    nodes.swap(found);
  }
  add_inputs(nodes, book, own, sum);
}

void divide(BatchProfile& sum) {
  for (double& share : sum.heat) share /= std::max(1.0, sum.inputs);
  for (double& share : sum.remote_heat) share /= std::max(1.0, sum.remote_inputs);
  const double batches = std::max(1, sum.batches);
  sum.inputs /= batches;
  sum.remote_inputs /= batches;
  for (BatchProfile::Hop& hop : sum.hops)
    for (double* value : {&hop.nodes, &hop.picks, &hop.remote_nodes, &hop.remote_picks}) *value /= batches;
}

}  // namespace

BatchProfile profile_batches(const graph::PartsOrigin& parts, const graph::Manifest& manifest,
                             const ProfiledJob& job) {
  const graph::PartitionBook& book = manifest.book;
  const std::vector<int> first_part = graph::parts_of_machines(book.num_parts(), job.machines);
  const OpenParts open(parts, manifest, job.verify);
  const TrainNodes train = train_nodes_of(open, manifest.num_clusters > 0 && job.ranks_per_machine > 1);
  std::vector<NodeId> machine_offsets;
  for (const int part : first_part) machine_offsets.push_back(book.offsets()[at(part)]);

  BatchProfile sum;
  sum.hops.resize(job.fanouts.size());
  ListSampler sampler(open,
                      job.train_edges_only ? marks_of(train.nodes, book.num_nodes()) : std::vector<bool>());
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
    sum.steps_per_epoch = schedule.steps_per_epoch();
    const Count step = i * schedule.steps_per_epoch() / job.batches;
    const OwnRange own{machine_offsets[machine], machine_offsets[machine + 1]};
    add_batch(schedule.step(0, step).seeds,
              {.seed = job.seed, .epoch = 0, .step = static_cast<std::uint32_t>(step)}, job.fanouts, own,
              sampler, book, sum);
    ++sum.batches;
  }
  divide(sum);
  return sum;
}

}  // namespace strata::train
