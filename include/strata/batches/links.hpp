// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/random.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::batches {

/// Pairs that are drawn beside links, as torch_geometric.sampler.NegativeSampling has them.
struct NegativeOptions {
  enum class Mode : std::uint8_t {
    none,
    binary,   ///< `amount` pairs per link, rounded up over a step; both ends are drawn
    triplet,  ///< `amount` destinations per link, a whole number; the link's source is theirs
    both,     ///< the same, and as many sources; the link's destination is theirs
    listed,   ///< the same, of `listed`
    joint,    ///< `amount` destinations per group of links, with which all links of the group are compared
    in_batch  ///< the destinations of a group's links, with which all of them are compared
  } mode = Mode::none;
  double amount = 1;
  /// [candidates] ends are drawn in proportion to these; empty: all are equally likely.
  std::vector<double> source_weights = {}, destination_weights = {};
  /// A pair for which the graph has an edge is drawn anew, up to five times; a binary one that is an edge still
  /// is left out. Only where this machine has all neighbor lists.
  bool strict = false;
  bool self_loops = true;  ///< whether strict pairs may be of a node with itself
  /// Links with so many consecutive numbers in a step are a group; 0: all of a step.
  Count group = 0;
  std::vector<NodeId> listed = {};  ///< [links, amount] global ids

  bool shares() const { return mode == Mode::joint || mode == Mode::in_batch; }
};

/// Edge ids of a relation, which are a range.
struct RelationEdges {
  EdgeId first = 0, end = std::numeric_limits<EdgeId>::max();
  bool contains(EdgeId edge) const { return edge >= first && edge < end; }
};

/// The edges of links, among all edges.
struct LinkEdges {
  RelationEdges relation = {};
  /// [links] the edge of each, -1: none. Empty: all edges of the relation that have the link's ends.
  std::vector<EdgeId> ids = {};
};

/// Relations of links.
struct LinkRelations {
  std::vector<RelationId> of_links = {};  ///< [links] numbers of those below
  std::vector<Range> sources = {},
                     destinations = {};  ///< original ids of the nodes that negatives are drawn from
};

/// Pairs of nodes to learn from, such as edges. The same on all ranks.
struct LinkOptions {
  std::vector<NodeId> sources, destinations;  ///< [links] global ids
  RelationEdges relation = {};                ///< whose edges strict negatives are not
  /// Original ids of the nodes that negatives are drawn from.
  Range source_candidates, destination_candidates;
  LinkRelations relations = {};  ///< of several: their candidates count, those above do not
  NegativeOptions negatives = {};
  /// The edges that a step leaves out of all its batches, before neighbors are chosen: those of all ranks'
  /// links, and those from their destinations to their sources. Unset: none.
  std::optional<LinkEdges> edges = {}, reverse_edges = {};
};

/// A rank's links of a step, whose ends are the seeds of its batch: the distinct ones in ascending order of
/// their global ids. Numbers are places among the seeds.
struct LinkPairs {
  /// Of binary negatives: the links, then the negatives. Of triplets, `destinations` has those of the links,
  /// then `amount` for each of the links, and `sources` only the links'; of both ends also as many sources. Of joint and in-batch ones, `destinations` has
  /// those of the links, then those of each group that has links here, as many of each, with -1 for what a
  /// last group lacks; `groups` [links] says which of these groups a link belongs to.
  std::vector<std::int64_t> sources, destinations, groups;
  /// Ascending positions of the entries that the step leaves out; see sampling::ExcludedEntries.
  std::vector<Count> excluded, excluded_of_halo;
};

/// Entries of neighbor lists by link; an owner.
class LinkEntries {
 public:
  LinkEntries() = default;
  /// One entry of each link, or -1, and further ones as (link, entry).
  LinkEntries(std::vector<Count> one, std::vector<std::pair<Count, Count>> others);

  void append(Count link, std::vector<Count>& entries) const;
  Count most_per_link() const { return most_; }
  bool has(Count link) const { return !one_.empty() && one_[at(link)] >= 0; }

 private:
  std::vector<Count> one_;
  std::vector<std::pair<Count, Count>> others_;  // ascending
  Count most_ = 0;
};

/// Draws the ends of negatives: original ids.
class CandidateDraw {
 public:
  /// Throws InputError for weights that do not fit the candidates or sum up to nothing.
  CandidateDraw(const Range& candidates, std::span<const double> weights, const char* what);
  NodeId operator()(std::uint64_t word) const;
  bool any() const { return candidates_.count > 0; }

 private:
  Range candidates_;
  std::vector<double> sums_;  // of the weights up to each candidate; empty: all are equally likely
};

/// The graph whose nodes links join, as a rank has it. All of it outlives its reader.
struct LinkGraph {
  const store::MachineGraph* stored = nullptr;
  ThreadPool* pool = nullptr;
  bool counts = false;  ///< this rank is the one of its machine that counts edges
  /// Writes the global ids of original ids, from any thread. Empty: they are the same.
  std::function<void(std::span<const NodeId> original_ids, NodeId* out)> global_ids = {};
};

/// How many ends a batch has for each link: its own, then those of its negatives. None where links share negatives.
struct PlacesPerLink {
  Count sources = 0, destinations = 0;
  Count numbers() const { return 1 + sources + destinations; }  ///< those, and the link's own number
};

/// What a loader's steps make of links: SeedSchedule says whose they are, this what their batches are. An
/// owner; const calls are thread safe.
///
/// Negatives are keyed by the step, the link's number and their number, so that they are the same for every
/// number of ranks and machines.
class LinkSeeds {
 public:
  /// Looks for the links' edges in all neighbor lists; the first rank logs how many it found. Collective over
  /// `ranks`. Throws InputError. REQUIRES: ends are nodes.
  LinkSeeds(LinkGraph graph, const comm::Communicator& ranks, std::shared_ptr<const LinkOptions> options);

  Count size() const { return std::ssize(options_.sources); }
  std::span<const NodeId> destinations() const { return options_.destinations; }
  bool excludes() const { return options_.edges.has_value() || options_.reverse_edges.has_value(); }
  /// Whether the links of all ranks are asked for.
  bool looks_at_all() const {
    return excludes() || options_.negatives.mode == NegativeOptions::Mode::in_batch;
  }
  Count most_nodes(Count links, Count of_step) const;  ///< of a batch with so many links of a step's
  Count most_excluded(Count links) const;              ///< entries of a step with so many links
  PlacesPerLink places_per_link() const;

  struct Step {
    std::span<const Count> links, numbers;  ///< of this rank; their numbers among those of the step
    std::span<const Count> all_links;       ///< of all ranks, by their numbers; only if looks_at_all()
    BatchKey key;
  };
  /// Returns the pairs, and sets `nodes` to the seeds.
  LinkPairs pairs_of(const Step& step, std::vector<NodeId>& nodes) const;

  /// Strict negatives so far that are edges although they were drawn anew.
  Count failed_draws() const { return failed_draws_; }

 private:
  struct Pairs {
    std::vector<NodeId> sources, destinations;
  };
  void find_edges(const comm::Communicator& ranks);
  static void number(const Pairs& ends, std::vector<NodeId>& nodes, LinkPairs& pairs);
  void draw(const Step& step, Pairs& pairs) const;
  void append_listed(const Step& step, Pairs& pairs) const;
  void share(const Step& step, Pairs& pairs, std::vector<std::int64_t>& groups_of_links) const;
  void append_shared(const Step& step, Count group, std::vector<NodeId>& destinations) const;
  bool is_wrong(NodeId source, NodeId destination) const;
  bool is_edge(NodeId source, NodeId destination) const;
  enum class End { source, destination };
  const CandidateDraw& candidates(Count link, End end) const;

  LinkGraph graph_;
  std::shared_ptr<const LinkOptions> held_;
  const LinkOptions& options_;
  CandidateDraw draw_source_, draw_destination_;
  std::vector<CandidateDraw> of_relations_[2];  // by End
  // In this machine's lists, and in those of other machines' nodes that it keeps.
  LinkEntries entries_, reverse_entries_, halo_entries_, halo_reverse_entries_;
  mutable std::atomic<Count> failed_draws_{0};
};

}  // namespace strata::batches
