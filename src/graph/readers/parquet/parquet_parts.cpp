// SPDX-License-Identifier: Apache-2.0
#include "readers/parquet/parquet_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "readers/columns.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;
using As = ParquetWish::As;
using Kind = ParquetColumn::Kind;

constexpr Count kValuesAtOnce = Count{1} << 17;

/// Ids of nodes are text, or integers.
ParquetWish wish_for_ids(const ParquetTable& table, int column) {
  const bool words = table.columns()[at(column)].kind == Kind::text;
  return {.column = column, .as = words ? As::words : As::integers};
}

void log_roles(const ParquetTable& table, const TableRoles& roles) {
  spdlog::info("{}: {}", table.origin(), fmt::join(roles.notes, ", "));
  if (!roles.unread.empty()) spdlog::warn("{}: not read: {}", table.origin(), fmt::join(roles.unread, ", "));
}

const std::string& name_of(const ParquetTable& table, int column) { return table.columns()[at(column)].name; }

/// Refuses rows of a piece that have no value.
void refuse_missing(const TablePiece& piece, std::size_t index, const std::string& column) {
  const std::vector<Count>& missing = piece.columns[index].missing;
  if (missing.empty()) return;
  throw InputError(fmt::format("{}: no value", piece.place(missing[0], column)),
                   "Fill it in, or leave the row out.");
}

std::string shown(std::int64_t id) { return std::to_string(id); }
std::string shown(std::string_view word) { return fmt::format("'{}'", printable(word.substr(0, 40))); }

[[noreturn]] void refuse_id(std::int64_t id, const std::string& end, const std::string& place) {
  throw InputError(fmt::format("{}: id {}, but ids must be within [0, {})", place, id, end),
                   "Without a column id of the nodes' table, ids are the numbers of its rows, from 0.");
}

}  // namespace

ParquetNodes::ParquetNodes(std::vector<fs::path> files, const TableNames& names, Assembly& assembly)
    : assembly_(assembly), table_(std::move(files)), roles_(roles_of_nodes(table_, names)) {
  log_roles(table_, roles_);
  if (has_ids()) read_ids();
}

bool ParquetNodes::has_words() const { return has_ids() && wish_for_ids(table_, roles_.id).as == As::words; }

void ParquetNodes::read_ids() {
  const std::string& name = name_of(table_, roles_.id);
  table_.read({wish_for_ids(table_, roles_.id)}, kValuesAtOnce, [&](const TablePiece& piece) {
    refuse_missing(piece, 0, name);
    const ParquetPiece& ids = piece.columns[0];
    for (const std::int64_t id : ids.integers) number(id, piece, name);
    for (const std::string_view word : ids.words) {
      refuse_bad_name(word, piece, name);
      number(word, piece, name);
    }
    numbering_.require_room(
        assembly_.scratch, table_.origin(),
        "Give more --memory, or number the nodes from 0 and leave the column of ids out.");
  });
}

template <typename Id>
void ParquetNodes::number(Id id, const TablePiece& piece, const std::string& column) {
  const Count known = numbering_.size();
  if (const NodeId number = numbering_.number_of(id); number < known)
    throw InputError(fmt::format("{}: the id {} again, which node {} has",
                                 piece.place(known - piece.first_row, column), shown(id), number),
                     "Write a row per node.");
}

/// Refuses a name that cannot be written: names take one line each.
void ParquetNodes::refuse_bad_name(std::string_view word, const TablePiece& piece,
                                   const std::string& column) const {
  const std::string place = piece.place(numbering_.size() - piece.first_row, column);
  require_utf8(word, place);
  if (word.empty() || word.find('\n') != word.npos)
    throw InputError(fmt::format("{}: '{}' is no name of a node", place, printable(word)),
                     "Names are text without line breaks, and not empty.");
}

template <typename Id>
NodeId ParquetNodes::node_of(Id id, const TablePiece& piece, Count row, const std::string& column) const {
  if (has_ids()) {
    if (const auto found = numbering_.find(id)) return *found;
    throw InputError(fmt::format("{}: {} is no id of a node", piece.place(row, column), shown(id)),
                     fmt::format("{} needs a row for it.", table_.origin()));
  }
  if constexpr (std::is_same_v<Id, std::int64_t>) {
    if (id >= 0 && id < table_.rows()) return id;
    refuse_id(id, std::to_string(table_.rows()), piece.place(row, column));
  }
  throw Error("text without ids of nodes");  // require_ids_alike() refuses it
}

FeatureTable ParquetNodes::read_features() const {
  if (roles_.features.empty()) return {};
  std::vector<ParquetWish> wishes;
  Count cols = 0;
  for (const int column : roles_.features) {
    wishes.push_back({.column = column, .as = As::floats, .width = table_.width(column)});
    cols += wishes.back().width;
  }
  const FeatureMemory memory = allocate_features(table_.rows(), cols, DType::f32, assembly_.scratch);
  table_.read(wishes, kValuesAtOnce, [&](const TablePiece& piece) {
    float* out = reinterpret_cast<float*>(memory.bytes) + piece.first_row * cols;
    for (std::size_t i = 0; i < wishes.size(); out += wishes[i++].width)
      copy_features(piece, i, wishes[i], out, cols);
    if (assembly_.scratch != nullptr) assembly_.scratch->trim();
  });
  return memory.table;
}

/// Copies a column to rows that are `stride` apart.
void ParquetNodes::copy_features(const TablePiece& piece, std::size_t index, const ParquetWish& wish,
                                 float* out, Count stride) const {
  const std::string& column = name_of(table_, wish.column);
  refuse_missing(piece, index, column);
  const float* values = piece.columns[index].floats.data();
  for (Count row = 0; row < piece.rows(); ++row, values += wish.width) {
    std::copy_n(values, wish.width, out + row * stride);
    if (const float* const bad =
            std::find_if_not(values, values + wish.width, [](float value) { return std::isfinite(value); });
        bad != values + wish.width)
      throw InputError(fmt::format("{}: feature {}", piece.place(row, column), *bad),
                       "Features must be finite; replace missing values first, by 0 or a mean.");
  }
}

void ParquetNodes::read_target(Graph& nodes) const {
  if (roles_.label >= 0) read_labels(nodes);
  if (roles_.split >= 0) read_splits(nodes);
}

void ParquetNodes::read_labels(Graph& nodes) const {
  const std::string& column = name_of(table_, roles_.label);
  const ParquetWish wish{.column = roles_.label, .as = As::doubles, .width = table_.width(roles_.label)};
  nodes.multi_label = wish.width > 1;
  nodes.num_classes = nodes.multi_label ? wish.width : 0;
  table_.read({wish}, kValuesAtOnce, [&](const TablePiece& piece) {
    const std::string origin =
        fmt::format("{}: row group {}, column '{}'", piece.file.string(), piece.row_group, printable(column));
    const NodeLabels labels = labels_of(
        {.values = piece.columns[0].doubles, .cols = wish.width, .first_row = piece.first_of_group}, origin);
    nodes.labels.insert(nodes.labels.end(), labels.values.begin(), labels.values.end());
  });
}

void ParquetNodes::read_splits(Graph& nodes) const {
  const std::string& column = name_of(table_, roles_.split);
  Splits& splits = nodes.splits;
  const std::map<std::string, std::vector<NodeId>*> known{
      {"train", &splits.train}, {"valid", &splits.valid},
      {"val", &splits.valid},   {"validation", &splits.valid},
      {"test", &splits.test},   {"", nullptr},
      {"none", nullptr}};
  table_.read({{.column = roles_.split, .as = As::words}}, kValuesAtOnce, [&](const TablePiece& piece) {
    for (Count row = 0; row < piece.rows(); ++row) {
      std::string word(piece.columns[0].words[at(row)]);
      std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
      const auto split = known.find(word);
      if (split == known.end())
        throw InputError(fmt::format("{}: split '{}' is not known", piece.place(row, column),
                                     printable(word.substr(0, 40))),
                         "Known are train, valid (or val, validation), test, and none or no value.");
      if (split->second != nullptr) split->second->push_back(piece.first_row + row);
    }
  });
}

ParquetEdges::ParquetEdges(std::vector<fs::path> files, const TableNames& names, Assembly& assembly)
    : assembly_(assembly), table_(std::move(files)), roles_(roles_of_edges(table_, names)) {
  log_roles(table_, roles_);
}

ParquetEdges::Read ParquetEdges::read(const Ends& nodes) const {
  const std::vector<int> ends{roles_.source, roles_.target};
  const ParquetNodes* const of[] = {nodes.sources, nodes.targets};
  std::vector<ParquetWish> wishes;
  for (std::size_t end = 0; end < 2; ++end) {
    require_ids_alike(ends[end], of[end]);
    wishes.push_back(wish_for_ids(table_, ends[end]));
  }
  const bool weighted = roles_.weight >= 0;
  if (weighted) wishes.push_back({.column = roles_.weight, .as = As::floats});
  Read read{.pairs = EdgeBuffer(table_.origin(), assembly_.scratch), .weights = {}};
  if (weighted) read.weights.emplace(assembly_.scratch);
  std::vector<NodeId> pairs;
  table_.read(wishes, kValuesAtOnce, [&](const TablePiece& piece) {
    pairs.resize(2 * at(piece.rows()));
    for (std::size_t end = 0; end < 2; ++end) take_ends(piece, end, of[end], pairs);
    read.pairs.append(pairs, piece.share_read);
    if (weighted) read.weights->append(checked_weights(piece));
  });
  return read;
}

/// Ids of edges are what the nodes' table has as ids: integers or text. Without it they are numbers.
void ParquetEdges::require_ids_alike(int column, const ParquetNodes* nodes) const {
  const bool words = nodes != nullptr && nodes->has_words();
  if ((wish_for_ids(table_, column).as == As::words) == words) return;
  throw InputError(
      fmt::format("{}: column '{}' is of type {}, but {}", table_.origin(),
                  printable(name_of(table_, column)), table_.columns()[at(column)].type,
                  words
                      ? fmt::format("the ids in {} are text", nodes->table().origin())
                      : std::string(nodes != nullptr && nodes->has_ids() ? "the ids of the nodes are integers"
                                                                         : "no table of nodes has such ids")),
      "Ids that are not the numbers 0 to N - 1 are looked up in the column id of the table of nodes: "
      "write both with one type.");
}

/// Puts the sources or the targets into the pairs.
void ParquetEdges::take_ends(const TablePiece& piece, std::size_t end, const ParquetNodes* nodes,
                             std::vector<NodeId>& pairs) const {
  const std::string& column = name_of(table_, end == 0 ? roles_.source : roles_.target);
  refuse_missing(piece, end, column);
  const ParquetPiece& ids = piece.columns[end];
  if (nodes == nullptr) {
    for (std::size_t row = 0; row < ids.integers.size(); ++row) {
      const std::int64_t id = ids.integers[row];
      if (id < 0) refuse_id(id, "number of nodes", piece.place(static_cast<Count>(row), column));
      pairs[2 * row + end] = id;
    }
    return;
  }
  const auto take = [&](const auto& values) {
    for (std::size_t row = 0; row < values.size(); ++row)
      pairs[2 * row + end] = nodes->node_of(values[row], piece, static_cast<Count>(row), column);
  };
  take(ids.integers);
  take(ids.words);
}

const std::vector<float>& ParquetEdges::checked_weights(const TablePiece& piece) const {
  const std::string& column = name_of(table_, roles_.weight);
  const std::vector<float>& weights = piece.columns[2].floats;
  refuse_missing(piece, 2, column);
  const auto bad = std::ranges::find_if_not(weights, is_edge_weight);
  if (bad == weights.end()) return weights;
  throw InputError(fmt::format("{}: weight {} is negative or not finite",
                               piece.place(bad - weights.begin(), column), *bad),
                   "Weights are finite numbers from 0; an edge of weight 0 is never sampled.");
}

std::vector<std::string> typed_parquet_tables(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with('.') || name.starts_with('_')) continue;
    if (name.ends_with(".parquet"))
      name.resize(name.size() - std::string_view(".parquet").size());
    else if (!entry.is_directory(code))
      continue;
    if (const std::size_t dash = name.rfind('-'); dash != name.npos && !entry.is_directory(code) &&
                                                  name.find_first_not_of("0123456789", dash + 1) == name.npos)
      name.resize(dash);
    if (!table_files(folder, name).empty()) names.insert(name);
  }
  return {names.begin(), names.end()};
}

bool has_parquet_types(const fs::path& folder) {
  const std::vector<std::string> tables = typed_parquet_tables(folder / "edges");
  return !tables.empty() && std::ranges::all_of(tables, [](const std::string& name) {
    const std::size_t first = name.find("__");
    return first != name.npos && name.find("__", first + 2) != name.npos;
  });
}

}  // namespace strata::graph
