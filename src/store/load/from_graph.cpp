// SPDX-License-Identifier: Apache-2.0
#include "load/from_graph.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "load/feature_rows.hpp"
#include "load/held_edges.hpp"
#include "load/loop_degrees.hpp"
#include "load/train_edges.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::store {
namespace {

constexpr Count kPiece = Count{1} << 20;  // elements that are moved before their source is freed

/// Returns the whole pages of a consumed buffer to the system. Its contents are lost, but the buffer stays
/// allocated.
void release_pages(const void* data, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

/// Copies with a change of width, returns the source's pages piece by piece, and frees it.
template <typename From, typename To>
void consume(std::vector<From>& source, To* out) {
  const Count size = std::ssize(source);
  for (Count first = 0; first < size; first += kPiece) {
    const Count count = std::min(kPiece, size - first);
    const From* from = source.data() + first;
    std::transform(from, from + count, out + first, [](From v) { return static_cast<To>(v); });
    release_pages(from, at(count) * sizeof(From));
  }
  std::vector<From>().swap(source);
}

/// The numbers of a graph that all ranks need.
struct Header {
  Count num_nodes = 0, num_edges = 0, feature_cols = 0, num_classes = 0;
  Count num_train = 0, num_valid = 0, num_test = 0, name_bytes = 0, types_bytes = 0, target_cols = 0;
  Count num_valid_edges = 0, num_test_edges = 0;
  Count sublists = 0, most_sublists = 0, num_relations = 1;
  DType feature_dtype = DType::f32;
  bool undirected = false, has_labels = false, multi_label = false, has_edge_ids = false,
       has_edge_weights = false;
};

Header header_of(const graph::Graph& graph) {
  return {.num_nodes = graph.num_nodes(),
          .num_edges = graph.structure.num_edges(),
          .feature_cols = graph.features.cols,
          .num_classes = graph.num_classes,
          .num_train = std::ssize(graph.splits.train),
          .num_valid = std::ssize(graph.splits.valid),
          .num_test = std::ssize(graph.splits.test),
          .name_bytes = std::ssize(graph.name),
          .types_bytes = std::ssize(graph::format_types(graph.types)),
          .target_cols = graph.target_cols,
          .num_valid_edges = graph.edge_splits.valid.size(),
          .num_test_edges = graph.edge_splits.test.size(),
          .sublists = graph.types.edges.size() > 1 ? graph.structure.sublists.size() : 0,
          .most_sublists = graph::most_of_a_node(graph.structure.sublists),
          .num_relations = std::ssize(graph.types.edges),
          .feature_dtype = graph.features.dtype,
          .undirected = graph.undirected,
          .has_labels = !graph.labels.empty(),
          .multi_label = graph.multi_label,
          .has_edge_ids = !graph.structure.edge_ids.empty(),
          .has_edge_weights = !graph.structure.weights.empty()};
}

graph::Manifest manifest_of(const Header& header, const std::string& name, const std::string& types) {
  return {.name = name,
          .build_id = {},
          .book = graph::PartitionBook({0, header.num_nodes}),
          .num_edges = header.num_edges,
          .types = graph::parse_types(types),
          .undirected = header.undirected,
          .has_edge_weights = header.has_edge_weights,
          .feature_cols = header.feature_cols,
          .feature_dtype = header.feature_dtype,
          .num_classes = header.num_classes,
          .has_labels = header.has_labels,
          .multi_label = header.multi_label,
          .num_train = header.num_train,
          .num_valid = header.num_valid,
          .num_test = header.num_test,
          .num_valid_edges = header.num_valid_edges,
          .num_test_edges = header.num_test_edges};
}

void check_graph(const graph::Graph* graph, const comm::Machine& machine, const LoadOptions& options) {
  if ((graph != nullptr) != (machine.rank() == 0)) {
    throw Error("the first rank of the machine must give the graph, and no other");
  }
  if (graph == nullptr) return;
  if (graph->structure.sublists.size() > 0 && graph->num_nodes() > std::numeric_limits<std::int32_t>::max())
    throw InputError("a graph of several relations may have at most 2^31 - 1 nodes per machine");
  if (options.edge_ids && graph->structure.edge_ids.empty() && graph->structure.num_edges() > 0) {
    throw InputError(fmt::format("the graph \"{}\" has no edge ids", graph->name));
  }
  if (graph->features.cols > 0 && graph->features.rows != graph->num_nodes()) {
    throw InputError(fmt::format("the graph \"{}\" has {} nodes, but {} rows of features", graph->name,
                                 graph->num_nodes(), graph->features.rows));
  }
}

/// Tells all ranks the header of the first one's graph.
Header share_header(const graph::Graph* graph, const comm::Communicator& communicator) {
  Header header = graph ? header_of(*graph) : Header();
  communicator.broadcast(&header, sizeof(header), 0);
  return header;
}

/// The same of the name, the types and the scales of targets.
graph::Manifest share_manifest(const graph::Graph* graph, const Header& header,
                               const comm::Communicator& communicator) {
  std::string name = graph ? graph->name : std::string(at(header.name_bytes), ' ');
  communicator.broadcast(name.data(), header.name_bytes, 0);
  std::string types = graph ? graph::format_types(graph->types) : std::string(at(header.types_bytes), ' ');
  communicator.broadcast(types.data(), header.types_bytes, 0);
  graph::Manifest manifest = manifest_of(header, name, types);
  manifest.targets =
      graph ? graph::target_scales(*graph) : std::vector<graph::TargetScale>(at(header.target_cols));
  communicator.broadcast(manifest.targets.data(),
                         header.target_cols * static_cast<Count>(sizeof(graph::TargetScale)), 0);
  return manifest;
}

void move_in(graph::Sublists& sublists, const GraphRegions& regions) {
  for (Count v = 0; v < regions.sizes.num_nodes; ++v)
    std::fill(regions.sublist_nodes.data() + sublists.first[at(v)],
              regions.sublist_nodes.data() + sublists.first[at(v) + 1], static_cast<std::int32_t>(v));
  consume(sublists.first, regions.sublist_first.data());
  consume(sublists.begins, regions.sublist_begins.data());
  consume(sublists.relations, regions.sublist_relations.data());
}

void move_in(graph::Graph& graph, const GraphRegions& regions) {
  const plan::RegionSizes& sizes = regions.sizes;
  if (sizes.in_degrees) {
    for (Count v = 0; v < sizes.num_nodes; ++v) {
      const auto i = at(v);
      regions.in_degrees.data()[v] =
          static_cast<std::int32_t>(graph.structure.indptr[i + 1] - graph.structure.indptr[i]);
    }
  }
  if (sizes.num_relations > 1) move_in(graph.structure.sublists, regions);
  consume(graph.structure.indptr, regions.indptr.data());
  regions.indices.visit([&](auto* out) { consume(graph.structure.indices, out); });
  if (sizes.edge_ids) consume(graph.structure.edge_ids, regions.edge_ids.data());
  std::vector<EdgeId>().swap(graph.structure.edge_ids);
  if (sizes.weights) consume(graph.structure.weights, regions.weights.data());
  std::vector<float>().swap(graph.structure.weights);
  regions.original_ids.visit([&](auto* out) { std::iota(out, out + sizes.num_nodes, 0); });
  consume(graph.labels, regions.labels.data());
  consume(graph.splits.train, regions.train.data());
  consume(graph.splits.valid, regions.valid.data());
  consume(graph.splits.test, regions.test.data());
  write_held_edges(std::exchange(graph.edge_splits, {}), regions);
}

/// Reads each row once, and returns its memory if nobody else holds the table.
FeatureSource source_of(const graph::Graph* graph) {
  FeatureSource source{.read = nullptr, .describe = nullptr, .on_first_rank_only = true};
  if (graph == nullptr) return source;
  const graph::FeatureTable& table = graph->features;
  source.read = [&table](Count first, Count count, std::byte* out) {
    const std::byte* rows = table.data + at(first) * table.row_bytes();
    const std::size_t bytes = at(count) * table.row_bytes();
    std::memcpy(out, rows, bytes);
    if (table.keep_alive.use_count() == 1) release_pages(rows, bytes);
  };
  source.describe = [graph](Count row) { return fmt::format("graph \"{}\": node {}", graph->name, row); };
  return source;
}

}  // namespace

plan::RegionSizes whole_sizes(const graph::Manifest& manifest, const LoadOptions& options) {
  const Count num_nodes = manifest.book.num_nodes();
  return {.num_nodes = num_nodes,
          .first_node = 0,
          .num_local = num_nodes,
          .local_edges = manifest.num_edges,
          .num_train = manifest.num_train,
          .local_valid = manifest.num_valid,
          .local_test = manifest.num_test,
          .num_valid_edges = manifest.num_valid_edges,
          .num_test_edges = manifest.num_test_edges,
          .edge_ids = options.edge_ids,
          .weights = options.edge_weights,
          .in_degrees = options.in_degrees,
          .label_words = manifest.has_labels ? manifest.label_words() : 0};
}

plan::FeatureShape whole_features(const graph::Manifest& manifest, plan::FeatureFormat format) {
  plan::FeatureShape features = plan::shape_in_memory(manifest, format);
  features.part_rows = {manifest.book.num_nodes()};
  return features;
}

WholeSource::WholeSource(const comm::Machine& machine, const LoadOptions& options)
    : GraphSource(machine, options) {}

void WholeSource::take(graph::Graph* graph) {
  machine_.together([&] { check_graph(graph, machine_, options_); });
  const Header header = share_header(graph, machine_.communicator());
  state_->manifest = share_manifest(graph, header, machine_.communicator());
  check_options(state_->manifest, options_);
  plan::RegionSizes sizes = whole_sizes(state_->manifest, options_);
  sizes.sublists = header.sublists;
  sizes.most_sublists = header.most_sublists;
  sizes.num_relations = static_cast<int>(header.num_relations);
  state_->regions.emplace(GraphRegions::create(machine_, sizes));
  machine_.together([&] {
    if (graph) move_in(*graph, *state_->regions);
  });
  complete();
}

void WholeSource::complete() {
  features_ = whole_features(state_->manifest, options_.feature_format);
  const Count num_nodes = state_->manifest.book.num_nodes();
  list_parts_ = {num_nodes};
  state_->machine_offsets = {0, num_nodes};
  if (options_.in_degrees && !options_.degrees_of_loops)
    leave_loops_out(*state_->regions, machine_, machine_.communicator());
  if (options_.edge_split) {
    hold_out_edges(*state_->regions, *options_.edge_split, state_->manifest, machine_,
                   machine_.communicator());
    count_degrees(*state_->regions, machine_, machine_.communicator(), options_.degrees_of_loops);
  }
  if (!options_.train_edges_only) return;
  const graph::GraphTypes& types = state_->manifest.types;
  state_->whole.emplace(keep_train_edges(*state_->regions, types, machine_));
  const auto count = types.several() ? count_degrees : count_train_degrees;
  count(*state_->regions, machine_, machine_.communicator(), options_.degrees_of_loops);
}

namespace {

class MemorySource : public WholeSource {
 public:
  MemorySource(std::unique_ptr<graph::Graph> graph, const comm::Machine& machine, const LoadOptions& options)
      : WholeSource(machine, options), graph_(std::move(graph)) {
    take(graph_.get());
  }

  void fill() override {
    const tensor::TensorSpec& spec = state_->features->spec();
    ProgressBar progress("place features", spec.rows * state_->manifest.feature_row_bytes(), "B",
                         graph_ != nullptr);
    ThreadPool pool(graph_ != nullptr ? comm::resources_of(machine_).cores_alone : 1);
    fill_features(
        machine_, *state_->features,
        {source_of(graph_.get()), {type_of_rows(state_->manifest), options_.row_normalize}, progress, pool});
    graph_.reset();
  }

 private:
  std::unique_ptr<graph::Graph> graph_;
};

}  // namespace

OpenGraph OpenGraph::of_graph(std::unique_ptr<graph::Graph> graph, const comm::Machine& machine,
                              const LoadOptions& options) {
  return OpenGraph(std::make_unique<MemorySource>(std::move(graph), machine, options));
}

}  // namespace strata::store
