// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <ranges>
#include <vector>

#include "readers/parquet/parquet_table.hpp"
#include "readers/text/typed_tables.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;
using Format = DatasetSource::Format;

/// A key of "DIR,KEY=VALUE,..." or a word of "DIR,WORD,..." and what to do with it.
struct Key {
  const char* name;
  const char* value;  ///< as help shows it; null: a word without one
  void (*take)(DatasetSource& source, std::string_view key, std::string_view value);

  bool begins(std::string_view text) const {
    if (value == nullptr) return text == name;
    return text.starts_with(name) && text.substr(std::string_view(name).size()).starts_with('=');
  }
  std::string form() const { return value == nullptr ? name : fmt::format("{}={}", name, value); }
};

void take_choice(DatasetSource& source, std::string_view, std::string_view value) { source.choice = value; }

Count parse_count(std::string_view key, std::string_view value, const char* what, const char* remedy) {
  Count count = -1;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc{} || stop != value.data() + value.size() || count < 0)
    throw InputError(fmt::format("{}={} is not {}", key, value, what), remedy);
  return count;
}

void take_weight_column(DatasetSource& source, std::string_view key, std::string_view value) {
  source.weight_column = parse_count(
      key, value, "a column", "Give the column that holds the weights of edges; columns count from 0.");
}

void take_nodes(DatasetSource& source, std::string_view key, std::string_view value) {
  source.nodes = parse_count(key, value, "a number of nodes", "Give the number of nodes of the graph.");
}

/// A column of a list of edges: a number, or its name in the first line.
template <std::optional<Count> DatasetSource::*column, std::string TableNames::*name>
void take_column(DatasetSource& source, std::string_view key, std::string_view value) {
  if (value.empty())
    throw InputError(fmt::format("{}= names nothing", key), "Give a column, or leave it out.");
  if (value.find_first_not_of("0123456789") != value.npos)
    source.tables.*name = value;
  else
    source.*column = parse_count(key, value, "a column", "Columns count from 0, or have names.");
}

/// The value that a word stands for. Throws InputError with the words that are known, and what else there is.
template <typename T>
T one_of(std::string_view key, std::string_view value, const std::vector<std::pair<const char*, T>>& known,
         const char* others = "") {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : known) {
    if (word == value) return meaning;
    words.emplace_back(word);
  }
  throw InputError(fmt::format("{}={} is not known", key, value),
                   fmt::format("Known are: {}.{}", fmt::join(words, ", "), others));
}

void take_ids(DatasetSource& source, std::string_view key, std::string_view value) {
  using Ids = DatasetSource::Ids;
  source.ids =
      one_of<Ids>(key, value, {{"number", Ids::number}, {"sparse", Ids::sparse}, {"string", Ids::string}});
}

/// Takes a separator: its name, or itself; none of its characters may be part of a field.
void take_separator(DatasetSource& source, std::string_view key, std::string_view value) {
  const auto may_separate = [](unsigned char c) { return std::isgraph(c) && !std::isalnum(c) && c != '"'; };
  source.separator = value;
  if (value.empty() || !std::ranges::all_of(value, may_separate))
    source.separator = one_of<const char*>(
        key, value,
        {{"comma", ","}, {"semicolon", ";"}, {"tab", "\t"}, {"space", " "}, {"bar", "|"}, {"colon", ":"}},
        " Or give the separator itself, such as ::, without letters, digits, blanks and quotation marks.");
}

/// Takes a bound of times.
template <double DatasetSource::*bound>
void take_bound(DatasetSource& source, std::string_view key, std::string_view value) {
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), source.*bound);
  if (error != std::errc{} || stop != value.data() + value.size() || !std::isfinite(source.*bound))
    throw InputError(fmt::format("{}={} is not a time", key, value),
                     "Give a number, in the unit of the column that time= names.");
}

void take_header(DatasetSource& source, std::string_view key, std::string_view value) {
  source.header = one_of<bool>(key, value, {{"yes", true}, {"no", false}});
}

void take_classes(DatasetSource& source, std::string_view key, std::string_view value) {
  source.classes = one_of<Count>(key, value, {{"19", 19}, {"2983", 2983}});
}

void take_values(DatasetSource& source, std::string_view key, std::string_view value) {
  source.ignore_values = one_of<bool>(key, value, {{"ignore", true}, {"weights", false}});
}

/// Sets the name of a table or of a column in one.
template <std::string TableNames::*name>
void take_name(DatasetSource& source, std::string_view key, std::string_view value) {
  if (value.empty()) throw InputError(fmt::format("{}= names nothing", key), "Give a name, or leave it out.");
  source.tables.*name = value;
}

template <bool DatasetSource::*flag>
void take_flag(DatasetSource& source, std::string_view, std::string_view) {
  source.*flag = true;
}

void take_target(DatasetSource& source, std::string_view, std::string_view value) {
  if (value.empty()) throw InputError("target= names nothing", "Give a type of nodes, or leave it out.");
  source.target = value;
}

void take_scale(DatasetSource& source, std::string_view key, std::string_view value) {
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), source.scale);
  if (error != std::errc{} || stop != value.data() + value.size() || !(source.scale > 0 && source.scale <= 1))
    throw InputError(fmt::format("{}={} is not within (0, 1]", key, value),
                     "Give the share of IGBH-Full's nodes and edges, such as scale=0.01.");
}

void take_cols(DatasetSource& source, std::string_view key, std::string_view value) {
  source.cols = parse_count(key, value, "a number of columns", "Give the width of the features, or 0.");
}

void take_seed(DatasetSource& source, std::string_view key, std::string_view value) {
  source.seed = static_cast<std::uint64_t>(parse_count(key, value, "a seed", "Give a number from 0."));
}

void take_dtype(DatasetSource& source, std::string_view key, std::string_view value) {
  source.dtype = one_of<DType>(key, value, {{"f16", DType::f16}, {"f32", DType::f32}});
}

/// Takes the path of a table.
template <fs::path DatasetSource::*table>
void take_table(DatasetSource& source, std::string_view key, std::string_view value) {
  if (value.empty()) throw InputError(fmt::format("{}= names nothing", key), "Give a file, or leave it out.");
  source.*table = expand_home(std::string(value));
}

/// Takes names of columns with a + between them.
void take_features(DatasetSource& source, std::string_view key, std::string_view value) {
  for (const auto name : std::views::split(value, '+'))
    source.tables.features.emplace_back(name.begin(), name.end());
  if (value.empty() || std::ranges::find(source.tables.features, "") != source.tables.features.end())
    throw InputError(fmt::format("{}={}: a name is empty", key, value),
                     "Give names of columns: features=age+income.");
}

const Key kSplit{"split", "NAME", take_choice};
const Key kTask{"task", "NAME", take_choice};
const Key kWeight{"weight", "COLUMN", take_weight_column};
const Key kNodes{"nodes", "N", take_nodes};
const Key kSource{"source", "COLUMN", take_column<&DatasetSource::source_column, &TableNames::source>};
const Key kTarget{"target", "COLUMN", take_column<&DatasetSource::destination_column, &TableNames::target>};
const Key kListWeight{"weight", "COLUMN", take_column<&DatasetSource::weight_column, &TableNames::weight>};
const Key kIds{"ids", "number|sparse|string", take_ids};
const Key kSeparator{"separator", "NAME", take_separator};
const Key kTime{"time", "COLUMN", take_column<&DatasetSource::time_column, &TableNames::time>};
const Key kSince{"since", "T", take_bound<&DatasetSource::since>};
const Key kUntil{"until", "T", take_bound<&DatasetSource::until>};
const Key kHeader{"header", "yes|no", take_header};
const Key kClasses{"classes", "19|2983", take_classes};
const Key kValues{"values", "ignore", take_values};

const Key kTargetType{"target", "TYPE", take_target};
const Key kReverse{"reverse", nullptr, take_flag<&DatasetSource::reverse>};

const std::vector<Key> kTripleKeys{kReverse,
                                   {"literals", nullptr, take_flag<&DatasetSource::literals>},
                                   {"train", "FILE", take_table<&DatasetSource::train>},
                                   {"valid", "FILE", take_table<&DatasetSource::valid>},
                                   {"test", "FILE", take_table<&DatasetSource::test>},
                                   {"id", "COLUMN", take_name<&TableNames::id>},
                                   {"label", "COLUMN", take_name<&TableNames::label>}};

const std::vector<Key> kTableKeys{{"source", "COLUMN", take_name<&TableNames::source>},
                                  {"target", "COLUMN", take_name<&TableNames::target>},
                                  {"weight", "COLUMN", take_name<&TableNames::weight>},
                                  {"id", "COLUMN", take_name<&TableNames::id>},
                                  {"label", "COLUMN", take_name<&TableNames::label>},
                                  {"split", "COLUMN", take_name<&TableNames::split>},
                                  {"features", "COLUMN+...", take_features},
                                  {"edge-table", "NAME", take_name<&TableNames::edges>},
                                  {"node-table", "NAME", take_name<&TableNames::nodes>},
                                  kNodes,
                                  kReverse};

struct Dataset {
  const char* prefix;
  Format format;
  const char* place;  ///< as help shows it
  std::vector<Key> keys;
};

const std::vector<Dataset>& datasets() {
  static const std::vector<Key> list_keys{kIds,    kSource, kTarget, kListWeight, kNodes,  kSeparator,
                                          kHeader, kTime,   kSince,  kUntil,      kReverse};
  static const std::vector<Dataset> known{
      {"ogb", Format::ogb, "DIR", {kSplit, kWeight, kTargetType, kReverse}},
      {"graphbolt", Format::graphbolt, "DIR", {kTask, kTargetType, kReverse}},
      {"npy", Format::npy, "DIR", {kNodes, kTargetType, kReverse}},
      {"metis", Format::metis, "FILE", {}},
      {"csv", Format::edge_list, "FILE", list_keys},
      {"snap", Format::edge_list, "FILE", list_keys},
      {"mtx", Format::matrix_market, "FILE", {kValues}},
      {"igb", Format::igb, "DIR", {kClasses}},
      {"dgl", Format::dgl_chunked, "DIR", {kTargetType, kReverse}},
      {"parquet", Format::parquet, "DIR", kTableKeys},
      {"nt", Format::n_triples, "FILE", kTripleKeys},
      {"triples", Format::triples, "DIR", {kReverse}},
      {"igbh", Format::igbh, "DIR", {kClasses, kReverse}},
  };
  return known;
}

/// "synthetic:igbh,KEY=VALUE,...": a graph of several types that is made, whatever folders are called.
const Dataset& igbh_shape() {
  static const Dataset shape{"synthetic",
                             Format::synthetic_igbh,
                             "igbh",
                             {{"scale", "X", take_scale},
                              {"cols", "N", take_cols},
                              {"dtype", "f16|f32", take_dtype},
                              {"seed", "N", take_seed}}};
  return shape;
}

/// Text that looks like ",KEY=VALUE" may belong to the name of the place, but only if this place exists.
void refuse_unknown_key(std::string_view place, const std::vector<Key>& keys) {
  const std::size_t comma = place.rfind(','), equals = place.find('=', comma);
  std::error_code ignored;
  if (comma == std::string_view::npos || equals == std::string_view::npos || fs::exists(place, ignored))
    return;
  std::vector<std::string> names;
  for (const Key& key : keys) names.emplace_back(key.name);
  const std::string_view word = place.substr(comma + 1, equals - comma - 1);
  const std::string near = closest(word, names);
  throw InputError(fmt::format("unknown key '{}' behind {}", word, place.substr(0, comma)),
                   near.empty() ? fmt::format("Known are: {}.", fmt::join(names, ", "))
                                : fmt::format("Did you mean '{}'?", near));
}

/// Refuses keys that contradict each other.
void check_keys(const DatasetSource& source) {
  if (source.source_column && source.source_column == source.destination_column)
    throw InputError(fmt::format("source={0} and target={0} are one column", *source.source_column),
                     "Give two columns; they count from 0.");
  const bool bounded = std::isfinite(source.since) || std::isfinite(source.until);
  if (bounded && !source.time_column && source.tables.time.empty())
    throw InputError("since= and until= have no effect without time=",
                     "Give the column of times: time=COLUMN.");
  if (!(source.since < source.until))
    throw InputError(fmt::format("since={} is not before until={}", source.since, source.until),
                     "Edges are taken from since= on, to before until=.");
}

/// Parses a dataset's text; keys are taken from the end, because folders may have commas in their names.
DatasetSource parse_dataset(std::string_view text, const Dataset& dataset) {
  DatasetSource source{.format = dataset.format, .place = {}};
  std::vector<const Key*> taken;
  while (true) {
    const std::size_t comma = text.rfind(',');
    const std::string_view last = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    const auto key = std::ranges::find_if(dataset.keys, [&](const Key& known) { return known.begins(last); });
    if (key == dataset.keys.end()) break;
    if (std::ranges::find(taken, &*key) != taken.end())
      throw InputError(fmt::format("{}{} stands twice behind the {}", key->name,
                                   key->value == nullptr ? "" : "=", dataset.place),
                       "Give it once.");
    key->take(source, key->name, last.substr(last.find('=') + 1));
    taken.push_back(&*key);
    text = text.substr(0, comma);
  }
  source.place = expand_home(std::string(text));
  refuse_unknown_key(source.place.native(), dataset.keys);
  check_keys(source);
  if (source.place.empty())
    throw InputError(fmt::format("{}: names nothing", dataset.prefix),
                     fmt::format("Write {}:{}.", dataset.prefix, dataset.place));
  if (dataset.format == Format::n_triples || dataset.format == Format::triples)
    source.ids = DatasetSource::Ids::string;
  return source;
}

DatasetSource parse_igbh_shape(std::string_view text) {
  DatasetSource source = parse_dataset(text, igbh_shape());
  if (source.place != "igbh")
    throw InputError(fmt::format("synthetic: '{}' is no key of igbh", source.place.string()),
                     "Known are: scale, cols, dtype, seed.");
  source.place = "synthetic:igbh";
  return source;
}

bool is_prefix_like(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

/// Refuses "obg:DIR", unless a folder is really called so.
void refuse_unknown_prefix(const std::string& text, std::string_view prefix) {
  std::error_code ignored;
  if (!is_prefix_like(prefix) || fs::exists(text, ignored)) return;
  std::vector<std::string> prefixes{"synthetic", "planted"};
  for (const Dataset& dataset : datasets()) prefixes.emplace_back(dataset.prefix);
  std::string lower(prefix);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "pyg" || lower == "networkx")
    throw InputError(fmt::format("'{}:' is not read", prefix),
                     "Write the graph as NumPy arrays (examples/from_pyg.py, from_dgl.py, "
                     "from_networkx.py) and give npy:DIR.");
  const std::string near = closest(lower, prefixes);
  throw InputError(
      fmt::format("'{}' does not say what kind of graph it is: '{}:' is not known", text, prefix),
      near.empty() ? fmt::format("Known are: {}, or a partition directory.", fmt::join(dataset_forms(), ", "))
                   : fmt::format("Did you mean '{}:'?", near));
}

}  // namespace

Source::Source(std::string text) : text_(std::move(text)) {
  require_utf8(text_, "the graph's name");
  const std::size_t colon = text_.find(':');
  const std::string_view prefix = std::string_view(text_).substr(0, colon);
  if (colon == std::string::npos) {
    held_ = fs::path(expand_home(text_));
    return;
  }
  const std::string_view rest = std::string_view(text_).substr(colon + 1);
  const auto dataset = std::ranges::find(datasets(), prefix, &Dataset::prefix);
  if (prefix == "memory") {
    const std::size_t place = rest.rfind(';');
    if (place != std::string_view::npos) held_ = Source(rest.substr(place + 1)).held_;
    text_.resize(place == std::string_view::npos ? text_.size() : colon + 1 + place);
  } else if (prefix == "synthetic" && (rest == "igbh" || rest.starts_with("igbh,"))) {
    held_ = std::make_shared<const DatasetSource>(parse_igbh_shape(rest));
  } else if (prefix == "synthetic") {
    held_ = parse_synthetic(rest);
  } else if (prefix == "planted") {
    held_ = parse_planted(rest);
  } else if (dataset != datasets().end()) {
    held_ = std::make_shared<const DatasetSource>(parse_dataset(rest, *dataset));
  } else {
    refuse_unknown_prefix(text_, prefix);
    held_ = fs::path(text_);
  }
}

std::optional<PartsOrigin> Source::parts() const {
  const auto* directory = std::get_if<fs::path>(&held_);
  if (directory != nullptr && directory->empty() && !text_.empty())
    throw InputError(fmt::format("{} lay in the memory of a program", text_),
                     "Give the graph again, strata.train(data, resume=RUN), or --graph PARTS of the same "
                     "graph, which strata.partition(data, ...) writes.");
  if (directory != nullptr) return *directory;
  if (const auto* planted = std::get_if<PlantedSpec>(&held_)) return *planted;
  return std::nullopt;
}

const DatasetSource* Source::dataset() const {
  const auto* held = std::get_if<std::shared_ptr<const DatasetSource>>(&held_);
  return held == nullptr ? nullptr : held->get();
}

bool Source::is_in_memory() const { return text_.starts_with("memory:"); }

bool Source::is_generated() const {
  return synthetic() != nullptr || std::holds_alternative<PlantedSpec>(held_);
}

std::vector<std::string> dataset_forms() {
  constexpr std::size_t kMostShown = 4;
  std::vector<std::string> forms;
  for (const Dataset& dataset : datasets()) {
    std::string form = fmt::format("{}:{}", dataset.prefix, dataset.place);
    if (dataset.keys.size() > kMostShown) form += "[,KEY=VALUE,...]";
    if (dataset.keys.size() <= kMostShown)
      for (const Key& key : dataset.keys) form += fmt::format("[,{}]", key.form());
    forms.push_back(std::move(form));
  }
  forms.emplace_back("synthetic:KEY=VALUE,...");
  return forms;
}

std::string dataset_hint(const fs::path& path) {
  std::error_code ignored;
  const auto holds = [&](const char* name) { return fs::exists(path / name, ignored); };
  const std::string place = path.string();
  if (holds("metadata.json")) return "dgl:" + place;
  if (holds("processed/author")) return "igbh:" + place;
  if (holds("processed/paper")) return "igb:" + place;
  if (holds("metadata.yaml")) return "graphbolt:" + place;
  if (holds("raw")) return "ogb:" + place;
  if (holds("edges.parquet") || (holds("edges") && !table_files(path, "edges").empty()))
    return "parquet:" + place;
  if (holds("train2id.txt")) return "triples:" + place;
  if (holds("edge_index.npy") || holds("indptr.npy") || path.extension() == ".npz" ||
      (holds("nodes") && holds("edges"))) {
    const bool tables = holds("nodes") && !typed_tables(path / "nodes").empty();
    return (tables ? "csv:" : "npy:") + place;
  }
  const std::string name = path.filename().string();
  const auto names = [&](std::string_view ending) {
    return name.ends_with(ending) || name.ends_with(std::string(ending) + ".gz") ||
           name.ends_with(std::string(ending) + ".zst");
  };
  if (names(".mtx")) return "mtx:" + place;
  if (names(".graph") || names(".metis")) return "metis:" + place;
  if (names(".csv")) return "csv:" + place;
  if (names(".nt")) return "nt:" + place;
  if (names(".txt") || names(".tsv") || names(".edges")) return "snap:" + place;
  return "";
}

}  // namespace strata::graph
