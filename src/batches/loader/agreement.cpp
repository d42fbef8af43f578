// SPDX-License-Identifier: Apache-2.0
#include "loader/agreement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::batches {
namespace {

std::string hash_of(const auto& values) {
  return hex64(hash_bytes(values.data(), values.size() * sizeof(values[0])));
}

std::string text_of_edges(const std::optional<LinkEdges>& edges) {
  if (!edges) return "none";
  return fmt::format("{} to {} {}", edges->relation.first, edges->relation.end, hash_of(edges->ids));
}

std::string text_of_links(const LinkOptions& links) {
  const NegativeOptions& negatives = links.negatives;
  return fmt::format(
      "{} links (hash {} {}) of which edges {} and {} are excluded, negatives {} {} {} {} {} {} {} {}",
      links.sources.size(), hash_of(links.sources), hash_of(links.destinations), text_of_edges(links.edges),
      text_of_edges(links.reverse_edges), static_cast<int>(negatives.mode), negatives.amount,
      negatives.strict, negatives.self_loops, negatives.group, hash_of(negatives.listed),
      hash_of(negatives.source_weights), hash_of(negatives.destination_weights));
}

std::string text_of_nodes(const NodeLoaderOptions& options) {
  if (options.links) return text_of_links(*options.links);
  if (const Split* split = std::get_if<Split>(&options.nodes)) return std::string(enum_name(*split));
  if (!options.deals) return "ids of its own";
  const auto& nodes = std::get<std::vector<NodeId>>(options.nodes);
  const std::uint64_t hash = hash_bytes(nodes.data(), nodes.size() * sizeof(NodeId));
  return fmt::format("{} ids (hash {})", nodes.size(), hex64(hash));
}

/// One option per line.
std::string text_of(const NodeLoaderOptions& options) {
  const sampling::SamplerOptions& sampler = options.sampler;
  return fmt::format(
      "input_nodes {}\ndeal {}\nbatch_size {}\nshuffle {}\ndrop_last {}\nseed {}\nfanouts {} {}\n"
      "sampler {}{}\nreplace {}\nlayer_dependent {}\n{}\ntransposes {}\nfeatures {}\nlabels {}\noverlap {}\n",
      text_of_nodes(options), options.deals, options.batch_size, options.shuffle, options.drop_last,
      options.seed, fmt::join(sampler.fanouts, ","), sampler.relation_fanouts, enum_name(sampler.method),
      sampler.chooser ? " of its own" : "", sampler.replace, sampler.layer_dependent,
      options.form == NodeLoaderOptions::Form::merged ? "merged hops" : "blocks", options.transposes,
      options.features, options.labels, options.overlap);
}

std::string text_of(const std::string& source, const GraphOptions& options) {
  return fmt::format(
      "source {}\nedge_ids {}\nedge weights {}\nreplicate {}\nhalo_cache {}\nfanouts {}\nbatch_size {}\n",
      source, options.edge_ids ? fmt::to_string(*options.edge_ids) : "automatic", options.edge_weights,
      enum_name(options.replication), options.halo_bytes, fmt::join(options.batch.fanouts, ","),
      options.batch.seeds);
}

/// Throws if ranks' texts, one fact per line, differ: "rank 0 DOES with this, rank 1 with that".
void compare(const comm::Communicator& world, const std::string& mine, const std::string& does,
             const std::string& remedy) {
  const std::vector<std::string> texts = world.all_gather(mine);
  const auto other = std::ranges::find_if(texts, [&](const auto& text) { return text != texts.front(); });
  if (other == texts.end()) return;
  std::istringstream first(texts.front()), second(*other);
  std::string wanted, found;
  while (std::getline(first, wanted) && std::getline(second, found) && wanted == found) continue;
  throw InputError(
      fmt::format("rank 0 {} with {}, rank {} with {}", does, wanted, other - texts.begin(), found), remedy);
}

}  // namespace

void check_agreement(const comm::Communicator& world, const NodeLoaderOptions& options) {
  compare(world, text_of(options), "makes a loader",
          "Give all ranks the same options, and the same nodes, which are dealt to the ranks; a "
          "rank's own nodes need deal=False.");
}

void check_agreement(const comm::Communicator& world, const std::string& source,
                     const GraphOptions& options) {
  compare(world, text_of(source, options), "makes a graph",
          "Give all ranks the same source and the same options.");
}

void check_edges(const comm::Communicator& world, std::span<const EdgeId> edges) {
  compare(world, fmt::format("{} ids (hash {})", edges.size(), hash_of(edges)), "names edges",
          "Give all ranks the same links; a loader deals them to the ranks.");
}

void check_epoch(const comm::Communicator& world, std::uint32_t epoch) {
  compare(world, fmt::format("number {}", epoch), "begins an epoch",
          "Let all ranks call set_epoch() with the same number, and go over a loader equally often.");
}

std::vector<Count> counts_of_ranks(const comm::Communicator& world, Count mine) {
  std::vector<std::int64_t> counts(at(world.size()));
  counts[at(world.rank())] = mine;
  world.all_reduce(counts);
  return counts;
}

}  // namespace strata::batches
