// SPDX-License-Identifier: Apache-2.0
#include "strata/partition/build.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "assign/memory_plan.hpp"
#include "inspect/describe_types.hpp"
#include "output/feature_rows.hpp"
#include "output/part_output.hpp"
#include "output/relabel.hpp"
#include "output/staging.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"
#include "version.hpp"

namespace strata::partition {
namespace {

template <typename T>
void hash_vector(Hasher& hasher, const std::vector<T>& values) {
  const std::uint64_t size = values.size();
  hasher.update(&size, sizeof size);
  hasher.update(values.data(), values.size() * sizeof(T));
}

/// Hashes values and releases their pages, in case the graph lies in scratch files.
template <typename T>
void hash_stored(Hasher& hasher, const T* values, Count count, const CompactGraph& structure) {
  constexpr Count kPiece = Count{1} << 20;
  for (Count first = 0; first < count; first += kPiece) {
    hasher.update(values + first, sizeof(T) * at(std::min(kPiece, count - first)));
    structure.release_pages();
  }
}

void hash_ids(Hasher& hasher, IdSpan ids, const CompactGraph& structure) {
  ids.visit([&](const auto* values) { hash_stored(hasher, values, ids.size, structure); });
}

void hash_held(Hasher& hasher, const graph::EdgeSplits& splits) {
  for (const graph::HeldEdges* const edges : {&splits.valid, &splits.test})
    for (const auto* const ids : {&edges->sources, &edges->destinations, &edges->edge_ids})
      hash_vector(hasher, *ids);
}

/// A hash of structure, weights, labels, splits and features' shape, however the nodes are
/// assigned to parts.
std::uint64_t hash_graph(const CompactGraph& structure, const graph::Graph& graph,
                         const BuildOptions& options) {
  Hasher hasher;
  hash_vector(hasher, structure.indptr);
  hash_ids(hasher, structure.indices.span(), structure);
  hash_ids(hasher, structure.edge_ids.span(), structure);
  if (const std::span<const float> weights = structure.weights(); !weights.empty()) {
    const std::uint64_t size = weights.size();
    hasher.update(&size, sizeof size);
    hash_stored(hasher, weights.data(), std::ssize(weights), structure);
  }
  hash_vector(hasher, graph.labels);
  hash_vector(hasher, graph.splits.train);
  hash_vector(hasher, graph.splits.valid);
  hash_vector(hasher, graph.splits.test);
  if (graph.edge_splits.any()) hash_held(hasher, graph.edge_splits);
  const Count rest[] = {graph.features.cols, static_cast<Count>(options.feature_dtype), graph.num_classes,
                        graph.multi_label, graph.undirected};
  hasher.update(rest, sizeof rest);
  if (graph.target_cols > 0) hasher.update(&graph.target_cols, sizeof graph.target_cols);
  if (graph.types.typed()) {
    const std::string types = graph::format_types(graph.types);
    hasher.update(types.data(), types.size());
  }
  if (const RowCode& code = options.feature_code) {
    hasher.update(&code.kind, sizeof code.kind);
    if (code.codebooks) hash_vector(hasher, *code.codebooks);
  }
  return hasher.digest();
}

/// The part and cluster of every node, by original id.
struct Assignment {
  std::vector<std::int32_t> part_of, cluster_of;  ///< clusters may be empty: none
};

/// An id that depends only on graph and assignment, so that a repeated build gives the same bytes.
std::string build_id(std::uint64_t graph_hash, const Assignment& assignment, int num_parts) {
  Hasher hasher;
  hasher.update(&graph_hash, sizeof graph_hash);
  hash_vector(hasher, assignment.part_of);
  hasher.update(&num_parts, sizeof num_parts);
  if (!assignment.cluster_of.empty()) hash_vector(hasher, assignment.cluster_of);
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
  const std::vector<NodeId>& types = graph.types.node_offsets;
  if (graph.types.several() && (types.size() != graph.types.nodes.size() + 1 || types.front() != 0 ||
                                types.back() != graph.num_nodes() || !std::ranges::is_sorted(types)))
    throw InputError(fmt::format("graph: its types do not divide the {} nodes", graph.num_nodes()));
  if (graph.features.cols > 0 && graph.features.rows != graph.num_nodes()) {
    throw InputError(
        fmt::format("graph: {} feature rows for {} nodes", graph.features.rows, graph.num_nodes()));
  }
  if (std::ssize(graph.node_weights.values) != graph.num_nodes() * graph.node_weights.kinds)
    throw InputError(fmt::format("graph: {} weights for {} nodes, of {} kinds",
                                 graph.node_weights.values.size(), graph.num_nodes(),
                                 graph.node_weights.kinds));
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
  if (graph.labels.empty() || graph.target_cols > 0 || graph.num_classes <= most) return;
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
  throw InputError(fmt::format("graph \"{}\": its metadata have {} classes; at most {} are expected",
                               graph.name, format_count(graph.num_classes), format_count(most)),
                   remedy);
}

void check_before_work(const graph::Graph& graph, const BuildOptions& options) {
  check_output(options);
  if (!graph.node_names.empty()) check_names_file(options);
  check_graph(graph);
  check_classes(graph, options.max_classes);
  check_num_nodes(graph.num_nodes(), options.assign);
  check_node_weights(graph.node_weights.kinds, options.assign);
  check_types(graph.types, options.assign);
  if (options.replicate_below && graph.types.nodes.size() == 1)
    throw InputError(fmt::format("--replicate-below {} is about types of nodes, and the graph has one",
                                 *options.replicate_below),
                     "Leave it out.");
}

graph::Manifest make_manifest(const graph::Graph& graph, const CompactGraph& structure,
                              const Relabeling& relabeling, const BuildOptions& options, std::string id) {
  graph::Manifest manifest{.name = graph.name,
                           .build_id = std::move(id),
                           .book = graph::PartitionBook{relabeling.offsets},
                           .num_edges = structure.num_edges(),
                           .types = graph.types,
                           .undirected = graph.undirected,
                           .has_edge_weights = !structure.weights().empty(),
                           .feature_cols = graph.features.cols,
                           .feature_dtype = options.feature_dtype,
                           .feature_code = options.feature_code,
                           .num_classes = graph.num_classes,
                           .has_labels = !graph.labels.empty(),
                           .multi_label = graph.multi_label,
                           .targets = target_scales(graph),
                           .num_train = static_cast<Count>(graph.splits.train.size()),
                           .num_valid = static_cast<Count>(graph.splits.valid.size()),
                           .num_test = static_cast<Count>(graph.splits.test.size()),
                           .num_valid_edges = graph.edge_splits.valid.size(),
                           .num_test_edges = graph.edge_splits.test.size(),
                           .num_clusters = options.assign.clusters};
  manifest.replicated_types = graph::types_to_replicate(manifest, options.replicate_below);
  return manifest;
}

std::vector<graph::ConstraintRecord> measure_constraints(const CompactGraph& structure,
                                                         const graph::Splits& splits,
                                                         const std::vector<std::int32_t>& part_of,
                                                         const AssignOptions& options) {
  std::vector<graph::ConstraintRecord> records;
  for (const Constraint constraint :
       {Constraint::nodes, Constraint::edges, Constraint::train, Constraint::weights, Constraint::types}) {
    const auto asked =
        std::find(options.balance.begin(), options.balance.end(), constraint) != options.balance.end();
    for (int kind = 0; kind < kinds_of(constraint, structure); ++kind) {
      std::vector<Count> weights(at(options.num_parts));
      const std::vector<std::int32_t> of_node = weights_of(constraint, structure, splits.train, kind);
      for (std::size_t v = 0; v < of_node.size(); ++v) weights[at(part_of[v])] += of_node[v];
      records.push_back({name_of(constraint, structure, kind),
                         asked && looks_for_few_cut_edges(options.method), options.imbalance,
                         std::move(weights)});
    }
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

/// Checks that the disk has space for the data, before METIS takes its time.
void check_disk(const std::filesystem::path& directory, const graph::Graph& graph,
                const CompactGraph& structure, const BuildOptions& options) {
  const Count feature_bytes = options.feature_code
                                  ? options.feature_code.row_bytes()
                                  : graph.features.cols * static_cast<Count>(size_of(options.feature_dtype));
  const Count row_bytes = 8 + 8 + 4 + (options.assign.clusters > 0 ? 4 : 0) + feature_bytes;
  const Count edge_bytes = structure.weights().empty() ? 16 : 20;
  const Count wanted = structure.num_edges() * edge_bytes + graph.num_nodes() * row_bytes;
  if (const Count room = free_disk_bytes(directory); room < wanted) {
    throw IoError(fmt::format("{}: the disk is full: the parts take {}, {} are free", directory.string(),
                              format_bytes(wanted), format_bytes(room)),
                  "Free some space, choose another folder, or store features in fewer bytes (--features "
                  "bf16, i8, e4m3 or i4).");
  }
}

std::vector<Count> degree_histogram(const CompactGraph& graph) {
  std::vector<Count> nodes;
  for (NodeId v = 0; v < graph.num_nodes; ++v) {
    const auto bin = at(std::bit_width(static_cast<std::uint64_t>(graph.in_degree(v))));
    if (bin >= nodes.size()) nodes.resize(bin + 1);
    ++nodes[bin];
  }
  return nodes;
}

/// The names of the nodes in a temporary file, which takes its place only when the parts have theirs. An
/// owner: removed unless published.
class PendingNames {
 public:
  PendingNames(const std::string& names, std::filesystem::path file) : file_{std::move(file)} {
    if (names.empty()) return;
    temporary_ = make_temporary_beside(file_);
    write_file_atomically(temporary_, names);
  }
  ~PendingNames() {
    std::error_code code;
    if (!temporary_.empty()) std::filesystem::remove(temporary_, code);
  }
  PendingNames(const PendingNames&) = delete;
  PendingNames& operator=(const PendingNames&) = delete;

  void publish() const {
    if (temporary_.empty()) return;
    std::error_code code;
    std::filesystem::rename(temporary_, file_, code);
    if (code)
      throw IoError(fmt::format("{}: the names of the nodes cannot go there: {}; the parts are whole",
                                file_.string(), code.message()),
                    "Build again when files can be written there.");
    sync_to_disk(folder_of(file_));
    spdlog::info("the names of the nodes are in {}, one per line", file_.string());
  }

 private:
  std::filesystem::path file_, temporary_;
};

/// Does what follows when the graph is compact: the cut and the part files.
class Builder {
 public:
  Builder(graph::Graph& graph, const CompactGraph& structure, const BuildOptions& options, ThreadPool& pool,
          StopFlag& stop)
      : graph_{graph}, structure_{structure}, options_{options}, pool_{pool}, stop_{stop} {}

  void add_phase(Phase phase) { report_.phases.push_back(std::move(phase)); }

  BuildReport run() {
    complete_code();
    check_disk(folder_of(options_.output), graph_, structure_, options_);
    assign();
    describe();
    write();
    return std::move(report_);
  }

 private:
  /// Completes the code as the manifest needs it.
  void complete_code() {
    RowCode& code = options_.feature_code;
    if (graph_.features.cols == 0) code = {};
    if (!code) return;
    options_.feature_dtype = DType::u8;
    code.cols = graph_.features.cols;
    if (code.kind != RowCode::Kind::vq || code.codebooks) return;
    announce("training codebooks");
    code = train_code(graph_.features, options_.assign.seed, pool_, structure_.scratch);
    add_phase(clock_.end("codebooks"));
    stop_.check();
  }

  void assign() {
    announce(fmt::format("assigning {} to {} ({})", counted(graph_.num_nodes(), "node"),
                         counted(options_.assign.num_parts, "part"), enum_name(options_.assign.method)));
    AssignOptions how = options_.assign;
    how.stop = &stop_;
    assignment_.part_of = assign_parts(structure_, graph_.splits.train, how, pool_);
    add_phase(clock_.end("assign"));
    stop_.check();
    if (options_.assign.clusters == 0) return;
    announce(fmt::format("cutting each part into {} clusters", options_.assign.clusters));
    assignment_.cluster_of = cut_clusters(structure_, assignment_.part_of, how, pool_);
    add_phase(clock_.end("clusters"));
    stop_.check();
  }

  void describe() {
    announce("relabeling nodes");
    relabeling_ =
        relabel(assignment_.part_of, options_.assign.num_parts, occurrences(structure_, pool_), pool_);
    graph::PartitionRecord& record = report_.record;
    graph_hash_ = hash_graph(structure_, graph_, options_);
    record.manifest = make_manifest(graph_, structure_, relabeling_, options_,
                                    build_id(graph_hash_, assignment_, options_.assign.num_parts));
    if (graph_.types.typed()) {
      GraphSummary types;
      describe_types(graph_,
                     {.num_nodes = structure_.num_nodes,
                      .indptr = structure_.indptr,
                      .indices = structure_.indices.span(),
                      .edge_ids = structure_.edge_ids.span(),
                      .scratch = structure_.scratch},
                     types);
      record.type_facts = facts_of(types);
    }
    record.constraints = measure_constraints(structure_, graph_.splits, assignment_.part_of, options_.assign);
    record.build = {.program = "strata-partition " + program_version(),
                    .input = options_.input,
                    .method = std::string(enum_name(options_.assign.method)),
                    .seed = options_.assign.seed,
                    .cleaning = graph_.cleaning};
    warn_of_imbalance(record.constraints);
    if (options_.detailed) report_.degree_histogram = degree_histogram(structure_);
    add_phase(clock_.end("relabel"));
  }

  void write() {
    announce(fmt::format("writing {} to {}", counted(options_.assign.num_parts, "part"),
                         options_.output.string()));
    graph::PartitionRecord& record = report_.record;
    StagingDirectory staging{options_.output, {.replace = options_.force}, stop_};
    WrittenParts written = write_parts(staging.path(),
                                       {.structure = structure_,
                                        .features = graph_.features,
                                        .labels = graph_.labels,
                                        .clusters = assignment_.cluster_of,
                                        .splits = graph_.splits,
                                        .edge_splits = graph_.edge_splits,
                                        .relabeling = relabeling_,
                                        .manifest = record.manifest,
                                        .count_between = options_.detailed},
                                       pool_, stop_);
    report_.edges_between = std::move(written.edges_between);
    record.parts = std::move(written.records);
    record.graph_digest = graph_digest(graph_hash_, written.feature_digest);
    write_manifest(staging.path(), record);
    if (options_.before_publishing) options_.before_publishing();
    stop_.check();
    const PendingNames names{graph_.node_names, names_file(options_.output)};
    staging.publish();
    names.publish();
    add_phase(clock_.end("write"));
  }

  graph::Graph& graph_;
  const CompactGraph& structure_;
  BuildOptions options_;
  ThreadPool& pool_;
  StopFlag& stop_;
  PhaseClock clock_;
  Assignment assignment_;
  Relabeling relabeling_;
  std::uint64_t graph_hash_ = 0;
  BuildReport report_;
};

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

void check_output(const BuildOptions& options) {
  refuse_output(options.output, {.replace = options.force});
  check_device(options.assign);
}

void check_names_file(const BuildOptions& options) {
  const std::filesystem::path file = names_file(options.output);
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(file, code);
  if (!std::filesystem::exists(status)) return;
  if (!std::filesystem::is_regular_file(status))
    throw InputError(fmt::format("{}: the names of the nodes go there, but it is no file", file.string()),
                     "Choose another --output, or remove it yourself.");
  if (!options.force)
    throw InputError(fmt::format("{} exists: the names of the nodes go there", file.string()),
                     "Choose another --output, or give --force to replace it.");
}

BuildReport build(graph::Graph graph, const BuildOptions& options, StopFlag& stop) {
  check_before_work(graph, options);
  PhaseClock clock;
  ThreadPool pool{options.num_threads};
  announce(fmt::format("compacting {} edges", format_count(graph.structure.num_edges())));
  CompactGraph structure = compact(std::move(graph.structure), pool, graph.types);
  structure.node_weights = std::move(graph.node_weights);
  graph.structure = {};
  graph.structure.num_nodes = structure.num_nodes;
  Builder builder{graph, structure, options, pool, stop};
  builder.add_phase(clock.end("compact"));
  return builder.run();
}

BuildReport build(graph::StoredGraph stored, const BuildOptions& options, ScratchStore& scratch,
                  StopFlag& stop) {
  if (!stored.lists) return build(std::move(stored.graph), options, stop);
  check_before_work(stored.graph, options);
  ThreadPool pool{options.num_threads};
  pool.limit(threads_within(scratch.capacity(), pool.num_threads()));
  CompactGraph structure = compact(*std::exchange(stored.lists, std::nullopt), scratch);
  structure.types = stored.graph.types;
  structure.node_weights = std::move(stored.graph.node_weights);
  return Builder{stored.graph, structure, options, pool, stop}.run();
}

}  // namespace strata::partition
