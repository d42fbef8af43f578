// SPDX-License-Identifier: Apache-2.0
#include "readers/parquet/table_roles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "readers/column_names.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

using Kind = ParquetColumn::Kind;

class RolesOfTable {
 public:
  explicit RolesOfTable(const ParquetTable& table) : table_(table) {
    for (const ParquetColumn& column : table.columns()) names_.push_back(column.name);
  }

  const ParquetColumn& column(int index) const { return table_.columns()[at(index)]; }
  const std::vector<std::string>& names() const { return names_; }

  /// The column that was asked for, or -1.
  int asked(const std::string& name, const char* option) const {
    return name.empty() ? -1 : table_.require(name, option);
  }
  /// The same, or one with a usual name.
  int choose(const std::string& name, const char* option, ColumnRole role) const {
    return name.empty() ? find_column(names_, role) : table_.require(name, option);
  }

  /// Notes what a column is read for. Refuses one that is of none of the kinds, or does something else
  /// already.
  void take(int index, const char* role, std::initializer_list<Kind> kinds, bool may_be_lists,
            const char* wanted) {
    if (index < 0) return;
    const ParquetColumn& of = column(index);
    if (std::ranges::find(kinds, of.kind) == kinds.end() || (of.lists && !may_be_lists))
      throw InputError(fmt::format("{}: column '{}', read as {}, is of type {}", table_.origin(),
                                   printable(of.name), role, of.type),
                       fmt::format("{} Options name other columns: see docs/data.md.", wanted));
    if (std::ranges::find(taken_, index) != taken_.end())
      throw InputError(fmt::format("{}: column '{}' would be read twice, as {} too", table_.origin(),
                                   printable(of.name), role),
                       "Give a column per purpose.");
    taken_.push_back(index);
    notes_.push_back(fmt::format("{} from '{}'", role, printable(of.name)));
  }

  bool is_taken(int index) const { return std::ranges::find(taken_, index) != taken_.end(); }

  TableRoles summary() const {
    TableRoles summary{.notes = notes_};
    for (int index = 0; index < static_cast<int>(std::ssize(table_.columns())); ++index)
      if (!is_taken(index)) summary.unread.push_back(fmt::format("'{}'", printable(column(index).name)));
    return summary;
  }

 private:
  const ParquetTable& table_;
  std::vector<std::string> names_;
  std::vector<int> taken_;
  std::vector<std::string> notes_;
};

constexpr const char* kIds = "Ids of nodes are integers or text.";

}  // namespace

EdgeRoles roles_of_edges(const ParquetTable& edges, const TableNames& names) {
  if (edges.columns().size() < 2)
    throw InputError(fmt::format("{}: {}", edges.origin(), counted(std::ssize(edges.columns()), "column")),
                     "A table of edges has a column of sources and one of targets.");
  RolesOfTable roles(edges);
  EdgeRoles found;
  const EdgeEnds ends = ends_of_edges(
      {.source = roles.asked(names.source, "source"), .target = roles.asked(names.target, "target")},
      roles.names(), edges.origin());
  found.source = ends.source;
  found.target = ends.target;
  found.weight = roles.choose(names.weight, "weight", ColumnRole::weight);
  roles.take(found.source, "sources", {Kind::integer, Kind::text}, false, kIds);
  roles.take(found.target, "targets", {Kind::integer, Kind::text}, false, kIds);
  roles.take(found.weight, "weights", {Kind::integer, Kind::real}, false, "Weights are numbers.");
  static_cast<TableRoles&>(found) = roles.summary();
  return found;
}

NodeRoles roles_of_nodes(const ParquetTable& nodes, const TableNames& names) {
  RolesOfTable roles(nodes);
  NodeRoles found;
  found.id = roles.choose(names.id, "id", ColumnRole::id);
  found.label = roles.choose(names.label, "label", ColumnRole::label);
  found.split = roles.choose(names.split, "split", ColumnRole::split);
  roles.take(found.id, "ids", {Kind::integer, Kind::text}, false, kIds);
  roles.take(found.label, "labels", {Kind::integer, Kind::real, Kind::boolean}, true,
             "Labels are numbers of classes, or lists of 0 and 1.");
  roles.take(found.split, "splits", {Kind::text}, false, "Splits are the words train, valid and test.");
  for (const std::string& name : names.features) found.features.push_back(nodes.require(name, "features"));
  if (names.features.empty())
    for (int index = 0; index < static_cast<int>(std::ssize(nodes.columns())); ++index)
      if (roles.column(index).is_number() && !roles.is_taken(index) &&
          !is_no_feature(roles.column(index).name))
        found.features.push_back(index);
  for (const int index : found.features)
    roles.take(index, "features", {Kind::integer, Kind::real, Kind::boolean}, true, "Features are numbers.");
  static_cast<TableRoles&>(found) = roles.summary();
  return found;
}

}  // namespace strata::graph
