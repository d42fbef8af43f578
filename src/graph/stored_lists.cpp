// SPDX-License-Identifier: Apache-2.0
#include "stored_lists.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <type_traits>
#include <utility>

#include "clean_lists.hpp"
#include "listed_entries.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/random.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

constexpr Count kMostRuns = 1024;
constexpr Count kMostChunks = 64;
constexpr Count kListFiles = 2;  // that are written at once: sources, and the rest
constexpr Count kLeastChunk = Count{1} << 16;
constexpr Count kReleaseInterval = Count{1} << 16;  // edges between two releases of pages

struct ListPolicies {
  bool drop_duplicates = false, drop_loops = false;
};

/// Deals entries to runs of nodes, and sorts each run in memory. `Id` is for nodes, `Edge` for edges; NoEdge
/// leaves their ids out.
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
    DealtRuns dealt(scratch_, run_begin_);
    distribute(dealt);
    dealt.map();
    return sort_runs(dealt);
  }

  const ListCounts& met() const { return met_; }
  bool symmetric() const { return asymmetry_ == 0; }

 private:
  using Weight = typename Entries::Weight;
  static constexpr bool kHasWeights = std::is_same_v<Weight, float>;
  static constexpr bool kHasEdgeIds = !std::is_same_v<Edge, NoEdge>;

  struct Record {
    std::uint32_t within;  // the destination's position in its run
    Id source;
    [[no_unique_address]] Edge edge;
    [[no_unique_address]] Weight weight;
  };
  struct Entry {
    [[no_unique_address]] typename Entries::Relation relation;
    Id source;
    [[no_unique_address]] Edge edge;
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

  /// Calls visit(destination, source, edge) for a chunk, and releases pages from time to time.
  template <typename Visit>
  void walk(Count begin, Count end, Visit&& visit) {
    for (Count first = begin; first < end; first += kReleaseInterval) {
      entries_.visit(first, std::min(first + kReleaseInterval, end), visit);
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

  /// The records of all runs, in several files: writers of one file wait for each other.
  class DealtRuns {
   public:
    DealtRuns(ScratchStore& scratch, const std::vector<Count>& run_begin)
        : run_begin_(run_begin), runs_per_file_((std::ssize(run_begin) - 1 + kFiles - 1) / kFiles) {
      for (Count first = 0; first < std::ssize(run_begin) - 1; first += runs_per_file_) {
        const Count last = std::min(first + runs_per_file_, std::ssize(run_begin) - 1);
        files_.emplace_back(scratch);
        files_.back().reserve(at(run_begin[at(last)] - run_begin[at(first)]) * sizeof(Record));
      }
    }
    /// `place` counts the records of all runs.
    void write(Count run, Count place, const Record* records, Count count) const {
      files_[at(run / runs_per_file_)].write_at(at(place - first_of_file(run)) * sizeof(Record), records,
                                                at(count) * sizeof(Record));
    }
    void map() {
      for (ScratchFile& file : files_) {
        const auto size = static_cast<Count>(file.bytes() / sizeof(Record));
        arrays_.emplace_back(std::move(file).map(), size);
      }
      files_.clear();
    }
    std::span<const Record> operator[](Count run) const {
      const Record* const first = arrays_[at(run / runs_per_file_)].data();
      return {first + (run_begin_[at(run)] - first_of_file(run)),
              at(run_begin_[at(run + 1)] - run_begin_[at(run)])};
    }

   private:
    static constexpr Count kFiles = 16;

    Count first_of_file(Count run) const { return run_begin_[at(run / runs_per_file_ * runs_per_file_)]; }

    const std::vector<Count>& run_begin_;
    Count runs_per_file_;
    std::vector<ScratchFile> files_;
    std::vector<ScratchArray<Record>> arrays_;
  };

  /// A chunk's records for each run that are not written yet.
  class Hands {
   public:
    Hands(const DealtRuns& dealt, Count* cursors, Count num_runs, Count most)
        : dealt_(dealt), cursors_(cursors), most_(most), held_(at(num_runs)), records_(at(num_runs * most)) {}
    void put(Count run, const Record& record) {
      records_[at(run * most_ + held_[at(run)]++)] = record;
      if (held_[at(run)] == most_) write(run);
    }
    void write_all() {
      for (Count run = 0; run < std::ssize(held_); ++run) write(run);
    }

   private:
    void write(Count run) {
      dealt_.write(run, cursors_[run], records_.data() + run * most_, held_[at(run)]);
      cursors_[run] += held_[at(run)];
      held_[at(run)] = 0;
    }

    const DealtRuns& dealt_;
    Count* cursors_;
    Count most_;  // of a run
    std::vector<Count> held_;
    std::vector<Record> records_;
  };

  /// Records of a run that a thread holds back to write them together.
  Count most_held() const {
    constexpr Count kWrite = 4096, kLeastWrite = 256;
    const Count share = scratch_.buffer_limit() / (pool_.num_threads() * num_runs_);
    return std::clamp(share, kLeastWrite, kWrite) / static_cast<Count>(sizeof(Record));
  }

  void distribute(const DealtRuns& dealt) {
    ProgressBar bar("deal edges", entries_.count(), "entries");
    const NodeId mask = (NodeId{1} << shift_) - 1;
    pool_.parallel_for(entries_.count(), chunk_, [&](Count begin, Count end) {
      Hands hands(dealt, cursors_of(begin / chunk_), num_runs_, most_held());
      walk(begin, end, [&](NodeId destination, NodeId source, EdgeId edge) {
        hands.put(destination >> shift_,
                  {static_cast<std::uint32_t>(destination & mask), static_cast<Id>(source),
                   static_cast<Edge>(edge), entries_.weight_of(edge)});
      });
      hands.write_all();
      bar.advance(end - begin);
    });
  }

  /// Sorts as many runs at once as the buffers allow, while those before them are written in their order.
  StoredLists sort_runs(const DealtRuns& dealt) {
    StoredLists lists;
    lists.indptr.assign(at(num_nodes_ + 1), 0);
    ScratchWriter<Id> sources(scratch_);
    ScratchWriter<Edge> edges(scratch_);
    ScratchWriter<float> weights(scratch_);
    ProgressBar bar("sort edges", run_begin_.back(), "entries");
    std::vector<Sorted> waiting;  // the runs before `first`
    std::int64_t bytes_waiting = 0;
    const auto write = [&](Count file) {
      for (const Sorted& run : waiting) {
        if (file == 0) {
          sources.append(run.sources);
          continue;
        }
        if constexpr (kHasEdgeIds) edges.append(run.edges);
        weights.append(run.weights);
      }
    };
    const auto write_waiting = [&] {
      for (Count file = 0; file < kListFiles; ++file) write(file);
      waiting.clear();
      bytes_waiting = 0;
    };
    for (Count first = 0; first < num_runs_;) {
      if (bytes_waiting + bytes_to_sort(first) > scratch_.buffer_limit()) write_waiting();
      Count last = first;
      std::int64_t wanted = 0;
      while (last < num_runs_ && last - first < pool_.num_threads() &&
             (last == first || bytes_waiting + wanted + bytes_to_sort(last) <= scratch_.buffer_limit()))
        wanted += bytes_to_sort(last++);
      std::vector<Sorted> sorted(at(last - first));
      pool_.parallel_for(last - first + kListFiles, 1, [&](Count i, Count) {
        if (i < kListFiles) return write(i);
        const Count run = first + i - kListFiles;
        sorted[at(run - first)] = sort(run, dealt[run]);
        scratch_.discard(dealt[run].data(), dealt[run].size_bytes());
        scratch_.trim();
      });
      waiting = std::move(sorted);
      bytes_waiting = wanted / 2;  // the lists, without what sorting takes
      for (; first < last; ++first) {
        take(waiting[at(std::ssize(waiting) - (last - first))], first, lists);
        bar.advance(std::ssize(dealt[first]));
      }
    }
    write_waiting();
    for (Count v = 0; v < num_nodes_; ++v) lists.indptr[at(v + 1)] += lists.indptr[at(v)];
    const ScratchArray<Id> all_sources = std::move(sources).finish();
    lists.indices = {all_sources.data(), all_sources.size(), sizeof(Id) == 8};
    lists.indices_memory = all_sources.keep_alive();
    if constexpr (kHasEdgeIds) {
      const ScratchArray<Edge> all_edges = std::move(edges).finish();
      lists.edge_ids = {all_edges.data(), all_edges.size(), sizeof(Edge) == 8};
      lists.edge_ids_memory = all_edges.keep_alive();
    }
    if (kHasWeights) lists.weights = std::move(weights).finish();
    return lists;
  }

  void take(const Sorted& run, Count number, StoredLists& lists) {
    std::copy(run.lengths.begin(), run.lengths.end(), lists.indptr.begin() + (number << shift_) + 1);
    met_.entries += run.met.entries;
    met_.self_loops += run.met.self_loops;
    met_.duplicates += run.met.duplicates;
    met_.duplicate_loops += run.met.duplicate_loops;
    asymmetry_ += run.asymmetry;
  }

  Sorted sort(Count run, std::span<const Record> dealt) const {
    const Count first_node = run << shift_, nodes = std::min(num_nodes_ - first_node, Count{1} << shift_);
    if (nodes <= 0) return {};
    std::vector<Count> cursor(at(nodes + 1));
    for (const Record& r : dealt) ++cursor[r.within + 1];
    for (Count v = 0; v < nodes; ++v) cursor[at(v + 1)] += cursor[at(v)];
    std::vector<Entry> entries(dealt.size());
    for (const Record& r : dealt) entries[at(cursor[r.within]++)] = entry_of(r);
    Sorted result;
    result.lengths.resize(at(nodes));
    result.sources.reserve(entries.size());
    if constexpr (kHasEdgeIds) result.edges.reserve(entries.size());
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

  Entry entry_of(const Record& r) const {
    EdgeId edge = 0;
    if constexpr (kHasEdgeIds) edge = r.edge;
    return {entries_.relation_of(edge), r.source, r.edge, r.weight};
  }

  /// Appends what stays of the list of `node`, and returns its length.
  Count clean(const Entry* list, const Entry* end, NodeId node, Sorted& result) const {
    const std::size_t before = result.sources.size();
    const std::uint64_t node_hash = mix64(static_cast<std::uint64_t>(node));
    for (const Entry* e = list; e != end; ++e) {
      const bool again = e != list && e->source == (e - 1)->source && e->relation == (e - 1)->relation,
                 loop = e->source == node;
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
      if constexpr (kHasEdgeIds) result.edges.push_back(e->edge);
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

/// `edges_read` is what the input lists.
template <typename Id, typename Edge, typename Entries>
BuiltLists build(Count num_nodes, const Entries& entries, Count edges_read, const CscOptions& options,
                 ScratchStore& scratch, ThreadPool& pool) {
  const ListPolicies policies{.drop_duplicates = options.duplicates == EdgePolicy::remove,
                              .drop_loops = options.self_loops == EdgePolicy::remove};
  Dealer<Id, Edge, Entries> dealer(num_nodes, entries, policies, scratch, pool);
  BuiltLists built{.lists = dealer.deal(), .cleaning = {}, .symmetric = dealer.symmetric()};
  const CleanPolicies clean{.duplicates = options.duplicates, .self_loops = options.self_loops};
  built.cleaning = report_for(edges_read, dealer.met(), clean, options.add_reverse, built.lists.num_edges());
  return built;
}

/// Calls run with the types that ids of nodes and edges need.
template <typename Run>
BuiltLists with_ids_for(Count num_nodes, Count num_edges, Run&& run) {
  constexpr Count kMost = std::numeric_limits<std::int32_t>::max();
  if (num_nodes - 1 > kMost) return run(std::int64_t{}, std::int64_t{});
  return num_edges - 1 > kMost ? run(std::int32_t{}, std::int64_t{}) : run(std::int32_t{}, std::int32_t{});
}

}  // namespace

BuiltLists build_stored_lists(Count num_nodes, const EdgeList& edges, const CscOptions& options,
                              ScratchStore& scratch, ThreadPool& pool) {
  return with_ids_for(num_nodes, edges.count, [&]<typename Id, typename Edge>(Id, Edge) {
    const auto with_types = [&]<typename Listed, typename Weight>(Listed, Weight) {
      const ListedEdges<Listed, Weight> listed(edges, num_nodes, options.add_reverse);
      return build<Id, Edge>(num_nodes, listed, edges.count, options, scratch, pool);
    };
    const auto with_weight = [&](auto weight) {
      return edges.wide ? with_types(std::int64_t{}, weight) : with_types(std::int32_t{}, weight);
    };
    return edges.weights != nullptr ? with_weight(float{}) : with_weight(NoWeight{});
  });
}

BuiltLists build_stored_lists(Count num_nodes, std::span<const RelationEdges> relations,
                              const CscOptions& options, ScratchStore& scratch, ThreadPool& pool) {
  const auto has_weights = [](const RelationEdges& relation) { return relation.list->weights != nullptr; };
  const auto with_weight = [&]<typename Weight>(Weight) {
    const RelationEntries<Weight> entries(relations);
    return with_ids_for(num_nodes, entries.count(), [&]<typename Id, typename Edge>(Id, Edge) {
      return build<Id, Edge>(num_nodes, entries, entries.count(), options, scratch, pool);
    });
  };
  return std::ranges::any_of(relations, has_weights) ? with_weight(float{}) : with_weight(NoWeight{});
}

BuiltLists build_drawn_lists(Count num_nodes, const DrawnEdges& edges, const CscOptions& options,
                             ScratchStore& scratch, ThreadPool& pool) {
  const Draws draws(edges, options.add_reverse);
  return with_ids_for(num_nodes, edges.count, [&]<typename Id, typename Edge>(Id, Edge) {
    return edges.have_ids ? build<Id, Edge>(num_nodes, draws, edges.count, options, scratch, pool)
                          : build<Id, NoEdge>(num_nodes, draws, edges.count, options, scratch, pool);
  });
}

StoredLists neighbors_of(std::span<const Count> indptr, IdSpan indices, ScratchStore& scratch,
                         ThreadPool& pool) {
  const BothDirections both(indptr, indices);
  Dealer<std::int32_t, NoEdge, BothDirections> dealer(
      both.count(), both, {.drop_duplicates = true, .drop_loops = true}, scratch, pool);
  return dealer.deal();
}

}  // namespace strata::graph
