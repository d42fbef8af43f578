// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/links.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interruptible.hpp"
#include "strata/batches/graph.hpp"
#include "strata/util/text.hpp"

namespace strata {

template <>
inline constexpr auto enum_names<batches::NegativeOptions::Mode> =
    std::to_array<EnumName<batches::NegativeOptions::Mode>>({
        {batches::NegativeOptions::Mode::none, "none"},
        {batches::NegativeOptions::Mode::binary, "binary"},
        {batches::NegativeOptions::Mode::triplet, "triplet"},
        {batches::NegativeOptions::Mode::listed, "listed"},
        {batches::NegativeOptions::Mode::joint, "joint"},
        {batches::NegativeOptions::Mode::in_batch, "in_batch"},
    });

namespace python {
namespace {

using namespace nb::literals;
using batches::LinkEdges;
using batches::LinkOptions;
using batches::NegativeOptions;
using WeightArray = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
/// Edge ids of a relation, from the first to before the last, and that of each link.
using EdgesTuple = std::tuple<EdgeId, EdgeId, std::optional<HostIdArray>>;

template <typename Array>
auto vector_of(const std::optional<Array>& array) {
  using Value = std::remove_const_t<typename Array::Scalar>;
  return array ? std::vector<Value>(array->data(), array->data() + array->size()) : std::vector<Value>();
}

std::optional<LinkEdges> edges_of(const std::optional<EdgesTuple>& edges) {
  if (!edges) return {};
  const auto& [first, end, ids] = *edges;
  return LinkEdges{.relation = {.first = first, .end = end}, .ids = vector_of(ids)};
}

NegativeOptions negative_options(const std::string& mode, double amount,
                                 const std::optional<WeightArray>& source_weights,
                                 const std::optional<WeightArray>& destination_weights, bool strict,
                                 bool self_loops, Count group, const std::optional<HostIdArray>& listed) {
  return {.mode = enum_value<NegativeOptions::Mode>(mode, "mode"),
          .amount = amount,
          .source_weights = vector_of(source_weights),
          .destination_weights = vector_of(destination_weights),
          .strict = strict,
          .self_loops = self_loops,
          .group = group,
          .listed = vector_of(listed)};
}

LinkOptions link_options(const HostIdArray& sources, const HostIdArray& destinations,
                         std::pair<EdgeId, EdgeId> relation, std::pair<NodeId, Count> source_candidates,
                         std::pair<NodeId, Count> destination_candidates,
                         const std::optional<NegativeOptions>& negatives,
                         const std::optional<EdgesTuple>& edges,
                         const std::optional<EdgesTuple>& reverse_edges) {
  return {.sources = {sources.data(), sources.data() + sources.size()},
          .destinations = {destinations.data(), destinations.data() + destinations.size()},
          .relation = {.first = relation.first, .end = relation.second},
          .source_candidates = {source_candidates.first, source_candidates.second},
          .destination_candidates = {destination_candidates.first, destination_candidates.second},
          .negatives = negatives.value_or(NegativeOptions{}),
          .edges = edges_of(edges),
          .reverse_edges = edges_of(reverse_edges)};
}

/// Sources and destinations of edges, as global ids.
nb::tuple ends_of(const std::shared_ptr<batches::Graph>& graph, const HostIdArray& ids) {
  std::vector<EdgeId> edges(ids.data(), ids.data() + ids.size());
  auto ends = interruptible(graph->runtime().device(), [graph, edges] { return graph->ends_of(edges); });
  return nb::make_tuple(array_with(std::move(ends.sources)), array_with(std::move(ends.destinations)));
}

nb::object edges_between(const std::shared_ptr<batches::Graph>& graph, EdgeId first, EdgeId end) {
  return array_with(interruptible(graph->runtime().device(),
                                  [graph, first, end] { return graph->edges_between(first, end); }));
}

}  // namespace

void bind_links(nb::module_& module) {
  nb::class_<NegativeOptions>(module, "NegativeOptions",
                              "Pairs that are drawn beside links; see batches/links.hpp.")
      .def_static("make", &negative_options, nb::kw_only(), "mode"_a, "amount"_a,
                  "source_weights"_a = nb::none(), "destination_weights"_a = nb::none(), "strict"_a = false,
                  "self_loops"_a = true, "group"_a = 0, "listed"_a = nb::none());
  nb::class_<LinkOptions>(module, "LinkOptions", "Links to learn; see batches/links.hpp.")
      .def_static("make", &link_options, nb::kw_only(), "sources"_a, "destinations"_a, "relation"_a,
                  "source_candidates"_a, "destination_candidates"_a, "negatives"_a = nb::none(),
                  "edges"_a = nb::none(), "reverse_edges"_a = nb::none());
  module.def("edges_between", &edges_between, "graph"_a, "first"_a, "end"_a,
             "Ids of the edges from the first to before the last. Collective.");
  module.def("ends_of", &ends_of, "graph"_a, "edges"_a,
             "Sources and destinations of edges, as the graph numbers nodes. Collective.");
}

}  // namespace python
}  // namespace strata
