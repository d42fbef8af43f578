// SPDX-License-Identifier: Apache-2.0
#include "strata/partition/build.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "output/part_output.hpp"
#include "output/relabel.hpp"
#include "output/staging.hpp"
#include "strata/graph/part_writer.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/format.hpp"
#include "strata/util/hash.hpp"
#include "strata/util/memory.hpp"
#include "strata/util/progress.hpp"
#include "version.hpp"

namespace strata::partition {
namespace {

template <typename T>
void hash_vector(Hasher& hasher, const std::vector<T>& values) {
  const std::uint64_t size = values.size();
  hasher.update(&size, sizeof size);
  hasher.update(values.data(), values.size() * sizeof(T));
}

/// The same for the same structure, weights, labels, splits and features' shape, however the nodes are
/// assigned to parts.
std::uint64_t hash_graph(const CompactGraph& structure, const graph::Graph& graph, DType feature_dtype) {
  Hasher hasher;
  hash_vector(hasher, structure.indptr);
  structure.indices.span().visit([&](const auto* ids) {
    hasher.update(ids, sizeof(*ids) * static_cast<std::size_t>(structure.indices.size()));
  });
  structure.edge_ids.span().visit([&](const auto* ids) {
    hasher.update(ids, sizeof(*ids) * static_cast<std::size_t>(structure.edge_ids.size()));
  });
  if (!structure.weights.empty()) hash_vector(hasher, structure.weights);
  hash_vector(hasher, graph.labels);
  hash_vector(hasher, graph.splits.train);
  hash_vector(hasher, graph.splits.valid);
  hash_vector(hasher, graph.splits.test);
  const Count rest[] = {graph.features.cols, static_cast<Count>(feature_dtype), graph.num_classes,
                        graph.multi_label, graph.undirected};
  hasher.update(rest, sizeof rest);
  return hasher.digest();
}

/// The same for the same graph and assignment, so that a repeated build gives the same bytes.
std::string build_id(std::uint64_t graph_hash, const std::vector<std::int32_t>& part_of, int num_parts) {
  Hasher hasher;
  hasher.update(&graph_hash, sizeof graph_hash);
  hash_vector(hasher, part_of);
  hasher.update(&num_parts, sizeof num_parts);
  return hex64(hasher.digest());
}

std::string graph_digest(std::uint64_t graph_hash, std::uint64_t feature_digest) {
  const std::uint64_t both[] = {graph_hash, feature_digest};
  return hex64(hash_bytes(both, sizeof both));
}

void check_graph(const graph::Graph& graph) {
  if (!graph.labels.empty() && std::ssize(graph.labels) != graph.num_nodes() * graph.label_words()) {
    throw InputError(fmt::format("graph: labels of {} words for {} nodes of {}", graph.labels.size(),
                                 graph.num_nodes(), graph.label_words()));
  }
  if (graph.features.cols > 0 && graph.features.rows != graph.num_nodes()) {
    throw InputError(
        fmt::format("graph: {} feature rows for {} nodes", graph.features.rows, graph.num_nodes()));
  }
  for (const auto* split : {&graph.splits.train, &graph.splits.valid, &graph.splits.test}) {
    for (std::size_t i = 0; i < split->size(); ++i) {
      const NodeId v = (*split)[i];
      if (v < 0 || v >= graph.num_nodes() || (i > 0 && v <= (*split)[i - 1])) {
        throw InputError(fmt::format("graph: node {} of a split is out of range or out of order", v));
      }
    }
  }
}

/// Refuses too many classes: a label that is an id, a time or damaged would make a class of every number
/// below it.
void check_classes(const graph::Graph& graph, Count most) {
  if (graph.labels.empty() || graph.num_classes <= most) return;
  const std::string remedy =
      fmt::format("Correct it; if there are that many classes, give --max-classes {}.", graph.num_classes);
  const auto largest = std::ranges::max_element(graph.labels);
  if (!graph.multi_label && *largest >= most) {
    throw InputError(
        fmt::format("graph \"{}\": node {} has label {}, which makes {} classes; at most {} are expected",
                    graph.name, largest - graph.labels.begin(), *largest, format_count(graph.num_classes),
                    format_count(most)),
        remedy);
  }
  throw InputError(fmt::format("graph \"{}\": its metadata tell of {} classes; at most {} are expected",
                               graph.name, format_count(graph.num_classes), format_count(most)),
                   remedy);
}

graph::Manifest make_manifest(const graph::Graph& graph, const CompactGraph& structure,
                              const Relabeling& relabeling, const BuildOptions& options, std::string id) {
  return {.name = graph.name,
          .build_id = std::move(id),
          .book = graph::PartitionBook{relabeling.offsets},
          .num_edges = structure.num_edges(),
          .undirected = graph.undirected,
          .has_edge_weights = !structure.weights.empty(),
          .feature_cols = graph.features.cols,
          .feature_dtype = options.feature_dtype,
          .num_classes = graph.num_classes,
          .has_labels = !graph.labels.empty(),
          .multi_label = graph.multi_label,
          .num_train = static_cast<Count>(graph.splits.train.size()),
          .num_valid = static_cast<Count>(graph.splits.valid.size()),
          .num_test = static_cast<Count>(graph.splits.test.size())};
}

std::vector<graph::ConstraintRecord> measure_constraints(const CompactGraph& structure,
                                                         const graph::Splits& splits,
                                                         const std::vector<std::int32_t>& part_of,
                                                         const AssignOptions& options) {
  std::vector<graph::ConstraintRecord> records;
  for (const Constraint constraint : {Constraint::nodes, Constraint::edges, Constraint::train}) {
    const auto asked =
        std::find(options.balance.begin(), options.balance.end(), constraint) != options.balance.end();
    std::vector<Count> weights(static_cast<std::size_t>(options.num_parts));
    const std::vector<std::int32_t> of_node = weights_of(constraint, structure, splits.train);
    for (std::size_t v = 0; v < of_node.size(); ++v)
      weights[static_cast<std::size_t>(part_of[v])] += of_node[v];
    records.push_back({name_of(constraint), asked && looks_for_few_cut_edges(options.method),
                       options.imbalance, std::move(weights)});
  }
  return records;
}

void warn_of_imbalance(const std::vector<graph::ConstraintRecord>& constraints) {
  for (const graph::ConstraintRecord& c : constraints) {
    if (!c.balanced || c.balance() <= 1 + c.imbalance + 1e-9) continue;
    spdlog::warn(
        "the fullest part has {:.1f} % more {} than the mean, {:.1f} % were asked: single nodes may weigh "
        "too much",
        100 * (c.balance() - 1), c.name, 100 * c.imbalance);
  }
}

/// Checks that the disk has room for the data, before METIS takes its time.
void check_disk(const std::filesystem::path& directory, const graph::Graph& graph,
                const CompactGraph& structure, const BuildOptions& options) {
  const Count row_bytes =
      8 + 8 + 4 + graph.features.cols * static_cast<Count>(size_of(options.feature_dtype));
  const Count edge_bytes = structure.weights.empty() ? 16 : 20;
  const Count wanted = structure.num_edges() * edge_bytes + graph.num_nodes() * row_bytes;
  if (const Count room = free_disk_bytes(directory); room < wanted) {
    throw IoError(fmt::format("{}: the disk is full: the parts take {}, {} are free", directory.string(),
                              format_bytes(wanted), format_bytes(room)),
                  "Free some space, choose another folder, or store features as bf16 (--features bf16).");
  }
}

}  // namespace

Phase PhaseClock::end(std::string name) {
  const auto now = std::chrono::steady_clock::now();
  const std::clock_t cpu_now = std::clock();
  Phase phase{std::move(name), std::chrono::duration<double>(now - start_).count(),
              static_cast<double>(cpu_now - cpu_start_) / CLOCKS_PER_SEC, peak_resident_bytes()};
  start_ = now;
  cpu_start_ = cpu_now;
  return phase;
}

std::filesystem::path names_file(const std::filesystem::path& output) {
  const bool slash = !output.has_filename();
  return (slash ? output.parent_path() : output).string() + ".ids.txt";
}

void check_output(const BuildOptions& options) { refuse_output(options.output, options.force); }

BuildReport build(graph::Graph graph, const BuildOptions& options, StopFlag& stop) {
  check_output(options);
  check_graph(graph);
  check_classes(graph, options.max_classes);
  BuildReport report;
  PhaseClock clock;
  ThreadPool pool{options.num_threads};
  announce(fmt::format("compacting {} edges", format_count(graph.structure.num_edges())));
  const CompactGraph structure = compact(std::move(graph.structure), pool);
  graph.structure = {};
  graph.structure.num_nodes = structure.num_nodes;
  check_disk(folder_of(options.output), graph, structure, options);
  report.phases.push_back(clock.end("compact"));

  announce(fmt::format("assigning {} nodes to {} parts ({})", format_count(graph.num_nodes()),
                       options.assign.num_parts, name_of(options.assign.method)));
  const std::vector<std::int32_t> part_of = assign_parts(structure, graph.splits.train, options.assign, pool);
  report.phases.push_back(clock.end("assign"));
  stop.check();

  announce("relabeling nodes");
  const Relabeling relabeling =
      relabel(part_of, options.assign.num_parts, occurrences(structure, pool), pool);
  graph::PartitionRecord& record = report.record;
  const std::uint64_t graph_hash = hash_graph(structure, graph, options.feature_dtype);
  record.manifest = make_manifest(graph, structure, relabeling, options,
                                  build_id(graph_hash, part_of, options.assign.num_parts));
  record.constraints = measure_constraints(structure, graph.splits, part_of, options.assign);
  record.build = {.program = "strata-partition " + program_version(),
                  .input = options.input,
                  .method = name_of(options.assign.method),
                  .seed = options.assign.seed,
                  .cleaning = graph.cleaning};
  warn_of_imbalance(record.constraints);
  report.phases.push_back(clock.end("relabel"));

  announce(fmt::format("writing {} parts to {}", options.assign.num_parts, options.output.string()));
  StagingDirectory staging{options.output, options.force, stop};
  WrittenParts written = write_parts(staging.path(),
                                     {.structure = structure,
                                      .features = graph.features,
                                      .labels = graph.labels,
                                      .splits = graph.splits,
                                      .relabeling = relabeling,
                                      .manifest = record.manifest},
                                     pool, stop);
  record.parts = std::move(written.records);
  record.graph_digest = graph_digest(graph_hash, written.feature_digest);
  write_manifest(staging.path(), record);
  stop.check();
  if (!graph.node_names.empty()) {
    write_file_atomically(names_file(options.output), graph.node_names);
    spdlog::info("the names of the nodes are in {}, one per line", names_file(options.output).string());
  }
  staging.publish();
  report.phases.push_back(clock.end("write"));
  return report;
}

}  // namespace strata::partition
