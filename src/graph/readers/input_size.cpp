// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "generators/igbh.hpp"
#include "readers/column_names.hpp"
#include "readers/input_files.hpp"
#include "readers/node_table.hpp"
#include "readers/numpy/number_types.hpp"
#include "readers/parquet/parquet_parts.hpp"
#include "readers/parquet/table_roles.hpp"
#include "readers/text/fields.hpp"
#include "readers/text/line_blocks.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/npy.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/graph/stored_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;
using Format = DatasetSource::Format;

constexpr Count kLeastBytesPerEdge = 6;     // of tables: "12,34\n"; larger graphs have longer ids
constexpr Count kInflation = 6;             // of compressed text
constexpr Count kScratchBytesPerEdge = 12;  // while lists are sorted: two ids and the edge's
constexpr Count kWeightBytes = 8;           // of an edge: as read, and with its entry
constexpr Count kNameBytes = 160;           // of a node, beside the letters
constexpr Count kIgbCols = 1024;            // of arrays without a header
constexpr double kMargin = 1.1;             // lines may get shorter

/// Whether a file is gzip, zstd or zip, whatever its name.
bool is_compressed(const fs::path& file) {
  char bytes[4] = {};
  std::ifstream{file, std::ios::binary}.read(bytes, sizeof bytes);
  return !compression_of({bytes, sizeof bytes}).empty();
}

/// The bytes of a file, as if it were not compressed; 0 if it cannot be looked at.
std::int64_t bytes_of(const fs::path& file) {
  std::error_code code;
  const std::uintmax_t size = fs::file_size(file, code);
  return code ? 0 : static_cast<std::int64_t>(size) * (is_compressed(file) ? kInflation : 1);
}

/// Limits a number that a file states, which may be anything; reading refuses impossible ones.
Count stated(Count number) { return std::clamp<Count>(number, 0, Count{1} << 48); }

std::int64_t bytes_of(const NpyArray& array) { return array.size() * array.item_bytes; }

void add_edges(const NpyArray& array, InputSize& size) {
  size.edges = array.size() / 2;
  if (!array.is('i', 4) && !array.is('i', 8)) size.bytes_of_edges += 8 * array.size();
}

void add_features(const NpyArray& array, InputSize& size) {
  if (!array.shape.empty()) size.nodes = std::max(size.nodes, array.shape[0]);
  const bool in_place = !array.fortran_order && (array.is('f', 4) || array.is('f', 2));
  size.bytes_mapped += array.size() * (in_place ? array.item_bytes : 4);
  if (!in_place) size.least_scratch_bytes += array.size() * 4;
}

void add_features(const fs::path& file, InputSize& size) {
  if (fs::exists(file)) add_features(read_npy(file), size);
}

/// The least size of a number in a text file, with its separator.
constexpr Count kLeastTextBytes = 2;

/// Labels become 32 bits each, or bits where there is a column per class.
Count bytes_of_labels(Count rows, Count numbers, LabelKind kind) {
  constexpr Count kLabelBytes = 4;
  if (kind == LabelKind::targets) return kLabelBytes * numbers;
  return std::min(kLabelBytes * numbers, kLabelBytes * rows + numbers);
}

/// The most rows that a table of text can have, and its columns.
struct TextSize {
  Count rows = 0, cols = 1;
};
TextSize size_of_text(const fs::path& file) {
  TextSize size;
  try {
    size.cols = std::max<Count>(csv_layout(file).cols, 1);
  } catch (const Error&) {  // no text
  }
  size.rows = bytes_of(file) / kLeastTextBytes / size.cols + 1;
  return size;
}

void add_labels(const NpyArray& labels, InputSize& size, LabelKind kind = LabelKind::classes) {
  if (labels.shape.empty()) return;
  size.nodes = std::max(size.nodes, labels.shape[0]);
  size.bytes_in_memory += bytes_of_labels(labels.shape[0], labels.size(), kind);
}

void add_labels(const fs::path& file, InputSize& size, LabelKind kind = LabelKind::classes) {
  if (is_npy(file)) return add_labels(read_npy(file), size, kind);
  const TextSize text = size_of_text(file);
  size.bytes_in_memory += bytes_of_labels(text.rows, text.rows * text.cols, kind);
}

/// Adds what ids in a table of text take while its rows are put into the order of nodes: the number of each
/// row, and the names of nodes. Labels by ids are there twice then.
void add_ids(const fs::path& file, NodeTable::Holds holds, InputSize& size,
             LabelKind kind = LabelKind::classes) {
  if (file.empty() || is_npy(file)) return;
  const NodeTable table = NodeTable::look_at(file, holds);
  if (table.id < 0) return;
  constexpr Count kIdBytes = 16, kNameTableBytes = 64;
  const TextSize text = size_of_text(file);
  size.bytes_in_memory += (kIdBytes + kNameTableBytes) * text.rows;
  if (holds == NodeTable::Holds::labels) add_labels(file, size, kind);
}

/// Splits become lists of ids. No node is in two of them, so that three masks are lists of all nodes at most.
void add_split(const fs::path& file, InputSize& size) {
  constexpr Count kIdBytes = 8, kMasks = 3;
  if (!is_npy(file)) {
    size.bytes_in_memory += kIdBytes * bytes_of(file) / kLeastTextBytes;
    return;
  }
  const NpyArray nodes = read_npy(file);
  size.bytes_in_memory += kIdBytes * nodes.size() / (nodes.kind == 'b' ? kMasks : 1);
}

/// Weights of nodes take 32 bits each, and as much again while a list of them grows.
void add_node_weights(Count kinds, InputSize& size) {
  constexpr Count kNodeWeightBytes = 8;
  size.node_weight_kinds = static_cast<int>(std::clamp<Count>(kinds, 0, NodeWeights::kMostKinds));
  size.bytes_in_memory += kNodeWeightBytes * size.node_weight_kinds * size.nodes;
}

/// Adds a file that only its name describes: 32 bits per number.
void add_node_file(const fs::path& file, InputSize& size) {
  constexpr Count kNumberBytes = 4;
  size.bytes_mapped += is_npy(file) ? std::max(kNumberBytes * read_npy(file).size(), bytes_of(file))
                                    : kNumberBytes * bytes_of(file) / kLeastTextBytes;
}

/// A sparse matrix of scipy: a row number per row in csr and csc, one per entry in coo.
void measure_matrix(const fs::path& path, InputSize& size) {
  const NpzFile file(path);
  size.edges = file.describe("data").size();
  for (const std::string& name : file.names()) size.bytes_of_edges += bytes_of(file.describe(name));
  size.bytes_of_edges += kWeightBytes * size.edges;
  if (file.contains("indptr")) size.nodes = file.describe("indptr").size() - 1;
}

/// The one number of an array, or none.
Count number_in(const NpyArray& array) {
  Count number = 0;
  if (array.kind == 'i' && array.size() == 1)
    visit_numbers(array, [&](const auto* value) { number = stated(static_cast<Count>(to_number(*value))); });
  return number;
}

/// Measures arrays of a graph of several types. Rows of features are copied, and become as long as those of
/// the widest type.
void measure_typed(const DatasetSource& source, InputSize& size) {
  constexpr Count kEntryBytes = 16, kLabelAndSplitBytes = 4 + 8, kFloatBytes = 4;
  std::map<fs::path, Count> nodes;  // by folder
  Count cols = 0;
  for (const fs::path& file : dataset_files(source)) {
    const std::string name = file.filename().string();
    Count& of_type = nodes[file.parent_path()];
    if (!is_npy(file)) {
      if (name != "node_feat.npy") continue;
      of_type = bytes_of(file) / (kIgbCols * kFloatBytes);
      cols = std::max(cols, kIgbCols);
      continue;
    }
    const NpyArray array = read_npy(file);
    const bool features = name == "x.npy" || name == "node_feat.npy";
    if (features) cols = std::max(cols, array.shape.size() == 2 ? array.shape[1] : 1);
    if ((features || name == "y.npy" || name == "targets.npy") && !array.shape.empty())
      of_type = array.shape[0];
    if (name == "num_nodes.npy") of_type = number_in(array);
    if (name == "edge_index.npy") {
      size.edges += array.size() / 2 * (source.reverse ? 2 : 1);
      size.bytes_of_edges = std::max(size.bytes_of_edges, kEntryBytes * array.size() / 2);
    }
    if (name == "edge_weight.npy") size.bytes_of_edges += kWeightBytes * array.size();
  }
  for (const auto& [folder, count] : nodes) size.nodes += count;
  size.bytes_in_memory += size.nodes * kLabelAndSplitBytes;
  size.bytes_mapped += size.nodes * kFloatBytes * cols;
}

void measure_igbh_shape(const DatasetSource& source, InputSize& size) {
  constexpr Count kLabelAndSplitBytes = 4 + 8, kDrawnBytes = 8;
  const Description made = describe_igbh(source);
  size.nodes = made.num_nodes();
  size.edges = made.manifest.num_edges;
  size.bytes_in_memory = size.nodes * kLabelAndSplitBytes;
  size.bytes_mapped = size.nodes * source.cols * static_cast<Count>(size_of(source.dtype));
  size.bytes_of_edges = kDrawnBytes * size.edges;
}

void measure_npy(const DatasetSource& source, InputSize& size) {
  const fs::path& place = source.place;
  std::error_code code;
  if (fs::is_directory(place / "edges", code)) return measure_typed(source, size);
  if (!fs::is_directory(place, code) || fs::exists(place / "adjacency.npz")) {
    measure_matrix(fs::is_directory(place, code) ? place / "adjacency.npz" : place, size);
  } else if (fs::exists(place / "edge_index.npy")) {
    add_edges(read_npy(place / "edge_index.npy"), size);
  } else {
    size.edges = read_npy(place / "indices.npy").size();
    size.nodes = read_npy(place / "indptr.npy").size() - 1;
  }
  if (fs::exists(place / "num_nodes.npy")) {
    size.nodes_from = (place / "num_nodes.npy").string();
    size.nodes = number_in(read_npy(place / "num_nodes.npy"));
  }
  add_features(place / "x.npy", size);
  if (fs::exists(place / "y.npy")) add_labels(place / "y.npy", size);
  if (fs::exists(place / "targets.npy")) add_labels(place / "targets.npy", size, LabelKind::targets);
  for (const char* const split : {"train.npy", "valid.npy", "val.npy", "test.npy"})
    if (fs::exists(place / split)) add_split(place / split, size);
  if (fs::exists(place / "node_weight.npy")) {
    const NpyArray weights = read_npy(place / "node_weight.npy");
    if (!weights.shape.empty()) size.nodes = std::max(size.nodes, weights.shape[0]);
    add_node_weights(weights.shape.size() == 2 ? weights.shape[1] : 1, size);
  }
  if (fs::exists(place / "edge_weight.npy")) size.bytes_of_edges += kWeightBytes * size.edges;
}

void measure_igb(const fs::path& place, InputSize& size) {
  const fs::path folder = fs::is_directory(place / "processed") ? place / "processed" : place;
  add_edges(read_npy(folder / "paper__cites__paper" / "edge_index.npy"), size);
  constexpr Count kLabelAndSplitBytes = 4 + 8;
  const fs::path features = folder / "paper" / "node_feat.npy";
  if (is_npy(features)) {  // the large sets have no header
    add_features(features, size);
  } else {
    size.bytes_mapped += bytes_of(features);
    size.nodes = bytes_of(features) / (kIgbCols * 4);
  }
  size.bytes_in_memory += kLabelAndSplitBytes * size.nodes;
}

/// Measures a dataset whose files are described only by their names. Labels and splits are read into memory,
/// and the rest of what is about nodes is mapped.
void measure_by_names(const DatasetSource& source, InputSize& size) {
  std::int64_t bytes = 0;
  for (const fs::path& file : dataset_files(source)) {
    const std::string name = file.filename().string();
    const auto has = [&](std::initializer_list<const char*> words) {
      return std::ranges::any_of(words, [&](const char* word) { return name.find(word) != name.npos; });
    };
    if (has({"label"}))
      add_labels(file, size);
    else if (has({"split", "train", "valid", "test"}))
      add_split(file, size);
    else if (has({"node", "feat"}))
      add_node_file(file, size);
    else
      bytes += bytes_of(file);
  }
  size.edges = bytes / kLeastBytesPerEdge;
}

/// Measures the binary layout of ogb, which has splits as text.
void measure_ogb(const DatasetSource& source, InputSize& size) {
  const fs::path raw = source.place / "raw";
  for (const fs::path& file : dataset_files(source))
    if (file.parent_path() != raw) add_split(file, size);
  if (fs::exists(raw / "node-label.npz"))
    add_labels(NpzFile(raw / "node-label.npz").describe("node_label"), size);
  const NpzFile file(raw / "data.npz");
  const NpyArray edges = file.describe("edge_index");
  add_edges(edges, size);
  size.bytes_of_edges += bytes_of(edges);
  if (file.contains("edge_feat")) size.bytes_of_edges += bytes_of(file.describe("edge_feat"));
  if (file.contains("node_feat")) add_features(file.describe("node_feat"), size);
}

/// Measures the same layout with types.
void measure_typed_ogb(const DatasetSource& source, InputSize& size) {
  const fs::path raw = source.place / "raw";
  for (const fs::path& file : dataset_files(source))
    if (file.parent_path() != raw) add_split(file, size);
  const auto visit = [&](const char* name, const auto& add) {
    if (!fs::exists(raw / name)) return;
    const NpzFile file(raw / name);
    for (const std::string& array : file.names()) add(file.describe(array));
  };
  Count edges = 0;
  visit("edge_index_dict.npz", [&](const NpyArray& array) {
    edges += array.size() / 2;
    size.bytes_of_edges += bytes_of(array);
  });
  visit("node_feat_dict.npz", [&](const NpyArray& array) { size.bytes_in_memory += bytes_of(array); });
  visit("node-label.npz", [&](const NpyArray& array) { add_labels(array, size); });
  size.nodes = 0;  // of each type, not of one
  size.edges = edges;
}

struct Header {
  std::string first_line;
  std::vector<Count> numbers;  ///< of the first line that is no comment; at least four
};

Header header_of(const fs::path& place) {
  LineBlocks blocks(place);
  Block block;
  Header header;
  std::vector<Count>& numbers = header.numbers;
  while (numbers.empty() && blocks.next(block)) {
    if (header.first_line.empty()) header.first_line = block.text.substr(0, block.text.find('\n'));
    Lines lines(block.text);
    for (std::string_view line; numbers.empty() && lines.next(line);) {
      if (is_comment(line, "%")) continue;
      std::istringstream fields{std::string(line)};
      for (Count number = 0; fields >> number;) numbers.push_back(number);
    }
  }
  numbers.resize(std::max<std::size_t>(numbers.size(), 4));
  return header;
}

/// METIS and Matrix Market files state their sizes.
void measure_stated(const DatasetSource& source, InputSize& size) {
  const Header header = header_of(source.place);
  const bool metis = source.format == Format::metis;
  size.nodes = stated(header.numbers[0]);
  size.nodes_from = source.place.string() + (metis ? ": the number of nodes in its header"
                                                   : ": the number of rows in its line of sizes");
  size.edges = metis ? 2 * stated(header.numbers[1]) : stated(header.numbers[2]);
  const bool weights = metis
                           ? header.numbers[2] % 10 == 1
                           : !source.ignore_values && header.first_line.find("pattern") == std::string::npos;
  if (weights) size.bytes_of_edges = kWeightBytes * size.edges;
  if (metis && header.numbers[2] / 10 % 10 == 1)
    add_node_weights(std::max<Count>(header.numbers[3], 1), size);
}

/// Measures tables of edges that may name their nodes, by the least length of a line.
void measure_triples(const DatasetSource& source, InputSize& size) {
  std::int64_t bytes = 0;
  for (const fs::path& file : dataset_files(source)) bytes += bytes_of(file);
  size.edges = bytes / (source.format == Format::n_triples ? 14 : kLeastBytesPerEdge);
  if (source.reverse) size.edges *= 2;
  size.bytes_in_memory = 3 * bytes;
}

/// Estimates a list of edges by the length of its first lines.
void measure_list(const DatasetSource& source, InputSize& size) {
  if (fs::is_directory(source.place)) return measure_triples(source, size);
  LineBlocks blocks(source.place);
  Block block;
  if (!blocks.next(block) || block.text.empty()) return;
  const auto lines = std::max<std::ptrdiff_t>(1, std::ranges::count(block.text, '\n'));
  const double line_bytes = static_cast<double>(block.text.size()) / static_cast<double>(lines);
  const auto bytes = static_cast<double>(bytes_of(source.place));
  const bool whole = bytes <= static_cast<double>(block.text.size());
  size.edges = whole ? lines + 1 : static_cast<Count>(kMargin * bytes / line_bytes);
  const TableLayout layout = csv_layout(source.place);
  if (source.weight_column || !source.tables.weight.empty() ||
      find_column(layout.names, ColumnRole::weight) >= 0)
    size.bytes_of_edges = kWeightBytes * size.edges;
  constexpr Count kMostNames = 2;  // of an edge
  if (source.ids != DatasetSource::Ids::number)
    size.bytes_of_edges += size.edges * kMostNames * kNameBytes + 3 * static_cast<std::int64_t>(bytes);
}

void measure_parquet_edges(const std::vector<fs::path>& files, const TableNames& names, InputSize& size) {
  const ParquetTable edges(files);
  size.edges += edges.rows();
  if (roles_of_edges(edges, names).weight >= 0) size.bytes_of_edges += kWeightBytes * edges.rows();
}

void measure_parquet_nodes(const std::vector<fs::path>& files, const TableNames& names, InputSize& size) {
  const ParquetTable nodes(files);
  const NodeRoles roles = roles_of_nodes(nodes, names);
  constexpr Count kLabelBytes = 4, kIdBytes = 8;
  size.nodes += nodes.rows();
  for (const int column : roles.features) size.bytes_mapped += nodes.rows() * nodes.width(column) * 4;
  if (roles.label >= 0)
    size.bytes_in_memory += nodes.rows() * std::min(kLabelBytes * nodes.width(roles.label),
                                                    kLabelBytes + nodes.width(roles.label));
  if (roles.split >= 0) size.bytes_in_memory += kIdBytes * nodes.rows();
  if (roles.id >= 0)
    size.bytes_of_edges += nodes.rows() * kNameBytes + 3 * nodes.columns()[at(roles.id)].bytes;
}

/// Parquet files state how many rows and values they have.
void measure_parquet(const DatasetSource& source, InputSize& size) {
  if (has_parquet_types(source.place)) {
    const fs::path nodes = source.place / "nodes", edges = source.place / "edges";
    for (const std::string& table : typed_parquet_tables(edges))
      measure_parquet_edges(table_files(edges, table), {}, size);
    if (source.reverse) size.edges *= 2;
    for (const std::string& table : typed_parquet_tables(nodes))
      measure_parquet_nodes(table_files(nodes, table), {}, size);
    return;
  }
  const std::vector<fs::path> edges = table_files(source.place, source.tables.edges);
  const std::vector<fs::path> nodes = table_files(source.place, source.tables.nodes);
  if (edges.empty()) return;
  measure_parquet_edges(edges, source.tables, size);
  if (nodes.empty()) return;
  measure_parquet_nodes(nodes, source.tables, size);
  size.least_scratch_bytes += size.bytes_mapped;
}

void measure_dataset(const DatasetSource& source, InputSize& size) {
  switch (source.format) {
    case Format::npy:
      return measure_npy(source, size);
    case Format::igb:
      return measure_igb(source.place, size);
    case Format::parquet:
      return measure_parquet(source, size);
    case Format::edge_list:
      return measure_list(source, size);
    case Format::synthetic_igbh:
      return measure_igbh_shape(source, size);
    case Format::igbh:
      return measure_typed(source, size);
    case Format::n_triples:
    case Format::triples:
      return measure_triples(source, size);
    case Format::metis:
    case Format::matrix_market:
      return measure_stated(source, size);
    case Format::ogb:
      if (fs::exists(source.place / "raw" / "data.npz")) return measure_ogb(source, size);
      if (fs::exists(source.place / "raw" / "edge_index_dict.npz")) return measure_typed_ogb(source, size);
      [[fallthrough]];
    case Format::graphbolt:
    case Format::dgl_chunked:
      measure_by_names(source, size);
      if (source.weight_column) size.bytes_of_edges = kWeightBytes * size.edges;
  }
}

/// Whether the number of edges that was measured is the number that is read.
bool states_edges(const DatasetSource& source) {
  switch (source.format) {
    case Format::npy:
    case Format::igb:
    case Format::parquet:
    case Format::metis:
    case Format::matrix_market:
      return true;
    default:
      return false;
  }
}

}  // namespace

InputSize measure_input(const Source& source, const NodeFiles& files) {
  InputSize size;
  try {
    if (const auto parts = source.parts()) {
      const Manifest manifest = read_manifest(*parts);
      size = {.nodes = manifest.book.num_nodes(), .edges = manifest.num_edges};
      const DType type = manifest.feature_code ? DType::f32 : manifest.feature_dtype;  // as they are read
      size.bytes_mapped = size.nodes * manifest.feature_cols * static_cast<std::int64_t>(size_of(type));
      size.bytes_in_memory = manifest.has_labels ? size.nodes * 4 * manifest.label_words() : 0;
      size.bytes_in_memory += 8 * (manifest.num_train + manifest.num_valid + manifest.num_test);
    } else if (const SyntheticSpec* const spec = source.synthetic()) {
      const bool grid = spec->kind == SyntheticSpec::Kind::grid;
      size = {.nodes = spec->nodes, .edges = grid ? 4 * spec->nodes : spec->edges};
      size.bytes_in_memory = 4 * spec->nodes + 8 * (spec->train + spec->valid + spec->test);
      size.bytes_mapped = spec->nodes * spec->features * static_cast<std::int64_t>(size_of(spec->dtype));
      if (spec->weights != SyntheticSpec::Weights::none) size.bytes_of_edges = kWeightBytes * size.edges;
    } else {
      measure_dataset(*source.dataset(), size);
      if (states_edges(*source.dataset())) size.least_scratch_bytes += kScratchBytesPerEdge * size.edges;
      if (const auto nodes = source.dataset()->nodes; nodes && stated(*nodes) > size.nodes) {
        size.nodes = stated(*nodes);
        size.nodes_from = fmt::format("nodes={}", *nodes);
      }
    }
    if (is_npy(files.features)) add_features(files.features, size);
    if (!files.labels.empty()) add_labels(files.labels, size, files.label_kind);
    add_ids(files.features, NodeTable::Holds::features, size);
    add_ids(files.labels, NodeTable::Holds::labels, size, files.label_kind);
    for (const fs::path* const split : {&files.train, &files.valid, &files.test})
      if (!split->empty()) add_split(*split, size);
  } catch (const Error&) {
    return size;  // reading reports what is wrong
  }
  return size;
}

}  // namespace strata::graph
