// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "readers/assemble.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/utf8.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

/// A key of "DIR,KEY=VALUE,..." and what to do with its value.
struct PlaceKey {
  const char* name;
  std::function<void(DatasetPlace&, std::string_view value)> take;
};

void take_choice(DatasetPlace& place, std::string_view value) { place.choice = value; }

void take_weight_column(DatasetPlace& place, std::string_view value) {
  Count column = -1;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), column);
  if (error != std::errc{} || stop != value.data() + value.size() || column < 0)
    throw InputError(fmt::format("weight={} is not a column", value),
                     "Give the column of the edge features that is the weight; columns count from 0.");
  place.weight_column = column;
}

/// Text that looks like ",KEY=VALUE" may belong to the folder's name, but only if this folder exists.
void refuse_unknown_key(std::string_view folder, const std::vector<PlaceKey>& keys) {
  const std::size_t comma = folder.rfind(','), equals = folder.find('=', comma);
  std::error_code ignored;
  if (comma == std::string_view::npos || equals == std::string_view::npos || fs::exists(folder, ignored))
    return;
  std::vector<std::string> names;
  for (const PlaceKey& key : keys) names.emplace_back(key.name);
  const std::string_view word = folder.substr(comma + 1, equals - comma - 1);
  const std::string near = closest(word, names);
  throw InputError(fmt::format("unknown key '{}' behind the folder", word),
                   near.empty() ? fmt::format("Known are: {}.", fmt::join(names, ", "))
                                : fmt::format("Did you mean '{}'?", near));
}

/// Keys are taken from the end: folders may have commas in their names.
DatasetPlace parse_place(std::string_view text, const std::vector<PlaceKey>& keys) {
  DatasetPlace place;
  std::vector<const PlaceKey*> taken;
  while (true) {
    const std::size_t comma = text.rfind(',');
    const std::string_view last = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    const auto key = std::ranges::find_if(
        keys, [&](const PlaceKey& known) { return last.starts_with(fmt::format("{}=", known.name)); });
    if (key == keys.end()) break;
    if (std::ranges::find(taken, &*key) != taken.end())
      throw InputError(fmt::format("{}= stands twice behind the folder", key->name), "Give it once.");
    key->take(place, last.substr(last.find('=') + 1));
    taken.push_back(&*key);
    text = text.substr(0, comma);
  }
  refuse_unknown_key(text, keys);
  place.folder = text;
  return place;
}

[[noreturn]] void refuse_scheme(const std::string& spec, std::string_view scheme) {
  const std::string near = closest(scheme, {"ogb", "graphbolt", "synthetic"});
  throw InputError(fmt::format("'{}' does not say what kind of graph it is", spec),
                   near.empty() ? "Write ogb:DIR, graphbolt:DIR or synthetic:KEY=VALUE,..."
                                : fmt::format("Did you mean '{}:'?", near));
}

}  // namespace

Graph read_graph(const std::string& spec, const ReadOptions& options) {
  const std::string_view text(spec);
  require_utf8(text, "the input's name");
  const std::size_t colon = text.find(':');
  const std::string_view scheme = text.substr(0, colon);
  if (colon == std::string_view::npos) refuse_scheme(spec, scheme);
  const std::string_view rest = text.substr(colon + 1);
  ThreadPool pool(options.num_threads);
  if (scheme == "ogb") {
    const std::vector<PlaceKey> keys{{"split", take_choice}, {"weight", take_weight_column}};
    return read_ogb(parse_place(rest, keys), options, pool);
  }
  if (scheme == "graphbolt") return read_graphbolt(parse_place(rest, {{"task", take_choice}}), options, pool);
  if (scheme == "synthetic") return generate(parse_synthetic(rest), options, pool);
  refuse_scheme(spec, scheme);
}

}  // namespace strata::graph
