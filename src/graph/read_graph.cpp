#include <fmt/format.h>

#include <string>
#include <string_view>

#include "assemble.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::graph {
namespace {

/// "DIR" or "DIR,KEY=CHOICE". The last comma counts: folders may have commas in their names.
DatasetPlace parse_place(std::string_view text, std::string_view key) {
  const std::string marker = fmt::format(",{}=", key);
  const std::size_t at = text.rfind(marker);
  if (at == std::string_view::npos) return {.folder = std::string(text), .choice = {}};
  return {.folder = std::string(text.substr(0, at)), .choice = std::string(text.substr(at + marker.size()))};
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
  const std::size_t colon = text.find(':');
  const std::string_view scheme = text.substr(0, colon);
  if (colon == std::string_view::npos) refuse_scheme(spec, scheme);
  const std::string_view rest = text.substr(colon + 1);
  ThreadPool pool(options.num_threads);
  if (scheme == "ogb") return read_ogb(parse_place(rest, "split"), options, pool);
  if (scheme == "graphbolt") return read_graphbolt(parse_place(rest, "task"), options, pool);
  if (scheme == "synthetic") return generate(parse_synthetic(rest), options, pool);
  refuse_scheme(spec, scheme);
}

}  // namespace strata::graph
