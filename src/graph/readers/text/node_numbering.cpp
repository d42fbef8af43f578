// SPDX-License-Identifier: Apache-2.0
#include "readers/text/node_numbering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

std::string text_of(std::int64_t id) { return std::to_string(id); }
std::string text_of(std::string_view name) { return std::string(name); }

template <typename Map>
NodeNumbering::Order order_of(const Map& numbers) {
  std::vector<std::pair<typename Map::key_type, NodeId>> sorted(numbers.begin(), numbers.end());
  std::ranges::sort(sorted);
  NodeNumbering::Order order;
  order.place.resize(sorted.size());
  for (std::size_t place = 0; place < sorted.size(); ++place) {
    order.place[at(sorted[place].second)] = static_cast<NodeId>(place);
    order.names += text_of(sorted[place].first) + "\n";
  }
  return order;
}

// Bytes per node: a table entry (the table doubles when it grows), the sorted copy, and the final text.
constexpr std::int64_t kIdBytes = 32 + 24 + 16 + 8 + 24, kWordBytes = 32 + 48 + 24 + 24 + 8 + 24;

}  // namespace

std::int64_t NodeNumbering::bytes() const {
  return std::ssize(ids_) * kIdBytes + std::ssize(words_) * kWordBytes + 3 * letters_;
}

void NodeNumbering::require_room(const ScratchStore* scratch, const std::string& origin,
                                 const char* remedy) const {
  if (scratch == nullptr || bytes() <= scratch->capacity() / 2) return;
  throw OutOfMemory(
      fmt::format("{}: the names of its first {} nodes take {}, there is room for {}", origin,
                  format_count(size()), format_bytes(bytes()), format_bytes(scratch->capacity() / 2)),
      remedy);
}

std::string NodeNumbering::names() const {
  std::vector<std::int64_t> ids(ids_.size());
  for (const auto& [id, number] : ids_) ids[at(number)] = id;
  std::string lines;
  for (const std::int64_t id : ids) lines += text_of(id) + "\n";
  for (const std::string& word : kept_) lines += word + "\n";
  return lines;
}

NodeNumbering::Order NodeNumbering::order() const { return ids_.empty() ? order_of(words_) : order_of(ids_); }

}  // namespace strata::graph
