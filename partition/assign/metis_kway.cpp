// SPDX-License-Identifier: Apache-2.0
#include "assign/metis_kway.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <numeric>
#include <queue>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::partition {
namespace {

using Parts = std::vector<std::int32_t>;

Parts call_metis(KwayGraph& graph, const KwayOptions& options) {
  idx_t settings[METIS_NOPTIONS];
  METIS_SetDefaultOptions(settings);
  settings[METIS_OPTION_OBJTYPE] = METIS_OBJTYPE_CUT;
  settings[METIS_OPTION_CTYPE] = METIS_CTYPE_SHEM;
  settings[METIS_OPTION_NUMBERING] = 0;
  settings[METIS_OPTION_SEED] = static_cast<idx_t>(options.seed & 0x7fffffff);
  settings[METIS_OPTION_UFACTOR] = static_cast<idx_t>(std::max(1.0, std::round(options.imbalance * 1000)));
  idx_t num_nodes = graph.num_nodes(), constraints = graph.num_constraints;
  idx_t num_parts = options.num_parts, cut = 0;
  std::vector<idx_t> part_of(at(num_nodes));
  // METIS draws from the process's one rand(), which a call in another thread would draw from, too.
  static std::mutex one_call;
  const std::lock_guard lock(one_call);
  // METIS takes non-const pointers, but changes nothing if the numbering starts at 0.
  const int status =
      METIS_PartGraphKway(&num_nodes, &constraints, graph.xadj.data(), const_cast<idx_t*>(graph.ids()),
                          graph.node_weights.empty() ? nullptr : graph.node_weights.data(), nullptr,
                          graph.edge_weights.empty() ? nullptr : graph.edge_weights.data(), &num_parts,
                          nullptr, nullptr, settings, &cut, part_of.data());
  if (status == METIS_ERROR_MEMORY)
    throw OutOfMemory(fmt::format("METIS found no memory for {} nodes and {} entries; {} are free", num_nodes,
                                  graph.xadj.back(), format_bytes(available_host_bytes())),
                      "Use a host with more memory, or --method random or range.");
  if (status != METIS_OK) throw Error(fmt::format("METIS_PartGraphKway failed with status {}", status));
  return {part_of.begin(), part_of.end()};
}

/// The nodes of one component after those of another.
struct Components {
  std::vector<idx_t> nodes;
  std::vector<idx_t> begin{0};

  idx_t count() const { return static_cast<idx_t>(begin.size() - 1); }
};

Components components_of(const KwayGraph& graph) {
  Components result;
  std::vector<bool> seen(at(graph.num_nodes()));
  result.nodes.reserve(seen.size());
  for (idx_t first = 0; first < graph.num_nodes(); ++first) {
    if (seen[at(first)]) continue;
    seen[at(first)] = true;
    result.nodes.push_back(first);
    for (std::size_t next = at(result.begin.back()); next < result.nodes.size(); ++next) {
      const idx_t v = result.nodes[next];
      for (idx_t e = graph.xadj[at(v)]; e < graph.xadj[at(v) + 1]; ++e) {
        const idx_t u = graph.ids()[e];
        if (seen[at(u)]) continue;
        seen[at(u)] = true;
        result.nodes.push_back(u);
      }
    }
    result.begin.push_back(static_cast<idx_t>(result.nodes.size()));
  }
  return result;
}

/// Nodes that stay together, without an edge to any other.
struct Item {
  idx_t begin, end;     ///< in Components::nodes
  unsigned weighs = 0;  ///< bit c: it has weight under constraint c
  double share = 0;     ///< the largest of a constraint's whole weight

  idx_t size() const { return end - begin; }
};

class Dealer {
 public:
  Dealer(const KwayGraph& graph, const Components& components, int num_parts)
      : graph_{graph},
        components_{components},
        constraints_{graph.num_constraints},
        num_parts_{num_parts},
        totals_(at(constraints_)),
        loads_(at(Count{num_parts} * constraints_)) {
    for (idx_t v = 0; v < graph.num_nodes(); ++v)
      for (int c = 0; c < constraints_; ++c) totals_[at(c)] += graph.weight(v, c);
  }

  Item item(idx_t begin, idx_t end) const {
    Item result{begin, end};
    for (int c = 0; c < constraints_; ++c) {
      const Count weight = weight_of(result, c);
      if (weight == 0) continue;
      result.weighs |= 1u << c;
      result.share =
          std::max(result.share, static_cast<double>(weight) / static_cast<double>(totals_[at(c)]));
    }
    return result;
  }

  /// Counts nodes that have a part already.
  void add(idx_t node, std::int32_t part) {
    for (int c = 0; c < constraints_; ++c) load(part, c) += graph_.weight(node, c);
  }

  void deal(std::vector<Item> items, Parts& part_of) {
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return std::pair{a.weighs, a.share} > std::pair{b.weighs, b.share};
    });
    for (auto first = items.begin(); first != items.end();) {
      const auto last =
          std::find_if(first, items.end(), [&](const Item& i) { return i.weighs != first->weighs; });
      deal_alike(first, last, part_of);
      first = last;
    }
  }

 private:
  using Items = std::vector<Item>::const_iterator;

  Count& load(std::int32_t part, int c) { return loads_[at(Count{part} * constraints_ + c)]; }

  Count weight_of(const Item& item, int c) const {
    Count sum = 0;
    for (idx_t i = item.begin; i < item.end; ++i) sum += graph_.weight(components_.nodes[at(i)], c);
    return sum;
  }

  /// The fullness of a part under those constraints.
  double fullness(std::int32_t part, unsigned constraints) {
    double most = 0;
    for (int c = 0; c < constraints_; ++c)
      if ((constraints >> c & 1u) != 0)
        most = std::max(most, static_cast<double>(load(part, c)) / static_cast<double>(totals_[at(c)]));
    return most;
  }

  /// Items that weigh something under the same constraints.
  void deal_alike(Items first, Items last, Parts& part_of) {
    using Entry = std::pair<double, std::int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> lightest;
    for (std::int32_t part = 0; part < num_parts_; ++part)
      lightest.push({fullness(part, first->weighs), part});
    for (Items item = first; item != last; ++item) {
      const std::int32_t part = lightest.top().second;
      lightest.pop();
      for (idx_t i = item->begin; i < item->end; ++i) {
        const idx_t node = components_.nodes[at(i)];
        part_of[at(node)] = part;
        add(node, part);
      }
      lightest.push({fullness(part, item->weighs), part});
    }
  }

  const KwayGraph& graph_;
  const Components& components_;
  const int constraints_, num_parts_;
  std::vector<Count> totals_, loads_;  // loads_[part][constraint]
};

/// The nodes of some components, in the order of `nodes`, and the edges between them.
KwayGraph graph_of(const KwayGraph& graph, const std::vector<idx_t>& nodes) {
  KwayGraph result{.xadj = {0}, .num_constraints = graph.num_constraints};
  std::vector<idx_t> number(at(graph.num_nodes()));
  for (std::size_t i = 0; i < nodes.size(); ++i) number[at(nodes[i])] = static_cast<idx_t>(i);
  Count entries = 0;
  for (const idx_t v : nodes) entries += graph.xadj[at(v) + 1] - graph.xadj[at(v)];
  result.own_ids.reserve(at(entries));
  if (!graph.edge_weights.empty()) result.edge_weights.reserve(at(entries));
  for (const idx_t v : nodes) {
    for (idx_t e = graph.xadj[at(v)]; e < graph.xadj[at(v) + 1]; ++e) {
      result.own_ids.push_back(number[at(graph.ids()[e])]);
      if (!graph.edge_weights.empty()) result.edge_weights.push_back(graph.edge_weights[at(e)]);
    }
    result.xadj.push_back(static_cast<idx_t>(result.own_ids.size()));
    for (int c = 0; c < graph.num_constraints && !graph.node_weights.empty(); ++c)
      result.node_weights.push_back(graph.weight(v, c));
  }
  return result;
}

}  // namespace

Parts metis_kway(KwayGraph graph, const KwayOptions& options) {
  constexpr idx_t kMostLooseNodes = 256;  // in one component: METIS then gets few components per node
  const Components components = components_of(graph);
  Dealer dealer{graph, components, options.num_parts};
  std::vector<Item> loose, large;
  for (idx_t component = 0; component < components.count(); ++component) {
    const Item item = dealer.item(components.begin[at(component)], components.begin[at(component + 1)]);
    const bool light = 2 * item.share * options.num_parts <= options.imbalance;
    (item.size() == 1 || (item.size() <= kMostLooseNodes && light) ? loose : large).push_back(item);
  }
  if (loose.empty()) return call_metis(graph, options);
  Parts part_of(at(graph.num_nodes()));
  std::vector<idx_t> kept;
  for (const Item& item : large)
    for (idx_t i = item.begin; i < item.end; ++i) kept.push_back(components.nodes[at(i)]);
  if (std::ssize(kept) > options.num_parts) {
    std::ranges::sort(kept);
    KwayGraph rest = graph_of(graph, kept);
    graph.own_ids = graph.edge_weights = {};
    const Parts parts = call_metis(rest, options);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      part_of[at(kept[i])] = parts[i];
      dealer.add(kept[i], parts[i]);
    }
  } else {  // too few for METIS
    for (const Item& item : large)
      for (idx_t i = item.begin; i < item.end; ++i) loose.push_back(dealer.item(i, i + 1));
  }
  dealer.deal(std::move(loose), part_of);
  return part_of;
}

}  // namespace strata::partition
