// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hold_out.hpp"
#include "readers/text/class_tables.hpp"
#include "readers/text/fields.hpp"
#include "readers/text/line_blocks.hpp"
#include "readers/text/node_numbering.hpp"
#include "readers/text/triple_buffer.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEntity = "entity";

/// The words of a line: the two ends of an edge, and its relation. An empty object is a literal that is left
/// out.
struct Triple {
  std::string subject, predicate, object;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  Lines rest(text);
  for (std::string_view line; rest.next(line);) lines.emplace_back(line);
  return lines;
}

/// Calls parse(line, place) -> Triple for every line that is no comment and take(triples, share of the file).
template <typename Parsed, typename Parse, typename Take>
void read_lines(const fs::path& path, Count first_line, ThreadPool& pool, const Parse& parse,
                const Take& take) {
  LineBlocks blocks(path);
  const std::string name = path.string();
  parse_blocks<std::vector<Parsed>>(
      blocks, pool,
      [&](const Block& block, std::vector<Parsed>& piece) {
        Lines lines(block.text);
        Count number = block.line;
        for (std::string_view line; lines.next(line); ++number)
          if (number >= first_line && !is_comment(line, "#"))
            piece.push_back(parse(line, place_of(line, number, block, name)));
      },
      [&](std::vector<Parsed>& piece) { take(piece, blocks.share_read()); });
}

/// The terms of a line of N-Triples.
class TermsOfLine {
 public:
  TermsOfLine(std::string_view line, const Place& place) : rest_(line), place_(place) {
    place.require_utf8(line);
  }

  Triple read(bool with_literals) {
    Triple triple{.subject = node(), .predicate = iri("a predicate"), .object = {}};
    skip_blanks();
    if (!rest_.starts_with('"'))
      triple.object = node();
    else if (std::string text = literal(); with_literals)
      triple.object = std::move(text);
    skip_blanks();
    if (!rest_.starts_with('.')) place_.refuse("no '.' behind the object", kRemedy);
    rest_.remove_prefix(1);
    if (!is_comment(rest_, "#")) place_.refuse("text behind the '.'", kRemedy);
    return triple;
  }

 private:
  static constexpr const char* kRemedy =
      "A line is a triple: <subject> <predicate> <object> . Other formats of RDF are converted by rdflib or "
      "rapper.";

  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size())); }
  std::string_view take(std::size_t length) {
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  /// The text between < and >.
  std::string iri(const char* what) {
    skip_blanks();
    const std::size_t end = rest_.find('>');
    if (!rest_.starts_with('<') || end == rest_.npos || end == 1 ||
        rest_.substr(0, end).find_first_of(" \t\"") != rest_.npos)
      place_.refuse(fmt::format("no <name> of {}", what), kRemedy);
    return std::string(take(end + 1).substr(1, end - 1));
  }

  std::string node() {
    skip_blanks();
    if (!rest_.starts_with("_:")) return iri("a node");
    const std::string_view name = take(std::min(rest_.find_first_of(" \t<\""), rest_.size()));
    if (name.size() == 2) place_.refuse("a blank node without a name", kRemedy);
    return std::string(name);
  }

  /// A literal with its quotes, and its language or type.
  std::string literal() {
    std::size_t close = 1;
    while (close < rest_.size() && rest_[close] != '"') close += rest_[close] == '\\' ? 2 : 1;
    if (close >= rest_.size()) place_.refuse("a quotation mark is not closed", kRemedy);
    std::string text(take(close + 1));
    if (rest_.starts_with('@')) text += take(std::min(rest_.find_first_of(" \t"), rest_.size()));
    if (!rest_.starts_with("^^")) return text;
    take(2);
    return text + "^^<" + iri("a type") + ">";
  }

  std::string_view rest_;
  const Place& place_;
};

/// Triples of training, then those of validation, then those of test. Files of the last two may be missing.
using FilesOfSplits = std::array<fs::path, 3>;

/// A graph of triples, and how many edges of each relation are before those of validation, and of test.
struct Triples {
  TypedParts parts;
  std::vector<Count> before_valid = {}, before_test = {};
};

/// Reads the files of all splits by read(path), which appends to `triples`. Returns the numbers of triples
/// before those of validation and of test.
template <typename Read>
std::array<Count, 2> read_splits(const FilesOfSplits& files, const TripleBuffer& triples, const Read& read) {
  std::array<Count, 2> before{};
  for (std::size_t split = 0; split < files.size(); ++split) {
    if (split > 0) before[split - 1] = triples.size();
    if (!files[split].empty()) read(files[split]);
  }
  return before;
}

Triples by_relation(TripleBuffer& triples, const std::array<Count, 2>& before, TypedParts::Nodes entities,
                    const std::vector<std::string>& relations) {
  Triples result;
  result.before_valid = triples.counts(before[0], relations.size());
  result.before_test = triples.counts(before[1], relations.size());
  result.parts.nodes = {std::move(entities)};
  result.parts.edges = triples.by_relation(kEntity, relations);
  return result;
}

/// Triples of names. Nodes and relations are numbered in the order of their names.
class NamedTriples {
 public:
  explicit NamedTriples(FilesOfSplits files) : files_(std::move(files)), triples_(files_.front().string()) {}

  template <typename Parse>
  Triples read(ThreadPool& pool, const Parse& parse) {
    const std::array<Count, 2> before = read_splits(files_, triples_, [&](const fs::path& path) {
      read_lines<Triple>(path, 1, pool, parse,
                         [&](std::vector<Triple>& piece, double share) { take(piece, share); });
    });
    NodeNumbering::Order entities = entities_.order(), relations = relations_.order();
    triples_.renumber(entities.place, relations.place, pool);
    Triples triples = by_relation(
        triples_, before, {.type = kEntity, .count = entities_.size(), .names = std::move(entities.names)},
        lines_of(relations.names));
    triples.parts.name = files_.front().stem().stem().string();
    return triples;
  }
  Count left_out() const { return left_out_; }

 private:
  void take(const std::vector<Triple>& piece, double share) {
    std::vector<NodeId> pairs;
    std::vector<std::int32_t> relations;
    for (const Triple& triple : piece) {
      const NodeId subject = entities_.number_of(triple.subject);
      if (triple.object.empty()) {
        ++left_out_;
        continue;
      }
      pairs.push_back(subject);
      pairs.push_back(entities_.number_of(triple.object));
      relations.push_back(static_cast<std::int32_t>(relations_.number_of(triple.predicate)));
    }
    triples_.append(pairs, relations, share);
  }

  FilesOfSplits files_;
  TripleBuffer triples_;
  NodeNumbering entities_, relations_;
  Count left_out_ = 0;
};

/// A file of OpenKE: a line with a number of lines, and these lines.
class CountedFile {
 public:
  explicit CountedFile(fs::path path) : path_(std::move(path)) {
    LineBlocks blocks(path_);
    Block block;
    std::string_view line;
    if (blocks.next(block)) Lines(block.text).next(line);
    const std::string name = path_.string();
    const Place place = place_of(line, 1, block, name);
    FieldsOfLine fields(line, " ", place);
    stated_ = number_of<Count>(fields.next().value_or(""), place, "number of lines", kRemedy);
    if (fields.next() || stated_ < 0) place.refuse("not one number of lines", kRemedy);
  }

  Count stated() const { return stated_; }

  template <typename Parsed, typename Parse, typename Take>
  void read(ThreadPool& pool, const Parse& parse, const Take& take) const {
    Count read = 0;
    read_lines<Parsed>(path_, 2, pool, parse, [&](std::vector<Parsed>& piece, double share) {
      read += std::ssize(piece);
      take(piece, share);
    });
    if (read != stated_)
      throw InputError(
          fmt::format("{}: {} lines behind the first, which says {}", path_.string(), read, stated_),
          "Copy the file again, or correct its first line.");
  }

 private:
  static constexpr const char* kRemedy =
      "The first line of a *2id.txt has the number of the lines behind it.";

  fs::path path_;
  Count stated_ = 0;
};

struct NamedId {
  std::string name;
  Count id = 0;
};

/// The names of entity2id.txt or relation2id.txt by their ids.
std::vector<std::string> read_names(const fs::path& path, ThreadPool& pool) {
  const CountedFile file(path);
  std::vector<NamedId> read;
  const auto parse = [](std::string_view line, const Place& place) {
    place.require_utf8(line);
    const std::size_t blank = line.find_last_of(" \t"), end = line.find_last_not_of(" \t", blank);
    if (blank == line.npos || end == line.npos) place.refuse("not a name and its id");
    return NamedId{std::string(line.substr(0, end + 1)),
                   number_of<Count>(line.substr(blank + 1), place, "id")};
  };
  file.read<NamedId>(pool, parse, [&](std::vector<NamedId>& piece, double) {
    std::ranges::move(piece, std::back_inserter(read));
  });
  std::vector<std::string> names(read.size());
  for (NamedId& entry : read) {
    if (entry.id < 0 || entry.id >= std::ssize(names) || !names[at(entry.id)].empty())
      throw InputError(fmt::format("{}: the id {} stands twice, or is not one of {}", path.string(), entry.id,
                                   names.size()),
                       "Ids count from 0, one per line.");
    names[at(entry.id)] = std::move(entry.name);
  }
  return names;
}

using NumberedTriple = std::array<NodeId, 3>;  // head, tail, relation

[[noreturn]] void refuse_number(const fs::path& path, const char* what, NodeId number, Count count,
                                const char* file) {
  throw InputError(fmt::format("{}: the {} {}, but {} has {}", path.string(), what, number, file, count),
                   "Lines of train2id.txt are: head tail relation.");
}

/// Triples of numbers as OpenKE has them.
Triples read_numbered(const fs::path& folder, const FilesOfSplits& files, ThreadPool& pool) {
  const fs::path& path = files.front();
  TripleBuffer triples(path.string());
  const auto parse = [](std::string_view line, const Place& place) {
    FieldsOfLine fields(line, " ", place);
    NumberedTriple ids{};
    for (NodeId& id : ids) {
      id = number_of<NodeId>(fields.next().value_or(""), place, "id", "A line is: head tail relation.");
      if (id < 0 || (&id == &ids[2] && id > std::numeric_limits<std::int32_t>::max()))
        place.refuse(fmt::format("the id {} is out of range", id), "Ids count from 0.");
    }
    if (fields.next()) place.refuse("more than a head, a tail and a relation");
    return ids;
  };
  const auto read = [&](const fs::path& file) {
    CountedFile(file).read<NumberedTriple>(pool, parse,
                                           [&](const std::vector<NumberedTriple>& piece, double share) {
                                             std::vector<NodeId> pairs;
                                             std::vector<std::int32_t> relations;
                                             for (const NumberedTriple& ids : piece) {
                                               pairs.insert(pairs.end(), ids.begin(), ids.begin() + 2);
                                               relations.push_back(static_cast<std::int32_t>(ids[2]));
                                             }
                                             triples.append(pairs, relations, share);
                                           });
  };
  const std::array<Count, 2> before = read_splits(files, triples, read);
  std::vector<std::string> entities, relations;
  if (fs::exists(folder / "entity2id.txt")) entities = read_names(folder / "entity2id.txt", pool);
  if (fs::exists(folder / "relation2id.txt")) relations = read_names(folder / "relation2id.txt", pool);
  if (entities.empty())
    for (NodeId v = 0; v < num_nodes_for(triples.largest(), path.string()); ++v)
      entities.push_back(std::to_string(v));
  if (relations.empty())
    for (std::int32_t r = 0; r <= triples.largest_relation(); ++r) relations.push_back(std::to_string(r));
  if (triples.largest() >= std::ssize(entities))
    refuse_number(path, "entity", triples.largest(), std::ssize(entities), "entity2id.txt");
  if (triples.largest_relation() >= std::ssize(relations))
    refuse_number(path, "relation", triples.largest_relation(), std::ssize(relations), "relation2id.txt");
  Triples result = by_relation(triples, before,
                               {.type = kEntity,
                                .count = std::ssize(entities),
                                .names = fmt::format("{}\n", fmt::join(entities, "\n"))},
                               relations);
  result.parts.name = fs::weakly_canonical(folder).filename().string();
  return result;
}

/// A line "head relation tail" with tabs between, or blanks where there is no tab.
Triple named_triple(std::string_view line, const Place& place) {
  place.require_utf8(line);
  FieldsOfLine fields(line, line.find('\t') == line.npos ? " " : "\t", place);
  Triple triple;
  for (std::string* const word : {&triple.subject, &triple.predicate, &triple.object}) {
    *word = fields.next().value_or("");
    if (word->empty()) place.refuse("not a head, a relation and a tail");
  }
  if (fields.next()) place.refuse("more than a head, a relation and a tail");
  return triple;
}

/// Holds the edges of validation and test out of the lists. Relations beyond those that were read are their
/// reverses, in the same order.
void hold_out_splits(const Triples& triples, Graph& graph) {
  const std::size_t listed = triples.before_valid.size();
  graph.undirected = false;
  hold_out(graph, [&](int relation, NodeId, NodeId, EdgeId edge) {
    const std::size_t number = at(Count{relation}), of = number % listed;
    const Count within = graph.types.edge_offsets.empty() ? edge : edge - graph.types.edge_offsets[number];
    return within < triples.before_valid[of]  ? Split::train
           : within < triples.before_test[of] ? Split::valid
                                              : Split::test;
  });
  spdlog::info("{}: {} and {} of validation and test are held out of the neighbor lists", graph.name,
               counted(graph.edge_splits.valid.size(), "edge"), format_count(graph.edge_splits.test.size()));
}

Graph finish(Triples triples, const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  TypedParts& parts = triples.parts;
  bool has_splits = false;
  for (std::size_t r = 0; r < parts.edges.size(); ++r)
    has_splits = has_splits || parts.edges[r].list.count > triples.before_valid[r];
  if (has_splits && assembly.scratch != nullptr)
    throw OutOfMemory(
        fmt::format("{}: triples with validation and test are read into memory, not into files", parts.name),
        "Give more --memory, or use a host with more.");
  if (parts.edges.empty())
    throw InputError(fmt::format("{}: no triple between two nodes", source.place.string()),
                     "Is it the right file? Literals are nodes only with ',literals'.");
  if (source.reverse) add_reverses(parts);
  assembly.targets = {0};
  Graph graph = join_types(std::move(parts), options, assembly);
  if (has_splits) hold_out_splits(triples, graph);
  return graph;
}

/// The files of a folder that are there; none without the first.
FilesOfSplits files_in(const fs::path& folder, const char* ending) {
  FilesOfSplits files;
  const std::array names{"train", "valid", "test"};
  for (std::size_t split = 0; split < names.size(); ++split)
    if (const fs::path path = folder / (std::string(names[split]) + ending); fs::exists(path))
      files[split] = path;
  return files;
}

}  // namespace

Graph read_n_triples(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  NamedTriples reader({source.place});
  Triples triples = reader.read(assembly.pool, [&](std::string_view line, const Place& place) {
    return TermsOfLine(line, place).read(source.literals);
  });
  if (reader.left_out() > 0)
    spdlog::info("{}: {} with literals are left out; ',literals' makes the literals nodes",
                 source.place.string(), counted(reader.left_out(), "triple"));
  Graph graph = finish(std::move(triples), source, options, assembly);
  read_class_tables(source, assembly.pool, graph);
  return graph;
}

Graph read_triples(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  std::error_code code;
  if (!fs::is_directory(source.place, code))
    return finish(NamedTriples({source.place}).read(assembly.pool, named_triple), source, options, assembly);
  if (const FilesOfSplits files = files_in(source.place, "2id.txt"); !files.front().empty())
    return finish(read_numbered(source.place, files, assembly.pool), source, options, assembly);
  for (const char* const ending : {".txt", ".tsv"})
    if (const FilesOfSplits files = files_in(source.place, ending); !files.front().empty())
      return finish(NamedTriples(files).read(assembly.pool, named_triple), source, options, assembly);
  throw InputError(fmt::format("{}: neither train2id.txt, train.txt nor train.tsv", source.place.string()),
                   "A folder of triples has the training triples in one of these; or give the file itself.");
}

}  // namespace strata::graph
