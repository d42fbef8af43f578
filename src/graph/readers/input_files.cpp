// SPDX-License-Identifier: Apache-2.0
#include "readers/input_files.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "readers/dataset_path.hpp"
#include "readers/parquet/parquet_parts.hpp"
#include "readers/text/class_tables.hpp"
#include "readers/text/typed_tables.hpp"
#include "readers/yaml_document.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<fs::path>;

constexpr int kMostDepth = 32;  // of metadata; values below are never read

bool is_file(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

void add_named(const fs::path& folder, std::initializer_list<const char*> names, Files& files) {
  for (const char* const name : names)
    if (is_file(folder / name)) files.push_back(folder / name);
}

/// The folders in a folder; none if it is none.
Files folders_in(const fs::path& folder) {
  Files folders;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code))
    if (entry.is_directory(code)) folders.push_back(entry.path());
  return folders;
}

Files npy_files(const fs::path& place) {
  if (is_file(place)) return {place};
  Files files;
  add_named(
      place,
      {"edge_index.npy", "indptr.npy", "indices.npy", "adjacency.npz", "edge_weight.npy", "num_nodes.npy",
       "x.npy", "y.npy", "targets.npy", "node_weight.npy", "train.npy", "valid.npy", "val.npy", "test.npy"},
      files);
  for (const fs::path& type : folders_in(place / "nodes"))
    add_named(
        type,
        {"x.npy", "y.npy", "targets.npy", "num_nodes.npy", "train.npy", "valid.npy", "val.npy", "test.npy"},
        files);
  for (const fs::path& relation : folders_in(place / "edges"))
    add_named(relation, {"edge_index.npy", "edge_weight.npy"}, files);
  return files;
}

/// Tables of OGB in a folder: NAME.csv.gz or NAME.csv.
void add_tables(const fs::path& folder, std::initializer_list<const char*> names, Files& files) {
  for (const std::string name : names)
    add_named(folder, {(name + ".csv.gz").c_str(), (name + ".csv").c_str()}, files);
}

Files ogb_files(const fs::path& place) {
  Files files;
  const fs::path raw = place / "raw";
  add_named(raw,
            {"data.npz", "node-label.npz", "num_nodes_dict.npz", "edge_index_dict.npz", "node_feat_dict.npz"},
            files);
  add_tables(raw,
             {"num-node-list", "num-edge-list", "edge", "edge-feat", "node-feat", "node-label",
              "num-node-dict", "triplet-type-list", "nodetype-has-feat", "nodetype-has-label"},
             files);
  for (const fs::path& relation : folders_in(raw / "relations"))
    add_tables(relation, {"num-edge-list", "edge"}, files);
  for (const fs::path& type : folders_in(raw / "node-feat")) add_tables(type, {"node-feat"}, files);
  for (const fs::path& type : folders_in(raw / "node-label")) add_tables(type, {"node-label"}, files);
  for (const fs::path& split : folders_in(place / "split")) {
    add_tables(split, {"train", "valid", "test", "nodetype-has-split"}, files);
    for (const fs::path& type : folders_in(split)) add_tables(type, {"train", "valid", "test"}, files);
  }
  return files;
}

/// The files of a set with several types of nodes and relations.
Files igbh_files(const fs::path& place) {
  Files files;
  for (const fs::path& folder : {place / "processed", place})
    for (const fs::path& type : folders_in(folder))
      add_named(type, {"node_feat.npy", "node_label_19.npy", "node_label_2K.npy", "edge_index.npy"}, files);
  return files;
}

Files triple_files(const fs::path& place) {
  if (is_file(place)) return {place};
  Files files;
  add_named(place,
            {"train2id.txt", "valid2id.txt", "test2id.txt", "entity2id.txt", "relation2id.txt", "train.txt",
             "valid.txt", "test.txt", "train.tsv", "valid.tsv", "test.tsv"},
            files);
  return files;
}

Files n_triples_files(const DatasetSource& source) {
  Files files = class_tables(source);
  files.push_back(source.place);
  std::erase_if(files, [](const fs::path& file) { return !is_file(file); });
  return files;
}

Files igb_files(const fs::path& place) {
  Files files;
  for (const fs::path& folder : {place / "processed", place}) {
    add_named(folder / "paper", {"node_feat.npy", "node_label_19.npy", "node_label_2K.npy"}, files);
    add_named(folder / "paper__cites__paper", {"edge_index.npy"}, files);
  }
  return files;
}

/// Every text in a node of YAML. Aliases can make a document that has no end, so both its depth and the
/// number of nodes that are left to visit are limited.
void collect_texts(const YAML::Node& node, int depth, int& left, std::vector<std::string>& texts) {
  if (depth > kMostDepth || left-- <= 0) return;
  if (node.IsScalar()) texts.push_back(node.Scalar());
  if (node.IsSequence())
    for (const YAML::Node& entry : node) collect_texts(entry, depth + 1, left, texts);
  if (node.IsMap())
    for (const auto& field : node) collect_texts(field.second, depth + 1, left, texts);
}

std::vector<std::string> texts_of_yaml(const fs::path& file) {
  std::vector<std::string> texts;
  int left = 100'000;
  collect_texts(YamlDocument(file).root(), 0, left, texts);
  return texts;
}

std::vector<std::string> texts_of_json(const fs::path& file) {
  using Json = nlohmann::json;
  std::vector<std::string> texts;
  const auto collect = [&](int depth, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::value && value.is_string()) texts.push_back(value.get<std::string>());
    return depth <= kMostDepth;
  };
  if (Json::parse(read_file(file), collect, /*allow_exceptions=*/false).is_discarded()) return {};
  return texts;
}

/// Metadata and every file that one of its texts names. Where the metadata cannot be read, the reader reports
/// why.
Files described_files(const fs::path& metadata, std::vector<std::string> (*texts_of)(const fs::path&)) {
  if (!is_file(metadata)) return {};
  Files files{metadata};
  try {
    for (const std::string& text : texts_of(metadata))
      if (const auto file = path_in_dataset(folder_of(metadata), text, /*allow_outside=*/true);
          file && is_file(*file))
        files.push_back(*file);
  } catch (const Error&) {
  }
  return files;
}

Files parquet_files(const DatasetSource& source) {
  Files files;
  try {
    if (has_parquet_types(source.place)) {
      for (const char* const folder : {"nodes", "edges"})
        for (const std::string& table : typed_parquet_tables(source.place / folder))
          std::ranges::move(table_files(source.place / folder, table), std::back_inserter(files));
      return files;
    }
    for (const std::string& table : {source.tables.edges, source.tables.nodes})
      for (const fs::path& file : table_files(source.place, table)) files.push_back(file);
  } catch (const Error&) {  // two tables of a name, which the reader refuses
  }
  return files;
}

}  // namespace

Files dataset_files(const DatasetSource& source) {
  switch (source.format) {
    case DatasetSource::Format::npy:
      return npy_files(source.place);
    case DatasetSource::Format::ogb:
      return ogb_files(source.place);
    case DatasetSource::Format::igb:
      return igb_files(source.place);
    case DatasetSource::Format::graphbolt:
      return described_files(source.place / "metadata.yaml", texts_of_yaml);
    case DatasetSource::Format::dgl_chunked:
      return described_files(source.place / "metadata.json", texts_of_json);
    case DatasetSource::Format::parquet:
      return parquet_files(source);
    case DatasetSource::Format::igbh:
      return igbh_files(source.place);
    case DatasetSource::Format::triples:
      return triple_files(source.place);
    case DatasetSource::Format::n_triples:
      return n_triples_files(source);
    case DatasetSource::Format::edge_list:
      if (!is_file(source.place)) {
        Files files = typed_tables(source.place / "nodes");
        std::ranges::move(typed_tables(source.place / "edges"), std::back_inserter(files));
        return files;
      }
      [[fallthrough]];
    case DatasetSource::Format::metis:
    case DatasetSource::Format::matrix_market:
      return is_file(source.place) ? Files{source.place} : Files{};
    case DatasetSource::Format::synthetic_igbh:
      return {};
  }
  return {};
}

Files partition_files(const fs::path& directory) {
  Files files;
  add_named(directory, {kManifestFile}, files);
  for (int part = 0; is_file(part_path(directory, part)); ++part) files.push_back(part_path(directory, part));
  return files;
}

}  // namespace strata::graph
