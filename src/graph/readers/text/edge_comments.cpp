// SPDX-License-Identifier: Apache-2.0
#include "readers/text/edge_comments.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <vector>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The text behind a word and the ":" or "=" that follows it; none if there is no such word.
std::optional<std::string_view> behind(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    if (at > 0 && is_letter(text[at - 1])) continue;
    std::string_view rest = text.substr(at + word.size());
    const auto skip_blanks = [&] {
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    };
    skip_blanks();
    if (rest.empty() || (rest[0] != ':' && rest[0] != '=')) continue;
    rest.remove_prefix(1);
    skip_blanks();
    return rest;
  }
  return std::nullopt;
}

/// The number behind a word, as "Nodes: 7,115"; none if another thing stands there.
std::optional<Count> number_behind(std::string_view text, std::string_view word) {
  constexpr Count kMost = Count{1} << 48;
  const auto rest = behind(text, word);
  if (!rest || rest->empty() || !is_digit(rest->front())) return std::nullopt;
  Count number = 0;
  std::size_t at = 0;
  for (; at < rest->size(); ++at) {
    const char c = (*rest)[at];
    const bool groups = c == ',' && at + 3 < rest->size() &&
                        std::ranges::all_of(rest->substr(at + 1, 3), is_digit);  // of thousands
    if (groups) continue;
    if (!is_digit(c)) break;
    number = 10 * number + (c - '0');
    if (number > kMost) return std::nullopt;
  }
  const bool fraction = at + 1 < rest->size() && (*rest)[at] == '.' && is_digit((*rest)[at + 1]);
  return fraction ? std::nullopt : std::optional(number);
}

}  // namespace

void EdgeComments::note(std::string_view comment) {
  std::string text;
  for (const char c : comment) text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (text.starts_with("%%matrixmarket"))
    throw InputError(fmt::format("{}: a Matrix Market file, not a list of edges", path_),
                     fmt::format("Give mtx:{}.", path_));
  text.erase(0, text.find_first_not_of("#% \t"));
  if (comment[comment.find_first_not_of(" \t")] == '%') note_konect(text);
  note_direction(text);
  for (const char* const word : {"nodes", "vertices"})
    if (const auto number = number_behind(text, word); number && !nodes_) nodes_ = number;
  for (const char* const word : {"edges", "arcs", "links"})
    if (const auto number = number_behind(text, word); number && !edges_) edges_ = number;
}

/// Notes the first statement: a line that begins with the word, "a directed graph", or
/// "directed: yes".
void EdgeComments::note_direction(const std::string& text) {
  if (undirected_) return;
  for (const bool undirected : {true, false}) {
    const std::string word = undirected ? "undirected" : "directed";
    if (const auto value = behind(text, word); value && !value->empty()) {
      const bool no = value->starts_with("false") || value->starts_with("no") || value->starts_with("0");
      const bool yes = value->starts_with("true") || value->starts_with("yes") || value->starts_with("1");
      if (no || yes) {
        undirected_ = undirected == yes;
        return;
      }
    }
    const std::size_t graph = text.find(word + " graph");
    const bool begins =
        text.starts_with(word) && (text.size() == word.size() || !is_letter(text[word.size()]));
    if (begins || (graph != text.npos && (graph == 0 || !is_letter(text[graph - 1])))) {
      undirected_ = undirected;
      return;
    }
  }
}

/// Notes "% asym positive", and perhaps "% 5 4 4" behind it: edges, and nodes twice.
void EdgeComments::note_konect(const std::string& text) {
  static constexpr std::array<std::string_view, 9> kWeights{
      "unweighted", "positive",      "posweighted",      "signed", "multisigned",
      "weighted",   "multiweighted", "multiposweighted", "dynamic"};
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.size() == 2 && (words[0] == "sym" || words[0] == "asym" || words[0] == "bip") &&
      std::ranges::find(kWeights, words[1]) != kWeights.end()) {
    if (words[0] == "bip")
      throw InputError(
          fmt::format("{}: a bipartite graph of KONECT: both kinds of nodes count from 1", path_),
          "Graphs of one kind of nodes are read: number those of the second kind after the first.");
    konect_ = true;
    undirected_ = words[0] == "sym";
    return;
  }
  const bool numbers = std::ranges::all_of(
      words, [](const std::string& word) { return word.size() < 15 && std::ranges::all_of(word, is_digit); });
  if (!konect_ || !numbers || words.empty() || words.size() > 3 || edges_) return;
  edges_ = std::stoll(words[0]);
  if (words.size() > 1) nodes_ = std::stoll(words[1]);
}

void EdgeComments::check_nodes(Count nodes, bool renumbered) const {
  if (!nodes_ || nodes == *nodes_) return;
  const std::string stated = fmt::format("{}: its comments state {} nodes", path_, format_count(*nodes_));
  if (renumbered && nodes < *nodes_) {
    spdlog::warn("{}; {} have edges, and the others are left out", stated, format_count(nodes));
    return;
  }
  throw InputError(
      renumbered ? fmt::format("{}, but {} different ids have edges", stated, format_count(nodes))
                 : fmt::format("{}, but ids go to {}", stated, format_count(nodes - 1)),
      renumbered
          ? "Copy the file again, or correct the comment."
          : fmt::format("Give ids=sparse, which numbers the nodes that have edges anew, or nodes={} if all "
                        "these nodes exist.",
                        nodes));
}

/// Checks the number of edges. Undirected ones may be listed at both nodes, and self-loops once then.
void EdgeComments::check_edges(Count edges, Count self_loops) const {
  if (!edges_ || edges == *edges_) return;
  const Count twice = 2 * *edges_;
  if (undirected_.value_or(false) && (edges == twice || edges + self_loops == twice)) return;
  throw InputError(fmt::format("{}: its comments state {} edges, but it has {}", path_, format_count(*edges_),
                               format_count(edges)),
                   "Copy the file again, which may be cut off, or correct the comment.");
}

}  // namespace strata::graph
