// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "generators/planted.hpp"
#include "parts/part_layout.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kChecksum = "xxh3";
constexpr Count kMostClusters = std::numeric_limits<std::int32_t>::max();  // of all parts
constexpr int kMostDepth = 16;                                             // a manifest takes 6
constexpr const char* kRebuild = "Copy the directory again, or run strata-partition build again.";

std::string canonical(const Json& json) { return json.dump(1) + "\n"; }

Json to_json(const PartRecord& part) {
  Json datasets = Json::array();
  for (const DatasetRecord& d : part.datasets) {
    datasets.push_back({{"name", d.name}, {"dtype", d.dtype}, {"shape", d.shape}, {"xxh3", hex64(d.hash)}});
    if (!part.has_block_hashes()) continue;
    datasets.back()["offset"] = d.offset;
    datasets.back()["block_rows"] = d.block_rows;
  }
  Json json{{"file", part.file},       {"bytes", part.bytes},           {"xxh3", hex64(part.hash)},
            {"edges", part.num_edges}, {"halo_nodes", part.halo_nodes}, {"cut_edges", part.cut_edges},
            {"datasets", datasets}};
  if (part.has_block_hashes()) json["xxh3_outside"] = hex64(part.outside_hash);
  return json;
}

Json to_json(const ConstraintRecord& constraint) {
  return {{"name", constraint.name},
          {"balanced", constraint.balanced},
          {"imbalance", constraint.imbalance},
          {"weights", constraint.weights}};
}

Json to_json(const BuildRecord& build) {
  const CleaningReport& c = build.cleaning;
  return {{"program", build.program},
          {"input", build.input},
          {"method", build.method},
          {"seed", build.seed},
          {"cleaning",
           {{"edges_read", c.edges_read},
            {"self_loops", c.self_loops},
            {"duplicates", c.duplicates},
            {"self_loops_removed", c.self_loops_removed},
            {"duplicates_removed", c.duplicates_removed},
            {"reverse_added", c.reverse_added}}}};
}

Json to_json(const TypeFacts& facts) {
  Json nodes = Json::array();
  for (const TypeFacts::Nodes& n : facts.nodes)
    nodes.push_back({{"labelled", n.labelled}, {"train", n.train}, {"valid", n.valid}, {"test", n.test}});
  return {{"nodes", nodes}, {"largest_in_degree", facts.largest_in_degree}};
}

Json to_json(const GraphTypes& types, const std::vector<std::size_t>& replicated) {
  Json relations = Json::array();
  for (const EdgeType& edges : types.edges)
    relations.push_back({{"source", edges.source}, {"name", edges.name}, {"destination", edges.destination}});
  Json json{{"nodes", types.nodes},
            {"node_offsets", types.node_offsets},
            {"relations", relations},
            {"edge_offsets", types.edge_offsets}};
  if (!types.feature_cols.empty()) json["feature_cols"] = types.feature_cols;
  for (const std::size_t type : replicated) json["replicated"].push_back(types.nodes[type]);
  return json;
}

/// Typed access that names file and field. A view of the JSON.
class Fields {
 public:
  Fields(const Json& json, const std::filesystem::path& source, std::string path = "")
      : json_{json}, source_{source}, path_{std::move(path)} {
    if (!json_.is_object()) refuse("", "is no object");
  }

  template <typename T>
  T get(const char* name) const {
    try {
      return at(name).template get<T>();
    } catch (const Json::exception&) {
      refuse(name, "has the wrong type");
    }
  }
  bool has(const char* name) const { return json_.contains(name); }
  Count count(const char* name) const {
    const Json& value = at(name);
    if (!value.is_number_integer() || value.get<Count>() < 0) refuse(name, "is no count");
    return value.get<Count>();
  }
  std::uint64_t number(const char* name) const {
    const Json& value = at(name);
    if (!value.is_number_unsigned()) refuse(name, "is no whole number");
    return value.get<std::uint64_t>();
  }
  std::vector<Count> counts(const char* name) const {
    std::vector<Count> values;
    const Json& array = at(name);
    if (!array.is_array()) refuse(name, "is no list");
    for (const Json& value : array) {
      if (!value.is_number_integer() || value.get<Count>() < 0) refuse(name, "is no list of counts");
      values.push_back(value.get<Count>());
    }
    return values;
  }
  std::uint64_t hash(const char* name) const {
    const auto text = get<std::string>(name);
    const bool hex = text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!hex) refuse(name, "is no XXH3 of 16 hexadecimal digits");
    return std::stoull(text, nullptr, 16);
  }
  Fields object(const char* name) const { return {at(name), source_, path_ + name + "."}; }
  template <typename T, typename Parse>
  std::vector<T> list(const char* name, Parse parse) const {
    const Json& array = at(name);
    if (!array.is_array()) refuse(name, "is no list");
    std::vector<T> result;
    for (const Json& item : array) {
      result.push_back(parse(Fields{item, source_, fmt::format("{}{}[{}].", path_, name, result.size())}));
    }
    return result;
  }
  [[noreturn]] void refuse(const char* name, const std::string& why) const {
    throw InputError(fmt::format("{}: field \"{}{}\" {}", source_.string(), path_, name, why), kRebuild);
  }

 private:
  const Json& at(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) refuse(name, "is missing");
    return *found;
  }

  const Json& json_;
  const std::filesystem::path& source_;
  std::string path_;
};

DatasetRecord dataset_from(const Fields& f) {
  const bool has_blocks = f.has("block_rows");
  return {.name = f.get<std::string>("name"),
          .dtype = f.get<std::string>("dtype"),
          .shape = f.counts("shape"),
          .hash = f.hash("xxh3"),
          .offset = has_blocks ? f.count("offset") : 0,
          .block_rows = has_blocks ? f.count("block_rows") : 0};
}

/// Throws InputError if a dataset does not fit into the file.
void check_extent(const DatasetRecord& dataset, Count file_bytes, const Fields& f) {
  Count bytes = static_cast<Count>(size_of(parse_dtype(dataset.dtype)));
  bool fits = dataset.offset <= file_bytes;
  for (const Count extent : dataset.shape) fits &= !__builtin_mul_overflow(bytes, extent, &bytes);
  if (!fits || (bytes > 0 && bytes > file_bytes - dataset.offset))
    f.refuse("datasets", fmt::format("has {}, which reaches beyond the file's end", dataset.name));
}

PartRecord part_from(const Fields& f) {
  PartRecord part{.file = f.get<std::string>("file"),
                  .bytes = f.count("bytes"),
                  .hash = f.hash("xxh3"),
                  .outside_hash = f.has("xxh3_outside") ? f.hash("xxh3_outside") : 0,
                  .num_edges = f.count("edges"),
                  .halo_nodes = f.count("halo_nodes"),
                  .cut_edges = f.count("cut_edges"),
                  .datasets = f.list<DatasetRecord>("datasets", dataset_from)};
  for (const DatasetRecord& dataset : part.datasets) check_extent(dataset, part.bytes, f);
  return part;
}

ConstraintRecord constraint_from(const Fields& f) {
  return {f.get<std::string>("name"), f.get<bool>("balanced"), f.get<double>("imbalance"),
          f.counts("weights")};
}

TypeFacts facts_from(const Fields& f, const GraphTypes& types) {
  TypeFacts facts{
      .nodes = f.list<TypeFacts::Nodes>(
          "nodes",
          [](const Fields& n) {
            return TypeFacts::Nodes{n.count("labelled"), n.count("train"), n.count("valid"), n.count("test")};
          }),
      .largest_in_degree = f.counts("largest_in_degree")};
  if (facts.nodes.size() != types.nodes.size() || facts.largest_in_degree.size() != types.edges.size())
    f.refuse("nodes", "has other numbers of types and relations than the graph");
  return facts;
}

BuildRecord build_from(const Fields& f) {
  const Fields c = f.object("cleaning");
  return {.program = f.get<std::string>("program"),
          .input = f.get<std::string>("input"),
          .method = f.get<std::string>("method"),
          .seed = f.number("seed"),
          .cleaning = {.edges_read = c.count("edges_read"),
                       .self_loops = c.count("self_loops"),
                       .duplicates = c.count("duplicates"),
                       .self_loops_removed = c.count("self_loops_removed"),
                       .duplicates_removed = c.count("duplicates_removed"),
                       .reverse_added = c.count("reverse_added")}};
}

DType feature_dtype_from(const Fields& f) {
  const auto name = f.get<std::string>("dtype");
  if (code_named(name) != RowCode::Kind::none) return DType::u8;
  if (name != "f32" && name != "f16" && name != "bf16")
    f.refuse("dtype", "is \"" + name + "\", wanted f32, f16, bf16, i8, e4m3, i4 or vq");
  return parse_dtype(name);
}

constexpr std::size_t kHexDigits = 8;  // of a float

std::string hex_of(const std::vector<float>& values) {
  std::string text;
  for (const float value : values) text += fmt::format("{:08x}", __builtin_bit_cast(std::uint32_t, value));
  return text;
}

RowCode feature_code_from(const Fields& f) {
  RowCode code{.kind = code_named(f.get<std::string>("dtype")), .cols = f.count("cols")};
  if (!code) return {};
  if (code.cols == 0 || code.cols > std::numeric_limits<std::int32_t>::max())
    f.refuse("cols", fmt::format("is {}", code.cols));
  if (code.kind != RowCode::Kind::vq) return code;
  const auto text = f.get<std::string>("codebooks");
  const auto size = at(code.num_groups() * RowCode::kEntries * RowCode::kGroupCols);
  if (text.size() != size * kHexDigits)
    f.refuse("codebooks", fmt::format("has {} digits, wanted {}", text.size(), size * kHexDigits));
  auto books = std::make_shared<std::vector<float>>(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint32_t bits = 0;
    const char *const first = text.data() + i * kHexDigits, *const end = first + kHexDigits;
    const auto read = std::from_chars(first, end, bits, 16);
    (*books)[i] = __builtin_bit_cast(float, bits);
    if (read.ec != std::errc() || read.ptr != end || !std::isfinite((*books)[i]))
      f.refuse("codebooks", fmt::format("has no finite number at {}", i));
  }
  code.codebooks = std::move(books);
  return code;
}

constexpr std::size_t kMostRelations = std::numeric_limits<RelationId>::max();

/// Refuses types that do not fit the rest of the manifest.
void check_types(const Fields& f, const Manifest& manifest) {
  const GraphTypes& types = manifest.types;
  const Count nodes = manifest.book.num_nodes();
  if (!types.node_offsets.empty() && types.node_offsets.back() != nodes)
    f.refuse("types", fmt::format("has {} nodes, the parts {}", types.node_offsets.back(), nodes));
  const auto out_of_range = [&](Count cols) { return cols < 0 || cols > manifest.feature_cols; };
  if (std::ranges::any_of(types.feature_cols, out_of_range))
    f.refuse("types", fmt::format("has more feature columns than the {} of the rows", manifest.feature_cols));
}

void check_offsets(const Fields& f, const char* name, const std::vector<Count>& offsets, std::size_t names) {
  if (offsets.empty() && names == 1) return;
  if (offsets.size() != names + 1 || offsets.front() != 0 || !std::ranges::is_sorted(offsets))
    f.refuse(name, fmt::format("does not divide ids into {} ranges", names));
}

GraphTypes types_from(const Fields& f) {
  GraphTypes types{.nodes = f.get<std::vector<std::string>>("nodes"),
                   .edges = f.list<EdgeType>("relations",
                                             [](const Fields& relation) {
                                               return EdgeType{
                                                   .source = relation.get<std::string>("source"),
                                                   .name = relation.get<std::string>("name"),
                                                   .destination = relation.get<std::string>("destination")};
                                             }),
                   .node_offsets = f.counts("node_offsets"),
                   .edge_offsets = f.counts("edge_offsets")};
  if (f.has("feature_cols")) types.feature_cols = f.counts("feature_cols");
  check_offsets(f, "node_offsets", types.node_offsets, types.nodes.size());
  check_offsets(f, "edge_offsets", types.edge_offsets, types.edges.size());
  if (types.nodes.empty() || types.edges.empty() || types.edges.size() > kMostRelations)
    f.refuse("relations", fmt::format("has {} relations of {} types of nodes, wanted 1 to {}",
                                      types.edges.size(), types.nodes.size(), kMostRelations));
  for (const EdgeType& edges : types.edges)
    if (std::ranges::count(types.edges, edges) != 1 || std::ranges::count(types.nodes, edges.source) != 1 ||
        std::ranges::count(types.nodes, edges.destination) != 1)
      f.refuse("relations",
               fmt::format("has the relation ({}, {}, {}) twice, or between types that are not there once",
                           printable(edges.source), printable(edges.name), printable(edges.destination)));
  if (!types.feature_cols.empty() && types.feature_cols.size() != types.nodes.size())
    f.refuse("feature_cols", "has not one number per type");
  return types;
}

std::vector<TargetScale> targets_from(const Fields& labels) {
  if (!labels.has("targets")) return {};
  return labels.list<TargetScale>("targets", [](const Fields& column) {
    const TargetScale scale{.mean = column.get<double>("mean"), .deviation = column.get<double>("deviation")};
    if (!std::isfinite(scale.mean)) column.refuse("mean", "is not finite");
    if (!(scale.deviation > 0) || std::isinf(scale.deviation)) column.refuse("deviation", "is not positive");
    return scale;
  });
}

std::vector<std::size_t> replicated_from(const Fields& f, const GraphTypes& types) {
  std::vector<std::size_t> replicated;
  if (!f.has("replicated")) return replicated;
  for (const auto& name : f.get<std::vector<std::string>>("replicated")) {
    const auto type = at(std::ranges::find(types.nodes, name) - types.nodes.begin());
    if (type == types.nodes.size() || (!replicated.empty() && type <= replicated.back()))
      f.refuse("replicated", fmt::format("has {}, which is no type, or out of order", printable(name)));
    replicated.push_back(type);
  }
  return replicated;
}

Manifest manifest_from(const Fields& f) {
  const Fields features = f.object("features"), labels = f.object("labels"), splits = f.object("splits");
  Manifest manifest{.name = printable(f.get<std::string>("name")),
                    .build_id = printable(f.get<std::string>("build_id")),
                    .book = PartitionBook{f.counts("offsets")},
                    .num_edges = f.count("num_edges"),
                    .undirected = f.get<bool>("undirected"),
                    .has_edge_weights = f.has("edge_weights") && f.get<bool>("edge_weights"),
                    .feature_cols = features.count("cols"),
                    .feature_dtype = feature_dtype_from(features),
                    .feature_code = feature_code_from(features),
                    .num_classes = labels.count("classes"),
                    .has_labels = labels.get<bool>("present"),
                    .multi_label = labels.has("multi") && labels.get<bool>("multi"),
                    .targets = targets_from(labels),
                    .num_train = splits.count("train"),
                    .num_valid = splits.count("valid"),
                    .num_test = splits.count("test"),
                    .num_clusters = f.has("clusters") ? f.count("clusters") : 0};
  if (f.has("types")) {
    manifest.types = types_from(f.object("types"));
    check_types(f, manifest);
    manifest.replicated_types = replicated_from(f.object("types"), manifest.types);
  }
  if (f.has("edge_splits")) {
    const Fields held = f.object("edge_splits");
    manifest.num_valid_edges = held.count("valid");
    manifest.num_test_edges = held.count("test");
  }
  const Count parts = std::max(1, manifest.book.num_parts());
  if (f.has("clusters") && (manifest.num_clusters < 2 || manifest.num_clusters > kMostClusters / parts))
    f.refuse("clusters", fmt::format("is {} for {} parts, wanted 2 to {}", manifest.num_clusters, parts,
                                     kMostClusters / parts));
  return manifest;
}

/// Checks first that the file is a manifest of Strata and that this program can read its version.
void check_header(const Json& json, const std::filesystem::path& source) {
  const auto format = json.is_object() ? json.find("format") : json.end();
  if (format == json.end() || *format != kManifestFormat) {
    throw InputError(fmt::format("{}: not the manifest of a partition directory", source.string()),
                     "Name a directory that strata-partition build wrote.");
  }
  const Fields fields{json, source};
  if (const Count version = fields.count("version"); version < 1 || version > Manifest::kVersion) {
    throw InputError(fmt::format("{}: version {}, this program reads versions up to {}", source.string(),
                                 version, Manifest::kVersion),
                     "Use the program that wrote it or a newer one, or build the partition again.");
  }
}

/// The checksum covers the canonical text of all other fields, and the text must be canonical, so no byte can
/// change unseen.
void check_checksum(Json json, const std::string& text, const std::filesystem::path& source) {
  const std::uint64_t stored = Fields{json, source}.hash(kChecksum);
  const bool same_text = canonical(json) == text;
  json.erase(kChecksum);
  const std::string rest = canonical(json);
  if (!same_text || hash_bytes(rest.data(), rest.size()) != stored) {
    throw InputError(
        fmt::format("{}: was changed after it was written (its checksum does not fit)", source.string()),
        kRebuild);
  }
}

void check_parts(const PartitionRecord& record, const std::filesystem::path& source) {
  const int parts = record.manifest.book.num_parts();
  if (parts < 1 || static_cast<int>(record.parts.size()) != parts) {
    throw InputError(
        fmt::format("{}: {} parts listed, offsets for {}", source.string(), record.parts.size(), parts),
        kRebuild);
  }
  Count edges = 0;
  for (int p = 0; p < parts; ++p) {
    const PartRecord& part = record.parts[at(p)];
    if (__builtin_add_overflow(edges, part.num_edges, &edges)) {
      throw InputError(fmt::format("{}: part {} has {} edges: too many", source.string(), p, part.num_edges),
                       kRebuild);
    }
    if (part.file != part_path("", p).filename()) {
      throw InputError(fmt::format("{}: part {} is called {}", source.string(), p, part.file), kRebuild);
    }
  }
  if (edges != record.manifest.num_edges) {
    throw InputError(fmt::format("{}: parts have {} edges, the graph {}", source.string(), edges,
                                 record.manifest.num_edges),
                     kRebuild);
  }
}

}  // namespace

std::string Manifest::nodes_path() const {
  return types.several() ? "/nodes/" : "/nodes/" + types.nodes.front() + "/";
}

std::string Manifest::edges_path() const {
  return types.several() ? "/edges/" : "/edges/" + joined_name_of(types.edges.front()) + "/";
}

std::string format_types(const GraphTypes& types) { return canonical(to_json(types, {})); }

GraphTypes parse_types(const std::string& text) {
  const std::filesystem::path source = "types";
  const Json json = Json::parse(text);
  return types_from(Fields(json, source));
}

Count Manifest::feature_row_bytes() const {
  return feature_code ? feature_code.row_bytes() : feature_cols * static_cast<Count>(size_of(feature_dtype));
}

std::string_view Manifest::feature_type() const {
  return feature_code ? strata::name_of(feature_code.kind) : strata::name_of(feature_dtype);
}

double ConstraintRecord::balance() const {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (total == 0) return 1;
  const Count largest = *std::max_element(weights.begin(), weights.end());
  return static_cast<double>(largest) * static_cast<double>(weights.size()) / total;
}

std::string format_manifest(const PartitionRecord& record) {
  const Manifest& m = record.manifest;
  Json json{{"format", kManifestFormat},
            {"version", m.version()},
            {"name", m.name},
            {"build_id", m.build_id},
            {"num_nodes", m.book.num_nodes()},
            {"num_edges", m.num_edges},
            {"num_parts", m.book.num_parts()},
            {"undirected", m.undirected},
            {"offsets", m.book.offsets()},
            {"features", {{"cols", m.feature_cols}, {"dtype", m.feature_type()}}},
            {"labels", {{"present", m.has_labels}, {"classes", m.num_classes}}},
            {"splits", {{"train", m.num_train}, {"valid", m.num_valid}, {"test", m.num_test}}},
            {"build", to_json(record.build)}};
  if (m.types.typed()) json["types"] = to_json(m.types, m.replicated_types);
  if (m.holds_edges_out()) json["edge_splits"] = {{"valid", m.num_valid_edges}, {"test", m.num_test_edges}};
  if (!record.type_facts.nodes.empty()) json["type_facts"] = to_json(record.type_facts);
  if (!record.graph_digest.empty()) json["graph_digest"] = record.graph_digest;
  if (m.feature_code.codebooks) json["features"]["codebooks"] = hex_of(*m.feature_code.codebooks);
  if (m.has_edge_weights) json["edge_weights"] = true;
  if (m.multi_label) json["labels"]["multi"] = true;
  for (const TargetScale& column : m.targets)
    json["labels"]["targets"].push_back({{"mean", column.mean}, {"deviation", column.deviation}});
  if (m.num_clusters > 0) json["clusters"] = m.num_clusters;
  json["constraints"] = Json::array();
  for (const ConstraintRecord& constraint : record.constraints)
    json["constraints"].push_back(to_json(constraint));
  json["parts"] = Json::array();
  for (const PartRecord& part : record.parts) json["parts"].push_back(to_json(part));
  const std::string text = canonical(json);
  json[kChecksum] = hex64(hash_bytes(text.data(), text.size()));
  return canonical(json);
}

PartitionRecord parse_manifest(const std::string& text, const std::filesystem::path& source) {
  require_utf8(text, source.string());
  // The depth is limited because copies and dumps recurse.
  const auto check_depth = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMostDepth)
      throw InputError(fmt::format("{}: nested more than {} deep", source.string(), kMostDepth), kRebuild);
    return true;
  };
  const Json json = Json::parse(text, check_depth, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    throw InputError(fmt::format("{}: not JSON", source.string()),
                     "Name a directory that strata-partition build wrote.");
  }
  check_header(json, source);
  check_checksum(json, text, source);
  const Fields fields{json, source};
  const bool has_digest = fields.has("graph_digest");
  PartitionRecord record{.manifest = manifest_from(fields),
                         .graph_digest = has_digest ? hex64(fields.hash("graph_digest")) : std::string(),
                         .parts = fields.list<PartRecord>("parts", part_from),
                         .constraints = fields.list<ConstraintRecord>("constraints", constraint_from),
                         .build = build_from(fields.object("build"))};
  if (fields.has("type_facts"))
    record.type_facts = facts_from(fields.object("type_facts"), record.manifest.types);
  check_parts(record, source);
  record.manifest.part_records = std::make_shared<const std::vector<PartRecord>>(record.parts);
  return record;
}

std::filesystem::path find_set_aside(const std::filesystem::path& directory) {
  const auto plain = directory.has_filename() ? directory : directory.parent_path();
  const std::string prefix = "." + plain.filename().string() + kStagingInfix;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(directory), code)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(kSetAsideSuffix) &&
        std::filesystem::is_regular_file(entry.path() / kManifestFile, code))
      return entry.path();
  }
  return {};
}

PartitionRecord read_partition_record(const std::filesystem::path& directory) {
  const auto path = directory / kManifestFile;
  std::error_code code;
  const bool missing = !std::filesystem::exists(directory, code);
  if (const auto aside = missing ? find_set_aside(directory) : std::filesystem::path(); !aside.empty()) {
    throw InputError(
        fmt::format("{}: no such directory; its parts are in {}, where a build that was killed set them "
                    "aside",
                    directory.string(), aside.string()),
        fmt::format("Give them their name back: mv {} {}", aside.string(), directory.string()));
  }
  if (missing) throw InputError(fmt::format("{}: no such directory", directory.string()), "Check the path.");
  if (!std::filesystem::is_regular_file(path, code)) {
    const std::string dataset = dataset_hint(directory);
    throw InputError(
        fmt::format("{}: not a partition directory: it has no {}", directory.string(), kManifestFile),
        dataset.empty()
            ? "Name a directory that strata-partition build wrote."
            : fmt::format("Build it first: strata-partition build --input {} --parts 1 --output parts",
                          dataset));
  }
  return parse_manifest(read_file(path), path);
}

std::string read_graph_digest(const PartsOrigin& parts) {
  if (const auto* planted = std::get_if<PlantedSpec>(&parts)) return digest_of(*planted);
  const PartitionRecord record = read_partition_record(std::get<std::filesystem::path>(parts));
  return record.graph_digest.empty() ? "build " + record.manifest.build_id : record.graph_digest;
}

std::string read_build_program(const PartsOrigin& parts) {
  const auto* directory = std::get_if<std::filesystem::path>(&parts);
  return directory == nullptr ? std::string() : read_partition_record(*directory).build.program;
}

Manifest read_manifest(const PartsOrigin& parts) {
  if (const auto* planted = std::get_if<PlantedSpec>(&parts)) return planted_manifest(*planted);
  const auto& directory = std::get<std::filesystem::path>(parts);
  PartitionRecord record = read_partition_record(directory);
  for (const PartRecord& part : record.parts) {
    std::error_code code;
    const auto bytes = static_cast<Count>(std::filesystem::file_size(directory / part.file, code));
    if (code) {
      throw InputError(
          fmt::format("{}: part file {} is missing ({})", directory.string(), part.file, code.message()),
          "Copy the whole directory again.");
    }
    if (bytes != part.bytes) {
      throw InputError(fmt::format("{}: {} has {} bytes, the manifest says {}", directory.string(), part.file,
                                   bytes, part.bytes),
                       "Copy the whole directory again.");
    }
  }
  return std::move(record.manifest);
}

bool Manifest::has_block_hashes() const {
  return part_records && std::ranges::all_of(*part_records, &PartRecord::has_block_hashes);
}

std::filesystem::path part_path(const std::filesystem::path& directory, int part) {
  return directory / fmt::format("part-{:05d}.h5", part);
}

}  // namespace strata::graph
