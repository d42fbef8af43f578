// SPDX-License-Identifier: Apache-2.0
#include "generators/igbh.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "readers/columns.hpp"
#include "readers/typed_graph.hpp"
#include "strata/graph/synthetic.hpp"

namespace strata::graph {
namespace {

constexpr const char* kName = "synthetic-igbh";
constexpr Count kDrawsPerPiece = Count{1} << 14, kRowsAtOnce = 256, kLeastNodes = 16, kPaperClasses = 2983;
constexpr double kTrainPapers = 0.351, kValidPapers = 0.117, kTestPapers = 0.117;  // of the papers

struct IgbhType {
  const char* name;
  Count count;
};
constexpr std::size_t kPapers = 5;
constexpr std::array kTypes = {IgbhType{"author", 277'220'883}, IgbhType{"conference", 4'547},
                               IgbhType{"fos", 712'960},        IgbhType{"institute", 26'918},
                               IgbhType{"journal", 49'052},     IgbhType{"paper", 269'346'174}};

/// A relation whose sources are uniform, and whose destinations are skewed.
struct IgbhRelation {
  std::size_t source;
  const char* name;
  std::size_t destination;
  Count count;
};
/// Citations are listed in both directions, and each other relation has one in the other direction.
constexpr std::array kRelations = {
    IgbhRelation{kPapers, "cites", kPapers, 7'992'884'008}, IgbhRelation{kPapers, "topic", 2, 1'050'280'600},
    IgbhRelation{kPapers, "written_by", 0, 716'761'549},    IgbhRelation{kPapers, "published", 4, 93'524'353},
    IgbhRelation{0, "affiliated_to", 3, 48'521'486},        IgbhRelation{kPapers, "venue", 1, 5'101'478}};

Count share_of(Count count, double scale) {
  return static_cast<Count>(std::floor(static_cast<double>(count) * scale));
}
Count nodes_of_type(const IgbhType& type, double scale) {
  return std::max(kLeastNodes, share_of(type.count, scale));
}

/// Memory for ids, or a scratch file of them.
template <typename Id>
std::shared_ptr<Id> room_for(Count ids, ScratchStore* scratch) {
  if (scratch == nullptr) return {new Id[at(ids)], std::default_delete<Id[]>()};
  ScratchFile file(*scratch);
  file.reserve(at(ids) * sizeof(Id));
  const std::shared_ptr<std::byte> mapped = std::move(file).map();
  return {mapped, reinterpret_cast<Id*>(mapped.get())};
}

/// Draws the edges of a relation; with `both`, the second half is the first one in the other direction.
template <typename Id>
TypedParts::Edges draw(const IgbhRelation& relation, const DatasetSource& source, bool both,
                       Assembly& assembly) {
  const auto number = static_cast<std::uint64_t>(&relation - kRelations.data());
  const KeyedWords words(mix64(source.seed) + number, Purpose::edge);
  const IgbhType &from = kTypes[relation.source], &to = kTypes[relation.destination];
  const auto from_nodes = static_cast<double>(nodes_of_type(from, source.scale)),
             to_nodes = static_cast<double>(nodes_of_type(to, source.scale));
  const Count drawn = share_of(relation.count, source.scale) / (both ? 2 : 1),
              count = both ? 2 * drawn : drawn;
  const std::shared_ptr<Id> ends = room_for<Id>(2 * count, assembly.scratch);
  Id *const sources = ends.get(), *const destinations = sources + count;
  assembly.pool.parallel_for(drawn, kDrawsPerPiece, [&](Count begin, Count end) {
    for (Count e = begin; e < end; ++e) {
      const double u = words.unit(static_cast<std::uint64_t>(2 * e)),
                   v = words.unit(static_cast<std::uint64_t>(2 * e + 1));
      sources[e] = static_cast<Id>(u * from_nodes);
      destinations[e] = static_cast<Id>(v * v * to_nodes);
      if (!both) continue;
      sources[drawn + e] = destinations[e];
      destinations[drawn + e] = sources[e];
    }
    if (assembly.scratch != nullptr) assembly.scratch->trim();
  });
  return {.type = {from.name, relation.name, to.name},
          .list = {.sources = sources,
                   .destinations = destinations,
                   .count = count,
                   .wide = sizeof(Id) == sizeof(std::int64_t),
                   .origin = "synthetic:igbh"},
          .owners = {ends}};
}

TypedParts draw_parts(const DatasetSource& source, Assembly& assembly) {
  TypedParts parts{.name = kName, .nodes = {}, .edges = {}};
  for (const IgbhType& type : kTypes)
    parts.nodes.push_back({.type = type.name, .count = nodes_of_type(type, source.scale)});
  static_assert(kTypes[0].count < std::numeric_limits<std::int32_t>::max());
  for (const IgbhRelation& relation : kRelations)
    parts.edges.push_back(
        draw<std::int32_t>(relation, source, relation.source == relation.destination, assembly));
  TypedParts reversed{.name = {}, .nodes = {}, .edges = {parts.edges.begin() + 1, parts.edges.end()}};
  add_reverses(reversed);
  parts.edges.resize(1);
  std::ranges::move(reversed.edges, std::back_inserter(parts.edges));
  return parts;
}

/// The papers as a graph of their own.
SyntheticSpec papers_of(const DatasetSource& source) {
  const Count papers = nodes_of_type(kTypes[kPapers], source.scale);
  return {.kind = SyntheticSpec::Kind::lognormal,
          .nodes = papers,
          .features = source.cols,
          .classes = std::min(kPaperClasses, papers),
          .dtype = source.dtype,
          .train = share_of(papers, kTrainPapers),
          .valid = share_of(papers, kValidPapers),
          .test = share_of(papers, kTestPapers),
          .seed = source.seed};
}

template <typename Out, typename Convert>
void fill_rows(const Graph& graph, const FeatureFormula& papers, const FeatureFormula& others, Out* out,
               Convert convert, Assembly& assembly) {
  assembly.pool.parallel_for(graph.num_nodes(), kRowsAtOnce, [&](Count begin, Count end) {
    for (Count row = begin; row < end; ++row) {
      const std::int32_t label = graph.labels[at(row)];
      const FeatureFormula& formula = label < 0 ? others : papers;
      for (Count col = 0; col < papers.cols; ++col)
        out[row * papers.cols + col] = convert(formula(row, col, label));
    }
    if (assembly.scratch != nullptr) assembly.scratch->trim();
  });
}

FeatureTable make_rows(const Graph& graph, SyntheticSpec papers, Assembly& assembly) {
  const FeatureFormula others = feature_formula(papers, {});
  papers.kind = SyntheticSpec::Kind::sbm;  // whose features depend on classes
  const ClassMeans means = class_means(papers);
  const FeatureFormula of_papers = feature_formula(papers, means);
  FeatureMemory memory =
      allocate_features(graph.num_nodes(), papers.features, papers.dtype, assembly.scratch);
  if (papers.dtype == DType::f32)
    fill_rows(
        graph, of_papers, others, reinterpret_cast<float*>(memory.bytes), [](float x) { return x; },
        assembly);
  else
    fill_rows(graph, of_papers, others, reinterpret_cast<std::uint16_t*>(memory.bytes), f32_to_f16, assembly);
  return memory.table;
}

}  // namespace

Description describe_igbh(const DatasetSource& source) {
  const SyntheticSpec papers = papers_of(source);
  Manifest m;
  m.name = kName;
  m.types = {.nodes = {}, .edges = {}, .node_offsets = {0}, .edge_offsets = {0}};
  for (const IgbhType& type : kTypes) {
    m.types.nodes.emplace_back(type.name);
    m.types.node_offsets.push_back(m.types.node_offsets.back() + nodes_of_type(type, source.scale));
  }
  std::vector<double> source_skew;
  const auto add = [&](const EdgeType& type, Count edges, double skew) {
    source_skew.push_back(skew);
    m.types.edges.push_back(type);
    m.types.edge_offsets.push_back(m.num_edges += edges);
  };
  for (const IgbhRelation& r : kRelations)
    add({kTypes[r.source].name, r.name, kTypes[r.destination].name}, share_of(r.count, source.scale),
        r.source == r.destination ? 0.5 : 0);
  for (const IgbhRelation& r : std::span(kRelations).subspan(1))
    add({kTypes[r.destination].name, std::string("rev_") + r.name, kTypes[r.source].name},
        share_of(r.count, source.scale), 1);
  m.feature_cols = source.cols;
  m.feature_dtype = source.dtype;
  m.has_labels = true;
  m.num_classes = papers.classes;
  m.num_train = papers.train;
  m.num_valid = papers.valid;
  m.num_test = papers.test;
  return {.manifest = std::move(m), .target = kPapers, .source_skew = std::move(source_skew)};
}

Graph generate_igbh(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  constexpr double kBytesPerEdge = 16 + 8, kBytesPerSortedEdge = 16;
  const Description size = describe_igbh(source);
  const SyntheticSpec papers = papers_of(source);
  SyntheticSpec all = papers;
  all.nodes = size.num_nodes();
  const double sorted = static_cast<double>(share_of(kRelations[0].count, source.scale));
  if (assembly.scratch == nullptr)
    check_room(
        all,
        kBytesPerEdge * static_cast<double>(size.manifest.num_edges) + kBytesPerSortedEdge * sorted +
            static_cast<double>(size.num_nodes() * source.cols) * static_cast<double>(size_of(source.dtype)));
  ThreadPool& pool = assembly.pool;
  Graph graph = join_types(draw_parts(source, assembly), options, assembly);
  Graph nodes = nodes_of(graph, kPapers);
  nodes.labels.resize(at(papers.nodes));
  random_labels(papers, 0, nodes.labels, pool);
  nodes.num_classes = papers.classes;
  nodes.splits.train.resize(at(papers.train));
  nodes.splits.valid.resize(at(papers.valid));
  nodes.splits.test.resize(at(papers.test));
  make_splits(papers,
              {.train = nodes.splits.train.data(),
               .valid = nodes.splits.valid.data(),
               .test = nodes.splits.test.data()},
              pool);
  put_nodes(std::move(nodes), kPapers, graph);
  if (source.cols > 0) graph.features = make_rows(graph, papers, assembly);
  assembly.targets = {kPapers};
  return graph;
}

}  // namespace strata::graph
