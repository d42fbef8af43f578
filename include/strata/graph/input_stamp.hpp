// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

#include "strata/graph/read_graph.hpp"
#include "strata/graph/source.hpp"

namespace strata::graph {

/// The state of an input's files at one moment, for noticing changes while it is read: which ones,
/// how large and how old, also behind links.
class InputStamp {
 public:
  /// Looks at the files that the input's format names, at `files`, and at a file that says which part each
  /// node is in. Whatever else lies in the input's folder may change, such as a log. Generated graphs have no
  /// files of their own.
  explicit InputStamp(const Source& source, const NodeFiles& files = {},
                      const std::filesystem::path& parts_file = {});

  /// Throws InputError naming a file that changed or went since. Calls refuse_truncated_inputs().
  void require_unchanged() const;

 private:
  struct Stamp {
    std::uintmax_t device = 0, file = 0;  ///< where links lead, and what a file of the same name replaced
    std::int64_t bytes = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  static std::optional<Stamp> look(const std::filesystem::path& file);  ///< nothing if there is none
  void add(const std::filesystem::path& file);

  std::map<std::filesystem::path, Stamp> stamps_;
};

/// Throws InputError once if an array of an input got shorter since it was mapped, which then reads as zeros.
void refuse_truncated_inputs();

}  // namespace strata::graph
