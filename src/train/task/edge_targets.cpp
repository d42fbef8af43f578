// SPDX-License-Identifier: Apache-2.0
#include "task/edge_targets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/label_shape.hpp"

namespace strata::train {
namespace {

constexpr Count kMostClasses = 1 << 20;

template <typename T>
T value_at(const graph::NpyArray& array, Count i) {
  T value;
  std::memcpy(&value, array.data + at(i) * sizeof(T), sizeof(T));
  return value;
}

/// Calls read(value) for all elements; false for a type that is not one of T.
template <typename... T>
bool visit(const graph::NpyArray& array, char kind, const auto& read) {
  const auto try_type = [&]<typename Type>(Type) {
    if (!array.is(kind, sizeof(Type))) return false;
    for (Count i = 0; i < array.size(); ++i) read(value_at<Type>(array, i));
    return true;
  };
  return (try_type(T()) || ...);
}

}  // namespace

void EdgeTargets::require_file() const {
  if (path.empty())
    throw InputError("--targets is missing: edges have nothing that is to be learned or scored",
                     "Give a .npy file with a row per edge, in the order of the input.");
}

void EdgeTargets::require(std::span<const Link> links, const LinkTypes& types) const {
  require_file();
  for (const Link& link : links)
    if (link.edge < 0 || types.row_of(link) >= num_edges())
      throw InputError(fmt::format("--targets {}: the file has {} rows, but the graph has the edge {}", path,
                                   num_edges(), types.row_of(link)),
                       "Give a row per edge of the relations that are learned, as the input lists them.");
}

EdgeTargets read_edge_targets(const std::string& path, bool numbers) {
  const graph::NpyArray array = graph::read_npy(path);
  const bool one = array.shape.size() == 1, several = array.shape.size() == 2 && !array.fortran_order;
  if (!(one || (several && array.shape[1] > 0)))
    throw InputError(fmt::format("--targets {}: an array {}", path, array.shape_text()),
                     "Give one target per edge, or a row of numbers.");
  EdgeTargets targets{.path = path, .cols = one ? 1 : array.shape[1]};
  targets.words.reserve(at(array.size()));
  if (numbers) {
    const auto add = [&](double value) {
      targets.words.push_back(std::isfinite(value) ? std::bit_cast<std::int32_t>(static_cast<float>(value))
                                                   : kMissingTarget);
    };
    const bool is_read = visit<float, double>(array, 'f', add) ||
                         visit<std::int8_t, std::int32_t, std::int64_t>(array, 'i', add) ||
                         visit<std::uint8_t>(array, 'u', add);
    if (!is_read)
      throw InputError(fmt::format("--targets {}: elements are {}, not numbers", path, array.type_name()),
                       "Give float32 or float64.");
    return targets;
  }
  const auto add = [&](std::int64_t value) {
    if (value >= kMostClasses)
      throw InputError(fmt::format("--targets {}: the class {}", path, value), "Number classes from 0.");
    targets.words.push_back(value < 0 ? -1 : static_cast<std::int32_t>(value));
    targets.classes = std::max(targets.classes, value + 1);
  };
  const bool is_read = one && (visit<std::int8_t, std::int32_t, std::int64_t>(array, 'i', add) ||
                               visit<std::uint8_t>(array, 'u', add) || visit<bool>(array, 'b', add));
  if (!is_read)
    throw InputError(fmt::format("--targets {}: {} {}, not one class per edge", path, array.type_name(),
                                 array.shape_text()),
                     "Give integers, or learn numbers: --loss mse.");
  if (targets.classes < 2)
    throw InputError(
        fmt::format("--targets {}: all edges are of one class, and there is nothing to learn", path),
        "Give two classes or more.");
  return targets;
}

}  // namespace strata::train
