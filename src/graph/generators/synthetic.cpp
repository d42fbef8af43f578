// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "generators/synthetic_kinds.hpp"
#include "readers/columns.hpp"
#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

using Kind = SyntheticSpec::Kind;
using Direction = ReadOptions::Direction;
constexpr Count kFeatureRowsPerPiece = 256;
constexpr Count kNodesAtOnce = Count{1}
                               << 16;  // nodes that get weights of edges between two releases of pages

bool features_depend_on_class(Kind kind) { return kind == Kind::sbm || kind == Kind::grid; }

template <typename Out, typename Convert>
void fill_features(const FeatureFormula& formula, const std::vector<std::int32_t>& labels, Out* out,
                   Convert convert, const Assembly& assembly) {
  assembly.pool.parallel_for(std::ssize(labels), kFeatureRowsPerPiece, [&](Count begin, Count end) {
    if (assembly.scratch != nullptr) assembly.scratch->trim();
    for (Count row = begin; row < end; ++row)
      for (Count col = 0; col < formula.cols; ++col)
        out[row * formula.cols + col] = convert(formula(row, col, labels[at(row)]));
  });
}

FeatureTable make_features(const SyntheticSpec& spec, const std::vector<std::int32_t>& labels,
                           const Assembly& assembly) {
  const ClassMeans means = class_means(spec);
  const FeatureFormula formula = feature_formula(spec, means);
  FeatureMemory memory = allocate_features(spec.nodes, spec.features, spec.dtype, assembly.scratch);
  if (spec.dtype == DType::f32)
    fill_features(
        formula, labels, reinterpret_cast<float*>(memory.bytes), [](float x) { return x; }, assembly);
  else
    fill_features(formula, labels, reinterpret_cast<std::uint16_t*>(memory.bytes),
                  spec.dtype == DType::f16 ? f32_to_f16 : f32_to_bf16, assembly);
  return memory.table;
}

Splits splits_of(const SyntheticSpec& spec, ThreadPool& pool) {
  Splits splits;
  splits.train.resize(at(spec.train));
  splits.valid.resize(at(spec.valid));
  splits.test.resize(at(spec.test));
  make_splits(spec, {.train = splits.train.data(), .valid = splits.valid.data(), .test = splits.test.data()},
              pool);
  return splits;
}

/// Peak memory: kinds with an edge list sort it into the CSC, the others write in place.
double peak_bytes(const SyntheticSpec& spec) {
  const bool sorted = spec.kind == Kind::sbm || spec.kind == Kind::rmat;
  const double id_bytes = spec.nodes < INT32_MAX ? 4 : 8;
  const double per_edge = sorted ? 8 + 8 + 4 + id_bytes : spec.kind == Kind::grid ? 16 : 8;
  const double edges =
      spec.kind == Kind::grid ? 4.0 * static_cast<double>(spec.nodes) : static_cast<double>(spec.edges);
  const double structure = per_edge * edges + 20.0 * static_cast<double>(spec.nodes);
  const double weights = spec.weights == SyntheticSpec::Weights::none ? 0 : sizeof(float);
  const double features = static_cast<double>(spec.nodes) * static_cast<double>(spec.features) *
                          static_cast<double>(size_of(spec.dtype));
  const double result =
      features + ((sorted ? 16 : per_edge) + weights) * edges + 20.0 * static_cast<double>(spec.nodes);
  return std::max(structure, result);
}

void give_weights(const SyntheticSpec& spec, StoredLists& lists, ScratchStore& scratch, ThreadPool& pool) {
  ScratchFile file(scratch);
  file.reserve(at(lists.num_edges()) * sizeof(float));
  lists.weights = {std::move(file).map(), lists.num_edges()};
  for (NodeId first = 0; first < spec.nodes; first += kNodesAtOnce) {
    make_edge_weights(spec,
                      {.first = first,
                       .count = std::min(kNodesAtOnce, spec.nodes - first),
                       .indptr = lists.indptr.data(),
                       .indices = lists.indices},
                      lists.weights.data(), pool);
    scratch.trim();
  }
}

void give_weights(const SyntheticSpec& spec, CscGraph& csc, ThreadPool& pool) {
  csc.weights.resize(csc.indices.size());
  const IdSpan indices{.data = csc.indices.data(), .size = csc.num_edges(), .wide = true};
  make_edge_weights(spec, {.first = 0, .count = spec.nodes, .indptr = csc.indptr.data(), .indices = indices},
                    csc.weights.data(), pool);
}

}  // namespace

void build_structure(Graph& graph, const DrawnEdges& edges, const ReadOptions& options, bool add_reverse,
                     Assembly& assembly) {
  BuiltLists built = build_drawn_lists(
      graph.num_nodes(), edges,
      {.duplicates = options.duplicates, .self_loops = options.self_loops, .add_reverse = add_reverse},
      *assembly.scratch, assembly.pool);
  graph.cleaning = built.cleaning;
  graph.undirected = add_reverse || built.symmetric;
  assembly.lists = std::move(built.lists);
}

void check_direction(const SyntheticSpec& spec, const ReadOptions& options) {
  if (spec.kind == Kind::lognormal && options.direction == Direction::undirected)
    throw InputError("synthetic: kind=lognormal is directed",
                     "Use kind=sbm or kind=rmat for an undirected graph.");
  if (spec.kind == Kind::grid && options.direction == Direction::directed)
    throw InputError("synthetic: kind=grid is undirected", "Use kind=lognormal for a directed graph.");
}

void check_room(const SyntheticSpec& spec, double wanted_bytes) {
  const std::int64_t free = available_host_bytes();
  if (wanted_bytes > static_cast<double>(free))
    throw OutOfMemory(fmt::format("no room for the synthetic graph of {} nodes: wanted {}, free {}",
                                  format_count(spec.nodes),
                                  format_bytes(static_cast<std::int64_t>(std::min(wanted_bytes, 9e18))),
                                  format_bytes(free)),
                      "Ask for fewer nodes, edges or features, or for features of 16 bits (dtype=f16).");
}

ClassMeans class_means(const SyntheticSpec& spec) {
  ClassMeans means;
  if (!features_depend_on_class(spec.kind)) return means;
  const double blur = spec.noise * std::sqrt(2.0 * static_cast<double>(spec.features)) / 2;
  const double scale = 1 / std::sqrt(1 + blur * blur);
  means.blur = static_cast<float>(blur * scale);
  const KeyedWords words(spec.seed, Purpose::class_mean);
  means.values.resize(at(spec.classes * spec.features));
  for (std::size_t i = 0; i < means.values.size(); ++i)
    means.values[i] = near_normal(words(i)) * static_cast<float>(scale);
  return means;
}

FeatureFormula feature_formula(const SyntheticSpec& spec, const ClassMeans& means) {
  return {.words = KeyedWords(spec.seed, Purpose::feature),
          .cols = spec.features,
          .class_means = means.values.empty() ? nullptr : means.values.data(),
          .blur = means.blur};
}

Graph generate(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool) {
  Assembly assembly{.pool = pool};
  return generate(spec, options, assembly);
}

Graph generate(const SyntheticSpec& spec, const ReadOptions& options, Assembly& assembly) {
  ThreadPool& pool = assembly.pool;
  check_direction(spec, options);
  if (assembly.scratch == nullptr) check_room(spec, peak_bytes(spec));
  Graph graph;
  graph.name = synthetic_name(spec);
  graph.num_classes = spec.classes;
  switch (spec.kind) {
    case Kind::sbm:
      generate_sbm(spec, options, assembly, graph);
      break;
    case Kind::rmat:
      generate_rmat(spec, options, assembly, graph);
      break;
    case Kind::lognormal:
      generate_lognormal(spec, options, assembly, graph);
      break;
    case Kind::grid:
      generate_grid(spec, assembly, graph);
      break;
  }
  if (spec.weights != SyntheticSpec::Weights::none) {
    if (assembly.scratch != nullptr)
      give_weights(spec, assembly.lists, *assembly.scratch, pool);
    else
      give_weights(spec, graph.structure, pool);
  }
  if (spec.features > 0) {
    graph.features = make_features(spec, graph.labels, assembly);
    if (options.normalize_features) graph.features = normalized(graph.features, pool, assembly.scratch);
  }
  graph.splits = splits_of(spec, pool);
  return graph;
}

}  // namespace strata::graph
