// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "links/find_entries.hpp"
#include "strata/batches/links.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::batches {
namespace {

using Mode = NegativeOptions::Mode;

/// SplitMix64, as keyed_word() of choosers.
std::uint64_t word_of(std::uint64_t key, Count index) {
  return mix64(key + static_cast<std::uint64_t>(index) * 0x9E3779B97F4A7C15ull);
}

void check(const LinkOptions& options) {
  if (options.sources.size() != options.destinations.size())
    throw InputError(fmt::format("{} sources and {} destinations of links", options.sources.size(),
                                 options.destinations.size()),
                     "Give one of each per link.");
  for (const auto& edges : {options.edges, options.reverse_edges}) {
    if (!edges || edges->ids.empty() || edges->ids.size() == options.sources.size()) continue;
    throw InputError(fmt::format("{} edges of {} links", edges->ids.size(), options.sources.size()),
                     "Give one per link, -1 where there is none.");
  }
  const NegativeOptions& negatives = options.negatives;
  if (negatives.mode == Mode::none) return;
  if (!(negatives.amount > 0) || negatives.amount > 1e6)
    throw InputError(fmt::format("the amount of negatives is {}", negatives.amount),
                     "Give a number above 0, such as 1.");
  if (negatives.mode == Mode::triplet && negatives.amount != std::floor(negatives.amount))
    throw InputError(
        fmt::format("the amount of negatives is {}, but triplets need a whole number", negatives.amount),
        "Give 1 or more per link, or draw in the mode \"binary\".");
}

/// The range of a binary link's negatives, if all links of a step have theirs one after the other.
Range negatives_of(double amount, Count number) {
  const auto up_to = [&](Count links) {
    return static_cast<Count>(std::ceil(amount * static_cast<double>(links)));
  };
  return {up_to(number), up_to(number + 1) - up_to(number)};
}

/// Numbers of pairs among their distinct nodes.
void number(std::span<const NodeId> ends, std::span<const NodeId> nodes, std::vector<std::int64_t>& numbers) {
  for (const NodeId end : ends) numbers.push_back(std::ranges::lower_bound(nodes, end) - nodes.begin());
}

void sort_distinct(std::vector<std::int64_t>& values) {
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
}

}  // namespace

CandidateDraw::CandidateDraw(const Range& candidates, std::span<const double> weights, const char* what)
    : candidates_(candidates) {
  if (weights.empty()) return;
  if (std::ssize(weights) != candidates.count)
    throw InputError(fmt::format("{} weights of {} for {} nodes", weights.size(), what, candidates.count),
                     "Give one weight per node of the type.");
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight))
      throw InputError(fmt::format("a weight of {} is {}", what, weight), "Give finite weights, at least 0.");
    sums_.push_back(sum += weight);
  }
  if (!(sum > 0)) throw InputError(fmt::format("all weights of {} are 0", what), "Give some node a weight.");
}

NodeId CandidateDraw::operator()(std::uint64_t word) const {
  if (sums_.empty()) {
    __extension__ using Wide = unsigned __int128;
    return candidates_.first +
           static_cast<Count>((static_cast<Wide>(word) * static_cast<std::uint64_t>(candidates_.count)) >>
                              64);
  }
  // A product that is rounded up to the sum of all belongs to the last candidate with a weight.
  const double point = unit_double(word) * sums_.back();
  const auto found = point < sums_.back() ? std::ranges::upper_bound(sums_, point)
                                          : std::ranges::lower_bound(sums_, sums_.back());
  return candidates_.first + (found - sums_.begin());
}

LinkSeeds::LinkSeeds(LinkGraph graph, const comm::Communicator& ranks,
                     std::shared_ptr<const LinkOptions> options)
    : graph_(std::move(graph)),
      held_(std::move(options)),
      options_(*held_),
      draw_source_(options_.source_candidates, options_.negatives.source_weights, "sources"),
      draw_destination_(options_.destination_candidates, options_.negatives.destination_weights,
                        "destinations") {
  ranks.together([&] {
    check(options_);
    if (options_.negatives.mode == Mode::none) return;
    if (!draw_destination_.any() || (options_.negatives.mode == Mode::binary && !draw_source_.any()))
      throw InputError("there are no nodes to draw negatives from",
                       "Name a relation whose types have nodes.");
    if (options_.negatives.strict && !graph_.stored->is_replicated() && ranks.size() > 1 &&
        graph_.stored->host_lists().num_local < graph_.stored->host_view().num_nodes)
      throw InputError("strict negatives need all neighbor lists on every machine",
                       "Load the graph with replicate=\"on\", or take negatives that are not strict.");
  });
  if (excludes()) find_edges(ranks);
}

void LinkSeeds::find_edges(const comm::Communicator& ranks) {
  const store::MachineGraph& stored = *graph_.stored;
  const store::GraphView& view = stored.host_lists();
  ThreadPool& pool = *graph_.pool;
  const SearchedLists lists{view, [&](NodeId v) { return view.owns(v) ? v - view.first_node : Count{-1}; }};
  const std::span<const NodeId> from = options_.sources, to = options_.destinations;
  const auto find = [&](const SearchedLists& where, LinkEntries& edges, LinkEntries& reverse) {
    if (options_.edges) edges = find_entries(where, to, from, *options_.edges, pool);
    if (options_.reverse_edges) reverse = find_entries(where, from, to, *options_.reverse_edges, pool);
  };
  find(lists, entries_, reverse_entries_);
  if (const store::HaloLists* halo = stored.halo_lists())
    find({halo->view, [&](NodeId v) { return halo->index.find(v); }}, halo_entries_, halo_reverse_entries_);

  std::array<std::int64_t, 2> found{};
  const store::GraphView& own = stored.host_view();
  for (Count link = 0; graph_.counts && link < size(); ++link) {
    found[0] += entries_.has(link) && own.owns(to[at(link)]);
    found[1] += reverse_entries_.has(link) && own.owns(from[at(link)]);
  }
  ranks.all_reduce(found);
  if (ranks.rank() != 0) return;
  const bool is_partial = 2 * found[1] > found[0] && found[1] < found[0];
  spdlog::log(
      is_partial ? spdlog::level::warn : spdlog::level::info,
      "{} links: {} are edges of the graph, and {} have an edge from their destination to their source; "
      "no batch has those of its own step{}",
      format_count(size()), format_count(found[0]), format_count(found[1]),
      is_partial ? ". Links without such an edge may have one that was not found: reverse= names it" : "");
}

Count LinkSeeds::most_nodes(Count links) const {
  const auto drawn = static_cast<Count>(std::ceil(options_.negatives.amount * static_cast<double>(links)));
  const Count per_negative = options_.negatives.mode == Mode::binary ? 2 : 1;
  const Count negatives = options_.negatives.mode == Mode::none ? 0 : (drawn + links) * per_negative;
  return std::min(graph_.stored->host_view().num_nodes, 2 * links + negatives);
}

Count LinkSeeds::most_excluded(Count links) const {
  return links * (entries_.most_per_link() + reverse_entries_.most_per_link() +
                  halo_entries_.most_per_link() + halo_reverse_entries_.most_per_link());
}

LinkPairs LinkSeeds::pairs_of(const Step& step, std::vector<NodeId>& nodes) const {
  Pairs ends;
  for (const Count link : step.links) {
    ends.sources.push_back(options_.sources[at(link)]);
    ends.destinations.push_back(options_.destinations[at(link)]);
  }
  if (options_.negatives.mode != Mode::none) draw(step, ends);
  nodes.assign(ends.sources.begin(), ends.sources.end());
  nodes.insert(nodes.end(), ends.destinations.begin(), ends.destinations.end());
  sort_distinct(nodes);
  LinkPairs pairs;
  number(ends.sources, nodes, pairs.sources);
  number(ends.destinations, nodes, pairs.destinations);
  for (const Count link : step.all_links) {
    entries_.append(link, pairs.excluded);
    reverse_entries_.append(link, pairs.excluded);
    halo_entries_.append(link, pairs.excluded_of_halo);
    halo_reverse_entries_.append(link, pairs.excluded_of_halo);
  }
  sort_distinct(pairs.excluded);
  sort_distinct(pairs.excluded_of_halo);
  return pairs;
}

void LinkSeeds::draw(const Step& step, Pairs& pairs) const {
  constexpr Count kDraws = 6;  // the first one and five more
  struct Negative {
    std::uint64_t key;
    Count number;  // among those of its link
    NodeId source;
  };
  const bool is_binary = options_.negatives.mode == Mode::binary;
  std::vector<Negative> negatives;
  for (std::size_t i = 0; i < step.links.size(); ++i) {
    const Count link = step.links[i];
    const Count count = is_binary ? negatives_of(options_.negatives.amount, step.numbers[i]).count
                                  : static_cast<Count>(options_.negatives.amount);
    const std::uint64_t key = node_key(step.key, RandomUse::negative, 0, link);
    for (Count k = 0; k < count; ++k) negatives.push_back({key, k, options_.sources[at(link)]});
  }
  std::vector<NodeId> sources(negatives.size()), destinations(negatives.size());
  std::vector<std::size_t> undrawn(negatives.size());
  std::iota(undrawn.begin(), undrawn.end(), std::size_t{0});
  std::vector<NodeId> drawn;  // of undrawn: sources if they are drawn, then destinations
  for (Count round = 0; round < kDraws && !undrawn.empty(); ++round) {
    drawn.clear();
    const auto draw_ends = [&](const CandidateDraw& candidates, Count end) {
      for (const std::size_t i : undrawn)
        drawn.push_back(
            candidates(word_of(negatives[i].key, (negatives[i].number * kDraws + round) * 2 + end)));
    };
    if (is_binary) draw_ends(draw_source_, 0);
    draw_ends(draw_destination_, 1);
    if (graph_.global_ids) graph_.global_ids(std::vector(drawn), drawn.data());
    for (std::size_t j = 0; j < undrawn.size(); ++j) {
      const std::size_t i = undrawn[j];
      sources[i] = is_binary ? drawn[j] : negatives[i].source;
      destinations[i] = drawn[is_binary ? undrawn.size() + j : j];
    }
    if (!options_.negatives.strict) break;
    std::erase_if(undrawn, [&](std::size_t i) { return !is_edge(sources[i], destinations[i]); });
    if (round + 1 == kDraws) failed_draws_ += std::ssize(undrawn);
  }
  if (is_binary) pairs.sources.insert(pairs.sources.end(), sources.begin(), sources.end());
  pairs.destinations.insert(pairs.destinations.end(), destinations.begin(), destinations.end());
}

/// Lists are read as they are; the mean one is short, and ends are drawn at random.
bool LinkSeeds::is_edge(NodeId source, NodeId destination) const {
  const store::GraphView& view = graph_.stored->host_lists();
  const Count list = destination - view.first_node;
  for (Count entry = view.indptr[list]; entry < view.indptr[list + 1]; ++entry) {
    if (view.indices[entry] != source) continue;
    if (view.edge_ids.size == 0) return true;
    const EdgeId edge = view.edge_ids[entry];
    if (options_.relation.contains(edge)) return true;
  }
  return false;
}

}  // namespace strata::batches
