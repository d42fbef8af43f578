// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/graph.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interruptible.hpp"
#include "runtime.hpp"
#include "strata/cuda/device.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/text.hpp"
#include "typed_arrays.hpp"

namespace strata::python {
namespace {

using namespace nb::literals;
using batches::Graph;
using batches::GraphOptions;
using NoGil = nb::call_guard<nb::gil_scoped_release>;

std::shared_ptr<Graph> load(const Process& process, const graph::Source& source,
                            const GraphOptions& options) {
  return interruptible(process.device(), [runtime = process.runtime, source, options] {
    return Graph::load(runtime, source, options);
  });
}

struct Arrays {
  std::optional<HostArray> edge_index, edge_weight, x, y, train, valid, test;
  std::optional<Count> num_nodes;

  graph::GraphArrays views() const {
    graph::GraphArrays arrays;
    arrays.num_nodes = num_nodes;
    const auto view = [](const std::optional<HostArray>& array, const char* name) {
      if (array) return npy_of(*array, name);
      graph::NpyArray absent;
      absent.origin = name;
      return absent;
    };
    arrays.edge_index = view(edge_index, "edge_index");
    arrays.edge_weight = view(edge_weight, "edge_weight");
    arrays.x = view(x, "x");
    arrays.y = view(y, "y");
    arrays.train = view(train, "train");
    arrays.valid = view(valid, "valid");
    arrays.test = view(test, "test");
    return arrays;
  }
};

/// Makes a graph from the first rank's arrays; the others pass none.
std::shared_ptr<Graph> from_arrays(const Process& process, const Arrays& arrays,
                                   const GraphOptions& options) {
  return interruptible(process.device(), [runtime = process.runtime, arrays, options] {
    return Graph::from_arrays(runtime, arrays.views(), options);
  });
}

std::shared_ptr<Graph> from_typed_arrays(const Process& process, const TypedArrays& arrays,
                                         const GraphOptions& options) {
  return interruptible(process.device(), [runtime = process.runtime, arrays, options] {
    return Graph::from_arrays(runtime, arrays.views(), options);
  });
}

using FeatureRows = nb::ndarray<float, nb::ndim<2>, nb::c_contig>;

void gather(Graph& graph, const IdArray& ids, const FeatureRows& rows, std::uintptr_t stream_handle) {
  graph.gather_features(ids.data(), static_cast<Count>(ids.size()), rows.data(),
                        borrow_stream(graph.runtime().device(), stream_handle));
}

/// Gathers into `rows`, one row per id; both lie on the process's device.
void gather_features(const std::shared_ptr<Graph>& graph, const IdArray& ids, const FeatureRows& rows,
                     std::uintptr_t stream) {
  const Device device = graph->runtime().device();
  const bool waits_for_ranks = graph->runtime().topology().num_machines() > 1;
  const bool is_long = waits_for_ranks || static_cast<Count>(rows.nbytes()) > long_gather_bytes(device);
  interruptible_if(is_long, device, [graph, ids, rows, stream] { gather(*graph, ids, rows, stream); });
}

using StoredRows = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig>;

void write_features(const std::shared_ptr<Graph>& graph, const IdArray& ids, const StoredRows& rows,
                    std::uintptr_t stream) {
  const Device device = graph->runtime().device();
  interruptible(device, [graph, ids, rows, stream, device] {
    graph->write_features(ids.data(), static_cast<Count>(ids.size()),
                          static_cast<const std::byte*>(rows.data()), borrow_stream(device, stream));
  });
}

/// An array [size] that `write` fills without the GIL.
template <typename T, typename Write>
std::vector<T> filled(std::size_t size, Write write) {
  const nb::gil_scoped_release guard;
  std::vector<T> values(size);
  write(values.data());
  return values;
}

/// An array of one id for each of `ids`, which `translate` writes.
template <typename Translate>
nb::object translated(const HostIdArray& ids, Translate translate) {
  return array_with(
      filled<NodeId>(ids.size(), [&](NodeId* out) { translate(std::span(ids.data(), ids.size()), out); }));
}

nb::object labels_of(const Graph& graph, const HostIdArray& ids) {
  const std::span nodes(ids.data(), ids.size());
  const graph::Manifest& facts = graph.manifest();
  if (!facts.multi_label && facts.targets.empty()) {
    return array_with(
        filled<std::int64_t>(nodes.size(), [&](std::int64_t* out) { graph.labels(nodes, out); }));
  }
  const Count classes = facts.outputs();
  auto sets = filled<float>(nodes.size() * at(classes), [&](float* out) { graph.label_sets(nodes, out); });
  if (facts.targets.size() == 1) return array_with(std::move(sets));
  return array_with(std::move(sets), {std::ssize(nodes), classes});
}

nb::tuple in_edges_of(const Graph& graph, const HostIdArray& ids) {
  Graph::InEdges edges;
  {
    const nb::gil_scoped_release guard;
    edges = graph.in_edges({ids.data(), ids.size()});
  }
  const auto optional = [&](auto values) {
    return values.empty() && !edges.sources.empty() ? nb::object(nb::none()) : array_with(std::move(values));
  };
  nb::object edge_ids = optional(std::move(edges.edge_ids)), weights = optional(std::move(edges.weights));
  return nb::make_tuple(array_with(std::move(edges.counts)), array_with(std::move(edges.sources)),
                        std::move(edge_ids), std::move(weights));
}

nb::object keyed_numbers_of(const Graph& graph, const HostIdArray& nodes, const HostIdArray& counts,
                            std::uint64_t seed, std::uint32_t epoch, std::uint32_t step, std::uint32_t hop) {
  const sampling::PickQuery query{
      .nodes = {nodes.data(), nodes.size()}, .key = {.seed = seed, .epoch = epoch, .step = step}, .hop = hop};
  std::vector<double> numbers;
  {
    const nb::gil_scoped_release guard;
    numbers = graph.keyed_numbers(query, {counts.data(), counts.size()});
  }
  return array_with(std::move(numbers));
}

nb::object nodes_of(const Graph& graph, const std::string& split, nb::handle self) {
  const std::span<const NodeId> nodes = graph.nodes_of(enum_value<batches::Split>(split, "split"));
  return array_of(nodes.data(), {std::ssize(nodes)}, {}, self).cast(nb::rv_policy::reference);
}

nb::object held_edges_of(const Graph& graph, const std::string& split, nb::handle self) {
  const std::span<const std::int64_t> rows =
      graph.stored().held_edges(enum_value<batches::Split>(split, "split"));
  return array_of(rows.data(), {std::ssize(rows) / 3, 3}, {}, self).cast(nb::rv_policy::reference);
}

/// Names and ranges of types, and columns of features by type; None: nodes and edges of one type without a
/// name.
nb::object types_of(const Graph& graph) {
  const graph::GraphTypes& types = graph.manifest().types;
  if (!types.typed()) return nb::none();
  const auto offsets_of = [](const std::vector<Count>& offsets, Count all) {
    return offsets.empty() ? std::vector<Count>{0, all} : offsets;
  };
  std::vector<TypedArrays::Ends> edges;
  for (const graph::EdgeType& type : types.edges)
    edges.emplace_back(type.source, type.name, type.destination);
  const std::vector<Count> all(types.nodes.size(), graph.manifest().feature_cols);
  return nb::make_tuple(types.nodes, offsets_of(types.node_offsets, graph.manifest().book.num_nodes()), edges,
                        offsets_of(types.edge_offsets, graph.manifest().num_edges),
                        types.feature_cols.empty() ? all : types.feature_cols);
}

nb::list plan_of(const Graph& graph) {
  nb::list rows;
  for (const auto& row : graph.stored().plan()) {
    nb::dict entry;
    entry["tensor"] = row.tensor;
    entry["stratum"] = row.stratum;
    entry["rows"] = row.rows;
    entry["bytes"] = row.bytes;
    if (row.expected) {
      entry["share"] = row.expected->share;
      entry["bytes_per_second"] = row.expected->bytes_per_second;
    }
    rows.append(entry);
  }
  return rows;
}

/// Reads a field of the manifest.
template <typename Member>
auto field(Member graph::Manifest::*member) {
  return [member](const Graph& graph) { return graph.manifest().*member; };
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<graph::Source>(module, "GraphSource").def(nb::init<std::string>(), "text"_a);
  nb::class_<GraphOptions>(module, "GraphOptions")
      .def(
          "__init__",
          [](GraphOptions* self, std::optional<bool> edge_ids, bool edge_weights, std::int64_t gpu_bytes,
             const std::string& replicate, std::int64_t halo_bytes, std::vector<int> fanouts,
             Count batch_size) {
            new (self) GraphOptions{.edge_ids = edge_ids,
                                    .edge_weights = edge_weights,
                                    .gpu_bytes = gpu_bytes,
                                    .batch = {.seeds = batch_size, .fanouts = std::move(fanouts)},
                                    .replication = enum_value<plan::Replication>(replicate, "replicate"),
                                    .halo_bytes = halo_bytes};
          },
          nb::kw_only(), "edge_ids"_a = nb::none(), "edge_weights"_a = false,
          "gpu_bytes"_a = GraphOptions::kAutomatic, "replicate"_a = "auto", "halo_bytes"_a = 0,
          "fanouts"_a = std::vector<int>{15, 10, 5}, "batch_size"_a = 1024);
  nb::class_<TypedArrays>(module, "TypedArrays")
      .def(nb::init<>())
      .def_rw("nodes", &TypedArrays::nodes)
      .def_rw("edges", &TypedArrays::edges)
      .def_rw("x", &TypedArrays::x)
      .def_rw("feature_cols", &TypedArrays::feature_cols)
      .def_rw("y", &TypedArrays::y)
      .def_rw("train", &TypedArrays::train)
      .def_rw("valid", &TypedArrays::valid)
      .def_rw("test", &TypedArrays::test);
  nb::class_<Arrays>(module, "Arrays")
      .def(nb::init<>())
      .def_rw("edge_index", &Arrays::edge_index)
      .def_rw("edge_weight", &Arrays::edge_weight)
      .def_rw("x", &Arrays::x)
      .def_rw("y", &Arrays::y)
      .def_rw("train", &Arrays::train)
      .def_rw("valid", &Arrays::valid)
      .def_rw("test", &Arrays::test)
      .def_rw("num_nodes", &Arrays::num_nodes);
  nb::class_<Graph>(module, "Graph", "A graph that all ranks hold together.")
      .def_static("load", &load, "process"_a, "source"_a, "options"_a)
      .def_static("from_arrays", &from_arrays, "process"_a, "arrays"_a, "options"_a)
      .def_static("from_typed_arrays", &from_typed_arrays, "process"_a, "arrays"_a, "options"_a)
      .def_prop_ro("name", field(&graph::Manifest::name))
      .def_prop_ro("num_nodes", [](const Graph& g) { return g.stored().host_view().num_nodes; })
      .def_prop_ro("num_edges", field(&graph::Manifest::num_edges))
      .def_prop_ro("num_features", field(&graph::Manifest::feature_cols))
      .def_prop_ro("num_classes", field(&graph::Manifest::num_classes))
      .def_prop_ro("has_labels", field(&graph::Manifest::has_labels))
      .def_prop_ro("multi_label", field(&graph::Manifest::multi_label))
      .def_prop_ro("num_targets", [](const Graph& graph) { return graph.manifest().targets.size(); })
      .def_prop_ro("is_open", &Graph::is_open)
      .def_prop_ro("is_renumbered", &Graph::is_renumbered)
      .def(
          "nodes_of",
          [](nb::handle self, const std::string& split) {
            return nodes_of(nb::cast<const Graph&>(self), split, self);
          },
          "split"_a, "int64 [n]: global ids of a split.")
      .def(
          "held_edges",
          [](nb::handle self, const std::string& split) {
            return held_edges_of(nb::cast<const Graph&>(self), split, self);
          },
          "split"_a, "int64 [n, 3]: original ids of sources and destinations, and edge ids.")
      .def("gather_features", &gather_features, "ids"_a, "rows"_a.noconvert(), "stream"_a,
           "Fills float32 [n, features] on the process's device. Collective on several machines.")
      .def("write_features", &write_features, "ids"_a, "rows"_a.noconvert(), "stream"_a,
           "Rows of bytes as features are stored, one per id, on the process's device. Collective.")
      .def_prop_ro("feature_type",
                   [](const Graph& g) {
                     const bool none = g.manifest().feature_cols == 0;
                     return none ? std::string() : std::string(name_of(g.stored().features().spec().dtype));
                   })
      .def(
          "original_ids",
          [](const Graph& g, const HostIdArray& ids) {
            return translated(ids, [&](auto from, NodeId* to) { g.original_ids(from, to); });
          },
          "ids"_a)
      .def(
          "global_ids",
          [](const Graph& g, const HostIdArray& ids) {
            return translated(ids, [&](auto from, NodeId* to) { g.global_ids(from, to); });
          },
          "original_ids"_a)
      .def("labels", &labels_of, "ids"_a,
           "int64 [n], or float32 [n, classes] of sets of classes, [n] or [n, num_targets] of targets.")
      .def("in_edges", &in_edges_of, "nodes"_a, "Counts, sources, edge ids, weights; on any thread.")
      .def("keyed_numbers", &keyed_numbers_of, "nodes"_a, "counts"_a, nb::kw_only(), "seed"_a, "epoch"_a,
           "step"_a, "hop"_a, "float64 [sum of counts] in [0, 1); on any thread.")
      .def("types", &types_of)
      .def("plan", &plan_of)
      .def(
          "close",
          [](const std::shared_ptr<Graph>& g) { interruptible(g->runtime().device(), [g] { g->close(); }); },
          "Collective.");
}

}  // namespace strata::python
