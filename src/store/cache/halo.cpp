// SPDX-License-Identifier: Apache-2.0
#include "strata/store/halo.hpp"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <numeric>

#include "strata/util/error.hpp"

namespace strata::store {

NodeIndex::NodeIndex(std::span<const NodeId> nodes, NodeId num_nodes)
    : nodes_(nodes.size()), positions_(nodes.size()) {
  if (nodes.empty()) return;
  if (nodes.size() > at(std::numeric_limits<std::int32_t>::max()))
    throw Error(fmt::format("{} nodes of other machines are too many to keep (2^31 - 1)", nodes.size()));
  const auto ids_per_bucket = static_cast<std::uint64_t>(num_nodes) / nodes.size();
  shift_ = static_cast<int>(std::bit_width(ids_per_bucket));
  const auto bucket_of = [this](NodeId node) { return at(node >> shift_); };
  first_.assign(bucket_of(num_nodes) + 2, 0);
  for (const NodeId node : nodes) ++first_[bucket_of(node) + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  std::vector<std::uint32_t> next(first_);
  for (std::size_t position = 0; position < nodes.size(); ++position) {
    const std::uint32_t place = next[bucket_of(nodes[position])]++;
    nodes_[place] = nodes[position];
    positions_[place] = static_cast<std::int32_t>(position);
  }
}

}  // namespace strata::store
