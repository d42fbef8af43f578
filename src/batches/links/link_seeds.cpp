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
  if (negatives.mode != Mode::binary && negatives.amount != std::floor(negatives.amount))
    throw InputError(
        fmt::format("the amount of negatives is {}, but triplets need a whole number", negatives.amount),
        "Give 1 or more per link, or draw in the mode \"binary\".");
  if (negatives.strict && negatives.mode != Mode::binary && negatives.mode != Mode::triplet)
    throw InputError("strict negatives are neither shared nor listed",
                     "Draw in the mode \"binary\" or \"triplet\".");
  const auto wanted = static_cast<double>(options.sources.size()) * negatives.amount;
  if (negatives.mode == Mode::listed && static_cast<double>(negatives.listed.size()) != wanted)
    throw InputError(
        fmt::format("{} listed negatives for {} links", negatives.listed.size(), options.sources.size()),
        "Give a row of them for each link.");
}

constexpr NodeId kNone = -1;

/// The first links of a group, and how many it has.
Range group_of(Count group, Count size, Count links) {
  const Count first = group * size;
  return {first, size == 0 ? links : std::min(size, links - first)};
}

/// The range of a binary link's negatives, if all links of a step have theirs one after the other.
Range negatives_of(double amount, Count number) {
  const auto up_to = [&](Count links) {
    return static_cast<Count>(std::ceil(amount * static_cast<double>(links)));
  };
  return {up_to(number), up_to(number + 1) - up_to(number)};
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
  for (const Range& nodes : options_.relations.sources)
    of_relations_[0].emplace_back(nodes, std::span<const double>(), "sources");
  for (const Range& nodes : options_.relations.destinations)
    of_relations_[1].emplace_back(nodes, std::span<const double>(), "destinations");
  ranks.together([&] {
    check(options_);
    if (options_.negatives.mode == Mode::none) return;
    if (options_.negatives.mode == Mode::listed || options_.negatives.mode == Mode::in_batch) return;
    const auto any = [](const CandidateDraw& draw) { return draw.any(); };
    const bool draws_both = options_.negatives.mode == Mode::binary || options_.negatives.mode == Mode::both;
    const bool of_several = !of_relations_[0].empty();
    const bool has_nodes =
        of_several ? std::ranges::all_of(of_relations_[1], any) && std::ranges::all_of(of_relations_[0], any)
                   : any(draw_destination_) && (!draws_both || any(draw_source_));
    if (!has_nodes)
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

Count LinkSeeds::most_nodes(Count links, Count of_step) const {
  const NegativeOptions& options = options_.negatives;
  const Count size = options.group == 0 ? of_step : std::min(options.group, of_step);
  const Count groups = size == 0 ? 0 : std::min(links, (of_step + size - 1) / size);
  const auto most_drawn = [&](Count lists) {
    return static_cast<Count>(std::ceil(options.amount * static_cast<double>(lists)));
  };
  Count negatives = 0;
  switch (options.mode) {
    case Mode::none:
      break;
    case Mode::binary:
      negatives = 2 * (most_drawn(links) + links);
      break;
    case Mode::both:
      negatives = 2 * most_drawn(links);
      break;
    case Mode::triplet:
    case Mode::listed:
      negatives = most_drawn(links);
      break;
    case Mode::joint:
      negatives = most_drawn(groups);
      break;
    case Mode::in_batch:
      negatives = groups * size;
      break;
  }
  return std::min(graph_.stored->host_view().num_nodes, 2 * links + negatives);
}

Count LinkSeeds::most_excluded(Count links) const {
  return links * (entries_.most_per_link() + reverse_entries_.most_per_link() +
                  halo_entries_.most_per_link() + halo_reverse_entries_.most_per_link());
}

PlacesPerLink LinkSeeds::places_per_link() const {
  const Count all = 1 + static_cast<Count>(options_.negatives.amount);
  switch (options_.negatives.mode) {
    case Mode::none:
      return {.sources = 1, .destinations = 1};
    case Mode::triplet:
    case Mode::listed:
      return {.sources = 1, .destinations = all};
    case Mode::both:
      return {.sources = all, .destinations = all};
    case Mode::binary:
    case Mode::joint:
    case Mode::in_batch:
      return {};
  }
  return {};
}

LinkPairs LinkSeeds::pairs_of(const Step& step, std::vector<NodeId>& nodes) const {
  Pairs ends;
  for (const Count link : step.links) {
    ends.sources.push_back(options_.sources[at(link)]);
    ends.destinations.push_back(options_.destinations[at(link)]);
  }
  LinkPairs pairs;
  if (options_.negatives.shares())
    share(step, ends, pairs.groups);
  else if (options_.negatives.mode == Mode::listed)
    append_listed(step, ends);
  else if (options_.negatives.mode != Mode::none)
    draw(step, ends);
  nodes.clear();
  number(ends, nodes, pairs);
  for (const Count link : excludes() ? step.all_links : std::span<const Count>()) {
    entries_.append(link, pairs.excluded);
    reverse_entries_.append(link, pairs.excluded);
    halo_entries_.append(link, pairs.excluded_of_halo);
    halo_reverse_entries_.append(link, pairs.excluded_of_halo);
  }
  sort_distinct(pairs.excluded);
  sort_distinct(pairs.excluded_of_halo);
  return pairs;
}

/// Finds the distinct nodes, and the places of ends among them.
void LinkSeeds::number(const Pairs& ends, std::vector<NodeId>& nodes, LinkPairs& pairs) {
  std::vector<std::pair<NodeId, std::int64_t*>> places;
  const auto add = [&](std::span<const NodeId> of_pairs, std::vector<std::int64_t>& numbers) {
    numbers.assign(of_pairs.size(), kNone);
    for (std::size_t i = 0; i < of_pairs.size(); ++i)
      if (of_pairs[i] != kNone) places.emplace_back(of_pairs[i], &numbers[i]);
  };
  add(ends.sources, pairs.sources);
  add(ends.destinations, pairs.destinations);
  std::ranges::sort(places, {}, &std::pair<NodeId, std::int64_t*>::first);
  for (const auto& [node, number] : places) {
    if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
    *number = std::ssize(nodes) - 1;
  }
}

void LinkSeeds::draw(const Step& step, Pairs& pairs) const {
  constexpr Count kDraws = 6;  // the first one and five more
  struct Negative {
    std::uint64_t key;
    Count number;  // among those of its link
    Count link;
  };
  const bool is_binary = options_.negatives.mode == Mode::binary,
             draws_sources = is_binary || options_.negatives.mode == Mode::both;
  std::vector<Negative> negatives;
  for (std::size_t i = 0; i < step.links.size(); ++i) {
    const Count link = step.links[i];
    const Count count = is_binary ? negatives_of(options_.negatives.amount, step.numbers[i]).count
                                  : static_cast<Count>(options_.negatives.amount);
    const std::uint64_t key = node_key(step.key, RandomUse::negative, 0, link);
    for (Count k = 0; k < count; ++k) negatives.push_back({key, k, link});
  }
  std::vector<NodeId> sources(negatives.size()), destinations(negatives.size());
  std::vector<std::size_t> undrawn(negatives.size());
  std::iota(undrawn.begin(), undrawn.end(), std::size_t{0});
  std::vector<NodeId> drawn;  // of undrawn: sources if they are drawn, then destinations
  for (Count round = 0; round < kDraws && !undrawn.empty(); ++round) {
    drawn.clear();
    const auto draw_ends = [&](End end) {
      const Count word = end == End::source ? 0 : 1;
      for (const std::size_t i : undrawn)
        drawn.push_back(candidates(negatives[i].link, end)(
            word_of(negatives[i].key, (negatives[i].number * kDraws + round) * 2 + word)));
    };
    if (draws_sources) draw_ends(End::source);
    draw_ends(End::destination);
    if (graph_.global_ids) graph_.global_ids(std::vector(drawn), drawn.data());
    for (std::size_t j = 0; j < undrawn.size(); ++j) {
      const std::size_t i = undrawn[j];
      sources[i] = draws_sources ? drawn[j] : options_.sources[at(negatives[i].link)];
      destinations[i] = drawn[draws_sources ? undrawn.size() + j : j];
    }
    if (!options_.negatives.strict) break;
    std::erase_if(undrawn, [&](std::size_t i) { return !is_wrong(sources[i], destinations[i]); });
    if (round + 1 == kDraws) failed_draws_ += std::ssize(undrawn);
  }
  const bool leaves_out = is_binary && options_.negatives.strict;
  for (std::size_t i = 0; i < negatives.size(); ++i) {
    if (leaves_out && std::ranges::binary_search(undrawn, i)) continue;
    if (draws_sources) pairs.sources.push_back(sources[i]);
    pairs.destinations.push_back(destinations[i]);
  }
}

void LinkSeeds::append_listed(const Step& step, Pairs& pairs) const {
  const auto amount = static_cast<Count>(options_.negatives.amount);
  for (const Count link : step.links) {
    const auto first = options_.negatives.listed.begin() + link * amount;
    pairs.destinations.insert(pairs.destinations.end(), first, first + amount);
  }
}

void LinkSeeds::share(const Step& step, Pairs& pairs, std::vector<std::int64_t>& groups_of_links) const {
  const Count size = options_.negatives.group;
  for (const Count number : step.numbers) groups_of_links.push_back(size == 0 ? 0 : number / size);
  std::vector<std::int64_t> groups = groups_of_links;
  sort_distinct(groups);
  for (std::int64_t& group : groups_of_links)
    group = std::ranges::lower_bound(groups, group) - groups.begin();
  for (const Count group : groups) append_shared(step, group, pairs.destinations);
}

void LinkSeeds::append_shared(const Step& step, Count group, std::vector<NodeId>& destinations) const {
  const Count size = options_.negatives.group;
  if (options_.negatives.mode == Mode::in_batch) {
    const auto links = std::ssize(step.all_links);
    const Range own = group_of(group, size, links), longest = group_of(0, size, links);
    for (Count i = 0; i < longest.count; ++i)
      destinations.push_back(i < own.count ? options_.destinations[at(step.all_links[at(own.first + i)])]
                                           : kNone);
    return;
  }
  const std::uint64_t key = node_key(step.key, RandomUse::negative, 1, group);
  std::vector<NodeId> drawn;
  for (Count k = 0; k < static_cast<Count>(options_.negatives.amount); ++k)
    drawn.push_back(draw_destination_(word_of(key, k)));
  if (graph_.global_ids) graph_.global_ids(std::vector(drawn), drawn.data());
  destinations.insert(destinations.end(), drawn.begin(), drawn.end());
}

const CandidateDraw& LinkSeeds::candidates(Count link, End end) const {
  if (of_relations_[0].empty()) return end == End::source ? draw_source_ : draw_destination_;
  const RelationId relation = options_.relations.of_links[at(link)];
  return of_relations_[end == End::source ? 0 : 1][at(Count{relation})];
}

bool LinkSeeds::is_wrong(NodeId source, NodeId destination) const {
  return (source == destination && !options_.negatives.self_loops) || is_edge(source, destination);
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
