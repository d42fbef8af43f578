// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "strata/graph/synthetic.hpp"

namespace strata::graph {

struct DatasetSource;

/// A graph as a user names it, parsed: the one place that knows the prefixes. A value.
///
///     parts                       a partition directory: any text without a prefix
///     planted:parts=4,...         parts that are made when they are opened
///     synthetic:KEY=VALUE,...     a generated graph
///     ogb:DIR[,KEY=VALUE,...]     a dataset on disk, in one of the formats of dataset_source.hpp
///     memory:WORDS;SOURCE         a copy of a graph in a program's memory, which lies in SOURCE during a call
///     memory:WORDS                the same when the copy is gone, as records of runs have it
class Source {
 public:
  Source() = default;
  /// Throws InputError for a prefix, key or value that is not known, with the nearest one, and for text that
  /// is not UTF-8. Files are looked at only to distinguish a folder's name from a misspelt prefix or key.
  Source(std::string text);
  Source(std::string_view text) : Source(std::string(text)) {}
  Source(const char* text) : Source(std::string(text)) {}

  const std::string& text() const { return text_; }  ///< as the user wrote it; memory: without SOURCE
  bool empty() const { return text_.empty(); }

  /// The parts that the source names; none if it is a dataset or a synthetic graph. Throws InputError if it
  /// names a copy that is gone.
  std::optional<PartsOrigin> parts() const;
  const SyntheticSpec* synthetic() const { return std::get_if<SyntheticSpec>(&held_); }
  const DatasetSource* dataset() const;  ///< null if it is none
  bool is_in_memory() const;             ///< memory:WORDS
  /// Whether the graph is made from the text, which then means the same on every host.
  bool is_generated() const;

 private:
  std::string text_;
  std::variant<std::filesystem::path, PlantedSpec, SyntheticSpec, std::shared_ptr<const DatasetSource>> held_;
};

}  // namespace strata::graph
