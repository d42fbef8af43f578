// SPDX-License-Identifier: Apache-2.0
#include "step/not_finite.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace strata::train {
namespace {

/// Seeds in a message: enough to find the nodes in the input, and few enough to read.
constexpr std::size_t kNamedSeeds = 8;

std::string describe_seeds(const std::vector<NodeId>& seeds) {
  const std::vector<NodeId> first(
      seeds.begin(), seeds.begin() + static_cast<std::ptrdiff_t>(std::min(kNamedSeeds, seeds.size())));
  return fmt::format("seeds {}{}", fmt::join(first, ", "),
                     seeds.size() > kNamedSeeds ? fmt::format(", ... {} in all", seeds.size()) : "");
}

}  // namespace

std::string describe(const NotFinite& found, const comm::Communicator& communicator) {
  const std::vector<std::string> all = communicator.all_gather(found.mine ? describe_seeds(found.seeds) : "");
  std::string ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty())
      ranks += fmt::format("{}rank {} ({})", ranks.empty() ? "" : "; ", rank, all[rank]);
  }
  return fmt::format("the loss of epoch {}, step {} is not finite on {}", found.epoch, found.step,
                     ranks.empty() ? "no single rank, but in their sum" : ranks);
}

}  // namespace strata::train
