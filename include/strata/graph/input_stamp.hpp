// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "strata/graph/read_graph.hpp"
#include "strata/graph/source.hpp"

namespace strata::graph {

/// The sizes and times of the files of an input at one moment, by which changes are noticed while it is read.
class InputStamp {
 public:
  /// Looks at all files below the input's folder and at `files`; generated graphs have none.
  explicit InputStamp(const Source& source, const NodeFiles& files = {});

  /// Throws InputError naming a file that changed or went since. Calls refuse_truncated_inputs().
  void require_unchanged() const;

 private:
  struct Stamp {
    std::uintmax_t bytes = 0;
    std::filesystem::file_time_type changed{};
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::map<std::filesystem::path, Stamp>;
  Stamps look() const;

  std::vector<std::filesystem::path> places_;
  Stamps stamps_;
};

/// Throws InputError once if an array of an input got shorter since it was mapped, which then reads as zeros.
void refuse_truncated_inputs();

}  // namespace strata::graph
