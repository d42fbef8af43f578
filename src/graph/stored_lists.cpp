// SPDX-License-Identifier: Apache-2.0
#include "stored_lists.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <type_traits>
#include <utility>

#include "clean_lists.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/progress.hpp"
#include "strata/util/random.hpp"

namespace strata::graph {
namespace {

constexpr Count kMostRuns = 1024;
constexpr Count kMostChunks = 64;
constexpr Count kLeastChunk = Count{1} << 16;
constexpr Count kBreath = Count{1} << 16;  // edges between two looks at what is resident

std::size_t at(Count i) { return static_cast<std::size_t>(i); }

/// The weight of edges that have none.
struct NoWeight {
  auto operator<=>(const NoWeight&) const = default;
};

/// Entries that are dealt to runs of nodes: what a list of edges holds. `WeightOfEdge` is float or NoWeight.
template <typename Id, typename WeightOfEdge>
class ListedEdges {
 public:
  using Weight = WeightOfEdge;

  ListedEdges(const EdgeList& list, Count num_nodes, bool add_reverse)
      : list_(list),
        sources_(static_cast<const Id*>(list.sources)),
        destinations_(static_cast<const Id*>(list.destinations)),
        num_nodes_(num_nodes),
        add_reverse_(add_reverse) {}

  Count count() const { return list_.count; }
  Weight weight_of([[maybe_unused]] EdgeId edge) const {
    if constexpr (std::is_same_v<Weight, float>)
      return list_.weights[edge];
    else
      return {};
  }

  template <typename Emit>
  void visit(Count begin, Count end, Emit&& emit) const {
    const auto limit = static_cast<std::uint64_t>(num_nodes_);
    for (Count i = begin; i < end; ++i) {
      const NodeId source = sources_[i * list_.stride], destination = destinations_[i * list_.stride];
      if (static_cast<std::uint64_t>(source) >= limit || static_cast<std::uint64_t>(destination) >= limit)
        refuse_id(list_, i, source, destination, num_nodes_);
      emit(destination, source, i);
      if (add_reverse_ && source != destination) emit(source, destination, i);
    }
  }

 private:
  const EdgeList& list_;
  const Id *sources_, *destinations_;
  Count num_nodes_;
  bool add_reverse_;
};

/// The same of lists: both directions of every entry, without self-loops. Counted in nodes.
class BothDirections {
 public:
  using Weight = NoWeight;

  BothDirections(std::span<const Count> indptr, IdSpan indices) : indptr_(indptr), indices_(indices) {}

  Count count() const { return std::ssize(indptr_) - 1; }
  NoWeight weight_of(EdgeId) const { return {}; }

  template <typename Emit>
  void visit(Count begin, Count end, Emit&& emit) const {
    indices_.visit([&](const auto* sources) {
      for (Count v = begin; v < end; ++v)
        for (Count e = indptr_[at(v)]; e < indptr_[at(v + 1)]; ++e) {
          if (sources[e] == v) continue;
          emit(v, NodeId{sources[e]}, 0);
          emit(NodeId{sources[e]}, v, 0);
        }
    });
  }

 private:
  std::span<const Count> indptr_;
  IdSpan indices_;
};

struct ListPolicies {
  bool drop_duplicates = false, drop_loops = false;
  bool keep_edge_ids = true;
};

/// Deals entries to runs of nodes, and sorts each run in memory. `Id` is for nodes, `Edge` for edges.
template <typename Id, typename Edge, typename Entries>
class Dealer {
 public:
  Dealer(Count num_nodes, const Entries& entries, const ListPolicies& policies, ScratchStore& scratch,
         ThreadPool& pool)
      : num_nodes_(num_nodes), entries_(entries), policies_(policies), scratch_(scratch), pool_(pool) {
    while ((num_nodes_ >> shift_) >= kMostRuns) ++shift_;
    num_runs_ = (num_nodes_ >> shift_) + 1;
    chunk_ = std::max(kLeastChunk, (entries_.count() + kMostChunks - 1) / kMostChunks);
  }

  StoredLists deal() {
    count_runs();
    check_buffers();
    ScratchFile file(scratch_);
    file.reserve(static_cast<std::size_t>(run_begin_.back()) * sizeof(Record));
    distribute(file);
    return sort_runs({std::move(file).map(), run_begin_.back()});
  }

  const ListCounts& met() const { return met_; }
  bool symmetric() const { return asymmetry_ == 0; }

 private:
  using Weight = typename Entries::Weight;
  static constexpr bool kHasWeights = std::is_same_v<Weight, float>;

  struct Record {
    std::uint32_t within;  // the destination's position in its run
    Id source;
    Edge edge;
    [[no_unique_address]] Weight weight;
  };
  struct Entry {
    Id source;
    Edge edge;
    [[no_unique_address]] Weight weight;
    auto operator<=>(const Entry&) const = default;
  };
  /// The sorted and cleaned lists of a run.
  struct Sorted {
    std::vector<Count> lengths;
    std::vector<Id> sources;
    std::vector<Edge> edges;
    std::vector<float> weights;
    ListCounts met;
    std::uint64_t asymmetry = 0;
  };

  Count* cursors_of(Count chunk) { return cursors_.data() + chunk * num_runs_; }

  /// Calls visit(destination, source, edge) for a chunk, and lets go of pages from time to time.
  template <typename Visit>
  void walk(Count begin, Count end, Visit&& visit) {
    for (Count first = begin; first < end; first += kBreath) {
      entries_.visit(first, std::min(first + kBreath, end), visit);
      scratch_.trim();
    }
  }

  void count_runs() {
    const Count chunks = (entries_.count() + chunk_ - 1) / chunk_;
    cursors_.assign(at(chunks * num_runs_), 0);
    ProgressBar bar("count edges", entries_.count(), "entries");
    pool_.parallel_for(entries_.count(), chunk_, [&](Count begin, Count end) {
      Count* const counts = cursors_of(begin / chunk_);
      walk(begin, end, [&](NodeId destination, NodeId, EdgeId) { ++counts[destination >> shift_]; });
      bar.advance(end - begin);
    });
    run_begin_.assign(at(num_runs_ + 1), 0);
    Count total = 0;
    for (Count run = 0; run < num_runs_; ++run) {
      run_begin_[at(run)] = total;
      for (Count chunk = 0; chunk < chunks; ++chunk) total += std::exchange(cursors_of(chunk)[run], total);
    }
    run_begin_.back() = total;
  }

  std::int64_t bytes_to_sort(Count run) const {
    const Count entries = run_begin_[at(run + 1)] - run_begin_[at(run)];
    return entries * static_cast<std::int64_t>(2 * sizeof(Entry)) +
           (Count{1} << shift_) * 2 * static_cast<std::int64_t>(sizeof(Count));
  }

  void check_buffers() const {
    for (Count run = 0; run < num_runs_; ++run) {
      const std::int64_t wanted = bytes_to_sort(run);
      if (wanted <= scratch_.buffer_limit()) continue;
      throw OutOfMemory(
          fmt::format("the {} edges of nodes {} to {} take {} to sort, there is room for {}",
                      format_count(run_begin_[at(run + 1)] - run_begin_[at(run)]), run << shift_,
                      std::min(num_nodes_, (run + 1) << shift_) - 1, format_bytes(wanted),
                      format_bytes(scratch_.buffer_limit())),
          fmt::format("Give {} more --memory.", format_bytes(4 * (wanted - scratch_.buffer_limit()))));
    }
  }

  /// What a chunk has for each run and has not written yet.
  class Hands {
   public:
    Hands(const ScratchFile& file, Count* cursors, Count num_runs)
        : file_(file), cursors_(cursors), held_(at(num_runs)), records_(at(num_runs * kHeld)) {}
    void put(Count run, const Record& record) {
      records_[at(run * kHeld + held_[at(run)]++)] = record;
      if (held_[at(run)] == kHeld) write(run);
    }
    void write_all() {
      for (Count run = 0; run < std::ssize(held_); ++run) write(run);
    }

   private:
    static constexpr Count kHeld = 4096 / sizeof(Record);

    void write(Count run) {
      file_.write_at(at(cursors_[run]) * sizeof(Record), records_.data() + run * kHeld,
                     at(held_[at(run)]) * sizeof(Record));
      cursors_[run] += held_[at(run)];
      held_[at(run)] = 0;
    }

    const ScratchFile& file_;
    Count* cursors_;
    std::vector<Count> held_;
    std::vector<Record> records_;
  };

  void distribute(const ScratchFile& file) {
    ProgressBar bar("deal edges", entries_.count(), "entries");
    const NodeId mask = (NodeId{1} << shift_) - 1;
    pool_.parallel_for(entries_.count(), chunk_, [&](Count begin, Count end) {
      Hands hands(file, cursors_of(begin / chunk_), num_runs_);
      walk(begin, end, [&](NodeId destination, NodeId source, EdgeId edge) {
        hands.put(destination >> shift_,
                  {static_cast<std::uint32_t>(destination & mask), static_cast<Id>(source),
                   static_cast<Edge>(edge), entries_.weight_of(edge)});
      });
      hands.write_all();
      bar.advance(end - begin);
    });
  }

  /// Sorts as many runs at once as the buffers allow, and writes them in their order.
  StoredLists sort_runs(const ScratchArray<Record>& dealt) {
    StoredLists lists;
    lists.indptr.assign(at(num_nodes_ + 1), 0);
    ScratchWriter<Id> sources(scratch_);
    ScratchWriter<Edge> edges(scratch_);
    ScratchWriter<float> weights(scratch_);
    ProgressBar bar("sort edges", run_begin_.back(), "entries");
    for (Count first = 0; first < num_runs_;) {
      Count last = first;
      std::int64_t wanted = 0;
      while (last < num_runs_ && last - first < pool_.num_threads() &&
             (last == first || wanted + bytes_to_sort(last) <= scratch_.buffer_limit()))
        wanted += bytes_to_sort(last++);
      std::vector<Sorted> sorted(at(last - first));
      pool_.parallel_for(last - first, 1, [&](Count i, Count) {
        sorted[at(i)] = sort(first + i, dealt);
        scratch_.trim();
      });
      for (Count run = first; run < last; ++run) {
        weights.append(sorted[at(run - first)].weights);
        take(sorted[at(run - first)], run, lists, sources, edges);
        bar.advance(run_begin_[at(run + 1)] - run_begin_[at(run)]);
      }
      first = last;
    }
    for (Count v = 0; v < num_nodes_; ++v) lists.indptr[at(v + 1)] += lists.indptr[at(v)];
    const ScratchArray<Id> all_sources = std::move(sources).finish();
    lists.indices = {all_sources.data(), all_sources.size(), sizeof(Id) == 8};
    lists.indices_memory = all_sources.keep_alive();
    if (policies_.keep_edge_ids) {
      const ScratchArray<Edge> all_edges = std::move(edges).finish();
      lists.edge_ids = {all_edges.data(), all_edges.size(), sizeof(Edge) == 8};
      lists.edge_ids_memory = all_edges.keep_alive();
    }
    if (kHasWeights) lists.weights = std::move(weights).finish();
    return lists;
  }

  void take(Sorted& run, Count number, StoredLists& lists, ScratchWriter<Id>& sources,
            ScratchWriter<Edge>& edges) {
    std::copy(run.lengths.begin(), run.lengths.end(), lists.indptr.begin() + (number << shift_) + 1);
    sources.append(run.sources);
    if (policies_.keep_edge_ids) edges.append(run.edges);
    met_.entries += run.met.entries;
    met_.self_loops += run.met.self_loops;
    met_.duplicates += run.met.duplicates;
    met_.duplicate_loops += run.met.duplicate_loops;
    asymmetry_ += run.asymmetry;
    run = {};
  }

  Sorted sort(Count run, const ScratchArray<Record>& dealt) const {
    const Count first_node = run << shift_, nodes = std::min(num_nodes_ - first_node, Count{1} << shift_);
    if (nodes <= 0) return {};
    const Record *const begin = dealt.data() + run_begin_[at(run)], *const end = dealt.data() +
                                                                                 run_begin_[at(run + 1)];
    std::vector<Count> cursor(at(nodes + 1));
    for (const Record* r = begin; r != end; ++r) ++cursor[r->within + 1];
    for (Count v = 0; v < nodes; ++v) cursor[at(v + 1)] += cursor[at(v)];
    std::vector<Entry> entries(static_cast<std::size_t>(end - begin));
    for (const Record* r = begin; r != end; ++r)
      entries[at(cursor[r->within]++)] = {r->source, r->edge, r->weight};
    Sorted result;
    result.lengths.resize(at(nodes));
    result.sources.reserve(entries.size());
    if (policies_.keep_edge_ids) result.edges.reserve(entries.size());
    if (kHasWeights) result.weights.reserve(entries.size());
    Entry* list = entries.data();
    for (Count v = 0; v < nodes; ++v) {  // each cursor has moved to the end of its list
      Entry* const list_end = entries.data() + cursor[at(v)];
      if (!std::is_sorted(list, list_end)) std::sort(list, list_end);
      result.lengths[at(v)] = clean(list, list_end, first_node + v, result);
      list = list_end;
    }
    return result;
  }

  /// Appends what stays of the list of `node`, and returns its length.
  Count clean(const Entry* list, const Entry* end, NodeId node, Sorted& result) const {
    const std::size_t before = result.sources.size();
    const std::uint64_t node_hash = mix64(static_cast<std::uint64_t>(node));
    for (const Entry* e = list; e != end; ++e) {
      const bool again = e != list && e->source == (e - 1)->source, loop = e->source == node;
      ++result.met.entries;
      result.met.self_loops += loop;
      result.met.duplicates += again;
      result.met.duplicate_loops += loop && again;
      if (!again) {
        const auto u = static_cast<std::uint64_t>(e->source);
        result.asymmetry += mix64(node_hash + u) - mix64(mix64(u) + static_cast<std::uint64_t>(node));
      }
      if ((again && policies_.drop_duplicates) || (loop && policies_.drop_loops)) continue;
      result.sources.push_back(e->source);
      if (policies_.keep_edge_ids) result.edges.push_back(e->edge);
      if constexpr (kHasWeights) result.weights.push_back(e->weight);
    }
    return static_cast<Count>(result.sources.size() - before);
  }

  Count num_nodes_;
  const Entries& entries_;
  ListPolicies policies_;
  ScratchStore& scratch_;
  ThreadPool& pool_;
  int shift_ = 0;
  Count num_runs_ = 0, chunk_ = 0;
  std::vector<Count> cursors_;    // [chunks, runs]
  std::vector<Count> run_begin_;  // [runs + 1]
  ListCounts met_;
  std::uint64_t asymmetry_ = 0;
};

template <typename Id, typename Edge, typename Listed, typename Weight>
BuiltLists build(Count num_nodes, const EdgeList& edges, const CscOptions& options, ScratchStore& scratch,
                 ThreadPool& pool) {
  using Entries = ListedEdges<Listed, Weight>;
  const Entries listed(edges, num_nodes, options.add_reverse);
  const ListPolicies policies{.drop_duplicates = options.duplicates == EdgePolicy::remove,
                              .drop_loops = options.self_loops == EdgePolicy::remove};
  Dealer<Id, Edge, Entries> dealer(num_nodes, listed, policies, scratch, pool);
  BuiltLists built{.lists = dealer.deal(), .cleaning = {}, .symmetric = dealer.symmetric()};
  const CleanPolicies clean{.duplicates = options.duplicates, .self_loops = options.self_loops};
  built.cleaning = report_for(edges, dealer.met(), clean, options.add_reverse, built.lists.num_edges());
  return built;
}

}  // namespace

BuiltLists build_stored_lists(Count num_nodes, const EdgeList& edges, const CscOptions& options,
                              ScratchStore& scratch, ThreadPool& pool) {
  constexpr Count kMost = std::numeric_limits<std::int32_t>::max();
  const auto run = [&]<typename Id, typename Edge>(Id, Edge) {
    const auto with_weight = [&]<typename Weight>(Weight) {
      return edges.wide ? build<Id, Edge, std::int64_t, Weight>(num_nodes, edges, options, scratch, pool)
                        : build<Id, Edge, std::int32_t, Weight>(num_nodes, edges, options, scratch, pool);
    };
    return edges.weights != nullptr ? with_weight(float{}) : with_weight(NoWeight{});
  };
  if (num_nodes - 1 > kMost) return run(std::int64_t{}, std::int64_t{});
  return edges.count - 1 > kMost ? run(std::int32_t{}, std::int64_t{}) : run(std::int32_t{}, std::int32_t{});
}

StoredLists neighbors_of(std::span<const Count> indptr, IdSpan indices, ScratchStore& scratch,
                         ThreadPool& pool) {
  const BothDirections both(indptr, indices);
  Dealer<std::int32_t, std::int32_t, BothDirections> dealer(
      both.count(), both, {.drop_duplicates = true, .drop_loops = true, .keep_edge_ids = false}, scratch,
      pool);
  return dealer.deal();
}

}  // namespace strata::graph
