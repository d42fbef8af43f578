// SPDX-License-Identifier: Apache-2.0
#include "readers/column_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <span>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {
namespace {

/// The usual names of a role, the most usual first, without capitals and separators between words.
std::span<const std::string_view> usual_names(ColumnRole role) {
  static constexpr std::string_view kSource[] = {"src",    "source",   "from",       "fromnodeid", "fromnode",
                                                 "fromid", "sourceid", "sourcenode", "srcid"};
  static constexpr std::string_view kTarget[] = {"dst",        "target", "destination", "to",
                                                 "tonodeid",   "tonode", "toid",        "targetid",
                                                 "targetnode", "dstid",  "dest"};
  static constexpr std::string_view kWeight[] = {"weight", "edgeweight"};
  static constexpr std::string_view kId[] = {"id", "node", "nodeid"};
  static constexpr std::string_view kLabel[] = {"label", "y"};
  static constexpr std::string_view kSplit[] = {"split"};
  switch (role) {
    case ColumnRole::source:
      return kSource;
    case ColumnRole::target:
      return kTarget;
    case ColumnRole::weight:
      return kWeight;
    case ColumnRole::id:
      return kId;
    case ColumnRole::label:
      return kLabel;
    case ColumnRole::split:
      return kSplit;
  }
  return {};
}

std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name)
    if (c != '_' && c != '-' && c != ' ')
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// Whether a column holds the numbers of edges, or those of rows, which pandas and R write without a name.
bool numbers_edges(std::string_view name) {
  const std::string word = plain(name);
  return word.empty() || word == "id" || word == "eid" || word == "edgeid" || word == "index" ||
         word == "unnamed:0";
}

std::string shown(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(fmt::format("'{}'", printable(name)));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

}  // namespace

bool has_role(std::string_view name, ColumnRole role) {
  const std::string word = plain(name);
  return std::ranges::find(usual_names(role), word) != usual_names(role).end();
}

int find_column(const std::vector<std::string>& names, ColumnRole role) {
  for (const std::string_view usual : usual_names(role))
    for (std::size_t column = 0; column < names.size(); ++column)
      if (plain(names[column]) == usual) return static_cast<int>(column);
  return -1;
}

int require_column(const std::vector<std::string>& names, const std::string& name, const std::string& option,
                   const std::string& origin) {
  auto found = std::ranges::find(names, name);
  if (found == names.end()) found = std::ranges::find(names, plain(name), plain);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  const std::string near = closest(name, names);
  throw InputError(fmt::format("{}: no column '{}', which {}= names", origin, printable(name), option),
                   names.empty()  ? std::string("No line names the columns: give a number, counted from 0.")
                   : near.empty() ? fmt::format("There are {}.", shown(names))
                                  : fmt::format("Did you mean '{}'?", printable(near)));
}

EdgeEnds ends_of_edges(EdgeEnds asked, const std::vector<std::string>& names, const std::string& origin) {
  EdgeEnds ends = asked;
  if (ends.source < 0) ends.source = find_column(names, ColumnRole::source);
  if (ends.target < 0) ends.target = find_column(names, ColumnRole::target);
  const bool usual_places = (ends.source < 0 || ends.source == 0) && (ends.target < 0 || ends.target == 1);
  const bool by_place = ends.source < 0 || ends.target < 0;
  if (ends.source < 0) ends.source = 0;
  if (ends.target < 0) ends.target = 1;
  const auto is_number = [&](int column) {
    return at(column) < names.size() && numbers_edges(names[at(column)]);
  };
  const bool asked_one = asked.source >= 0 || asked.target >= 0;
  if (by_place && !asked_one && (!usual_places || is_number(ends.source) || is_number(ends.target)))
    throw InputError(fmt::format("{}: which columns have the two nodes of an edge? They are called {}",
                                 origin, shown(names)),
                     "Say source=COLUMN,target=COLUMN, by name or counted from 0: source=1,target=2.");
  return ends;
}

bool is_no_feature(std::string_view name) {
  return has_role(name, ColumnRole::label) || has_role(name, ColumnRole::split) || name.ends_with("_mask") ||
         name.ends_with("_MASK");
}

}  // namespace strata::graph
