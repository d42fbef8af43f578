// SPDX-License-Identifier: Apache-2.0
#include "build_csc.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

constexpr Count kMostBuckets = 1024;
constexpr Count kMostChunks = 64;
constexpr Count kLeastChunk = Count{1} << 16;

/// Runs of nodes whose length is a power of two. Edges are first distributed over the runs by destination;
/// then each run is sorted in cache. Both steps write each bucket at increasing positions, so edges of one
/// destination stay in the order of the input.
struct Buckets {
  int shift = 0;
  Count count = 1;

  explicit Buckets(Count num_nodes) {
    while ((num_nodes >> shift) >= kMostBuckets) ++shift;
    count = (num_nodes >> shift) + 1;
  }
  Count of(NodeId node) const { return node >> shift; }
  Count first_node(Count bucket) const { return bucket << shift; }
};

struct Chunks {
  Count size = 0, count = 0;
  explicit Chunks(Count edges)
      : size(std::max(kLeastChunk, (edges + kMostChunks - 1) / kMostChunks)),
        count((edges + size - 1) / size) {}
};

template <typename Id>
struct TypedEdges {
  const Id* sources;
  const Id* destinations;
  Count stride;
  NodeId source(Count i) const { return sources[i * stride]; }
  NodeId destination(Count i) const { return destinations[i * stride]; }
};

/// Calls emit(destination, source, edge) for every entry of edges [begin, end).
template <typename Id, typename Emit>
void for_each_entry(const TypedEdges<Id>& edges, bool add_reverse, Count begin, Count end, Emit&& emit) {
  for (Count i = begin; i < end; ++i) {
    const NodeId source = edges.source(i), destination = edges.destination(i);
    emit(destination, source, i);
    if (add_reverse && source != destination) emit(source, destination, i);
  }
}

/// An entry of a list while the list is sorted.
struct Entry {
  NodeId source;
  EdgeId edge;
  auto operator<=>(const Entry&) const = default;
};

template <typename Id>
class Builder {
 public:
  Builder(Count num_nodes, const EdgeList& list, const CscOptions& options, ThreadPool& pool)
      : list_(list),
        edges_{static_cast<const Id*>(list.sources), static_cast<const Id*>(list.destinations), list.stride},
        add_reverse_(options.add_reverse),
        memory_bytes_(options.memory_bytes),
        num_nodes_(num_nodes),
        buckets_(num_nodes),
        chunks_(list.count),
        pool_(pool) {}

  CscGraph build() {
    count_buckets();
    place_chunks();
    check_memory();
    graph_.num_nodes = num_nodes_;
    graph_.indices.resize(at(bucket_begin_.back()));
    graph_.edge_ids.resize(graph_.indices.size());
    graph_.indptr.assign(at(num_nodes_) + 1, 0);
    within_.reset(new std::uint32_t[graph_.indices.size()]);
    distribute();
    pool_.parallel_for(buckets_.count, 1, [this](Count begin, Count end) {
      for (Count bucket = begin; bucket < end; ++bucket) sort_bucket(bucket);
    });
    return std::move(graph_);
  }

 private:
  Count* chunk_row(Count chunk) { return cursors_.data() + chunk * buckets_.count; }

  void check(NodeId source, NodeId destination, Count edge) const {
    const auto limit = static_cast<std::uint64_t>(num_nodes_);
    if (static_cast<std::uint64_t>(source) >= limit || static_cast<std::uint64_t>(destination) >= limit)
      refuse_id(list_, edge, source, destination, num_nodes_);
  }

  void count_buckets() {
    cursors_.assign(at(chunks_.count * buckets_.count), 0);
    pool_.parallel_for(list_.count, chunks_.size, [this](Count begin, Count end) {
      Count* const counts = chunk_row(begin / chunks_.size);
      for (Count i = begin; i < end; ++i) check(edges_.source(i), edges_.destination(i), i);
      for_each_entry(edges_, add_reverse_, begin, end,
                     [&](NodeId destination, NodeId, Count) { ++counts[buckets_.of(destination)]; });
    });
  }

  /// Turns counts into the positions at which each chunk writes its entries of each bucket.
  void place_chunks() {
    bucket_begin_.assign(at(buckets_.count) + 1, 0);
    Count total = 0;
    for (Count bucket = 0; bucket < buckets_.count; ++bucket) {
      bucket_begin_[at(bucket)] = total;
      for (Count chunk = 0; chunk < chunks_.count; ++chunk)
        total += std::exchange(chunk_row(chunk)[bucket], total);
    }
    bucket_begin_.back() = total;
  }

  /// Memory of the threads while each sorts a bucket, at worst the largest ones at the same time.
  double sorting_bytes() const {
    std::vector<Count> entries;
    for (std::size_t b = 0; b + 1 < bucket_begin_.size(); ++b)
      entries.push_back(bucket_begin_[b + 1] - bucket_begin_[b]);
    const auto at_once = std::min<std::ptrdiff_t>(pool_.num_threads(), std::ssize(entries));
    std::ranges::partial_sort(entries, entries.begin() + at_once, std::greater<>());
    const Count sorted = std::accumulate(entries.begin(), entries.begin() + at_once, Count{0});
    return static_cast<double>(sorted) * sizeof(Entry) +
           static_cast<double>(at_once) * static_cast<double>((Count{1} << buckets_.shift) + 1) *
               sizeof(Count);
  }

  void check_memory() const {
    const double entries = static_cast<double>(bucket_begin_.back()), sorting = sorting_bytes();
    const double wanted = (8 + 8 + 4) * entries + 8 * static_cast<double>(num_nodes_) + sorting;
    const std::int64_t free = memory_bytes_ > 0 ? memory_bytes_ : available_host_bytes();
    if (wanted <= static_cast<double>(free)) return;
    const auto bytes = [](double value) {
      return format_bytes(static_cast<std::int64_t>(std::min(value, 9e18)));
    };
    throw OutOfMemory(
        fmt::format(
            "{}: no room for {} nodes and {} edges: wanted {}, of them {} to sort with {} threads, free {}",
            list_.origin, format_count(num_nodes_), format_count(bucket_begin_.back()), bytes(wanted),
            bytes(sorting), pool_.num_threads(), format_bytes(free)),
        "Check the stated number of nodes, give fewer --threads, or use a host with more memory.");
  }

  void distribute() {
    pool_.parallel_for(list_.count, chunks_.size, [this](Count begin, Count end) {
      Count* const cursor = chunk_row(begin / chunks_.size);
      NodeId* const sources = graph_.indices.data();
      EdgeId* const ids = graph_.edge_ids.data();
      const NodeId mask = (NodeId{1} << buckets_.shift) - 1;
      for_each_entry(edges_, add_reverse_, begin, end, [&](NodeId destination, NodeId source, Count edge) {
        const Count place = cursor[buckets_.of(destination)]++;
        sources[place] = source;
        ids[place] = edge;
        within_[at(place)] = static_cast<std::uint32_t>(destination & mask);
      });
    });
  }

  void sort_bucket(Count bucket) {
    const Count first = bucket_begin_[at(bucket)], last = bucket_begin_[at(bucket) + 1];
    const Count first_node = buckets_.first_node(bucket);
    const Count nodes = std::min(num_nodes_ - first_node, Count{1} << buckets_.shift);
    if (nodes <= 0) return;
    std::vector<Count> cursor(at(nodes) + 1, 0);
    for (Count e = first; e < last; ++e) ++cursor[within_[at(e)] + 1];
    for (Count v = 0; v < nodes; ++v) cursor[at(v) + 1] += cursor[at(v)];
    for (Count v = 0; v < nodes; ++v)  // this bucket writes entry v + 1; entry 0 stays 0
      graph_.indptr[at(first_node + v) + 1] = first + cursor[at(v) + 1];

    std::unique_ptr<Entry[]> sorted(new Entry[at(last - first)]);
    NodeId* const sources = graph_.indices.data();
    EdgeId* const ids = graph_.edge_ids.data();
    for (Count e = first; e < last; ++e) sorted[at(cursor[within_[at(e)]]++)] = {sources[e], ids[e]};
    Entry* begin = sorted.get();
    for (Count v = 0; v < nodes; ++v) {  // each cursor has moved to the end of its list
      Entry* const end = sorted.get() + cursor[at(v)];
      if (!std::is_sorted(begin, end)) std::sort(begin, end);
      begin = end;
    }
    for (Count e = first; e < last; ++e) {
      sources[e] = sorted[at(e - first)].source;
      ids[e] = sorted[at(e - first)].edge;
    }
  }

  const EdgeList& list_;
  TypedEdges<Id> edges_;
  bool add_reverse_;
  std::int64_t memory_bytes_;
  Count num_nodes_;
  Buckets buckets_;
  Chunks chunks_;
  ThreadPool& pool_;

  std::vector<Count> cursors_;               // [chunks, buckets]
  std::vector<Count> bucket_begin_;          // [buckets + 1]
  std::unique_ptr<std::uint32_t[]> within_;  // per entry, the destination's position in its bucket
  CscGraph graph_;
};

}  // namespace

Count num_nodes_for(NodeId largest, const std::string& origin) {
  constexpr NodeId kMost = NodeId{1} << 62;  // sums and sizes of a few such counts still fit into 64 bits
  if (largest >= kMost)
    throw InputError(fmt::format("{}: there is node {}", origin, largest),
                     "Number the nodes from 0 without gaps.");
  return largest + 1;
}

void refuse_id(const EdgeList& edges, Count edge, NodeId source, NodeId destination, Count num_nodes) {
  throw InputError(fmt::format("{}: edge {} goes from {} to {}, but ids must be within [0, {})", edges.origin,
                               edge, source, destination, num_nodes),
                   "Correct the edge or the stated number of nodes; ids count from 0.");
}

CleaningReport report_for(Count edges_read, const ListCounts& met, const CleanPolicies& policies,
                          bool add_reverse, Count num_edges) {
  CleaningReport report = report_of(met, policies);
  report.edges_read = edges_read;
  if (!add_reverse) return report;
  // An undirected duplicate was counted in the lists of both ends, a self-loop in only one list.
  const Count pairs_again = (met.duplicates - met.duplicate_loops) / 2;
  report.duplicates -= pairs_again;
  if (policies.duplicates == EdgePolicy::remove) report.duplicates_removed -= pairs_again;
  report.reverse_added =
      num_edges - (report.edges_read - report.self_loops_removed - report.duplicates_removed);
  return report;
}

BuiltCsc build_csc(Count num_nodes, const EdgeList& edges, const CscOptions& options, ThreadPool& pool) {
  BuiltCsc built{.structure = edges.wide ? Builder<std::int64_t>(num_nodes, edges, options, pool).build()
                                         : Builder<std::int32_t>(num_nodes, edges, options, pool).build(),
                 .cleaning = {}};
  const CleanPolicies policies{.duplicates = options.duplicates, .self_loops = options.self_loops};
  const ListCounts met = clean_lists(built.structure, policies, pool);
  built.cleaning = report_for(edges.count, met, policies, options.add_reverse, built.structure.num_edges());
  return built;
}

}  // namespace strata::graph
