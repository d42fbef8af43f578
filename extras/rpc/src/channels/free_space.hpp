// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <map>
#include <optional>

namespace strata::rpc {

/// The free parts of a memory. A value.
class FreeSpace {
 public:
  FreeSpace(std::size_t begin, std::size_t bytes) {
    if (bytes > 0) free_.emplace(begin, bytes);
  }
  /// Takes the first free part that is large enough and returns its begin; nothing if there is none.
  std::optional<std::size_t> take(std::size_t bytes);
  void give_back(std::size_t begin, std::size_t bytes);

 private:
  std::map<std::size_t, std::size_t> free_;  // bytes by offset; no two touch
};

}  // namespace strata::rpc
