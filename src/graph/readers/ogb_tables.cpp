// SPDX-License-Identifier: Apache-2.0
#include "readers/ogb_tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "readers/csv.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

CsvTable<NodeId> read_numbers(const fs::path& path, ThreadPool& pool) {
  return read_csv<NodeId>(path, {.rows = std::nullopt, .cols = 1, .rows_from = {}}, pool);
}

}  // namespace

bool has_ogb_types(const fs::path& place) {
  return fs::exists(place / "raw" / "edge_index_dict.npz") ||
         find_ogb_table(place / "raw", "triplet-type-list").has_value();
}

std::optional<fs::path> find_ogb_table(const fs::path& folder, const std::string& name) {
  for (const char* const ending : {".csv.gz", ".csv"}) {
    const fs::path path = folder / (name + ending);
    if (fs::exists(path)) return path;
  }
  return std::nullopt;
}

fs::path require_ogb_table(const fs::path& folder, const std::string& name) {
  if (const auto path = find_ogb_table(folder, name)) return *path;
  throw InputError(
      fmt::format("{}: no such file", (folder / (name + ".csv.gz")).string()),
      "An OGB folder holds raw/edge.csv.gz, raw/num-node-list.csv.gz and so on, or raw/data.npz.");
}

Count read_ogb_count(const fs::path& folder, const std::string& name, ThreadPool& pool) {
  const fs::path path = require_ogb_table(folder, name);
  const CsvTable<NodeId> table = read_numbers(path, pool);
  if (table.rows != 1)
    throw InputError(fmt::format("{}: {} graphs", path.string(), table.rows),
                     "Only sets of one graph are supported.");
  if (table.values[0] < 0)
    throw InputError(fmt::format("{}:1: {} is negative", path.string(), table.values[0]),
                     "Correct the number.");
  return table.values[0];
}

std::optional<fs::path> ogb_split_folder(const fs::path& place, const std::string& name) {
  const fs::path splits = place / "split";
  std::vector<std::string> names;
  if (fs::is_directory(splits))
    for (const auto& entry : fs::directory_iterator(splits))
      if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  if (name.empty() && names.empty()) return std::nullopt;
  if (name.empty() && names.size() == 1) return splits / names.front();
  if (std::ranges::find(names, name) != names.end()) return splits / name;
  throw InputError(
      name.empty() ? fmt::format("{}: several splits", splits.string())
                   : fmt::format("{}: no split '{}'", splits.string(), name),
      fmt::format("Choose with ogb:{},split=NAME; there are: {}.", place.string(), fmt::join(names, ", ")));
}

Splits read_ogb_splits(const fs::path& folder, ThreadPool& pool) {
  const auto read = [&](const char* name) {
    return read_numbers(require_ogb_table(folder, name), pool).values;
  };
  return {.train = read("train"), .valid = read("valid"), .test = read("test")};
}

}  // namespace strata::graph
