// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "strata/graph/part_file.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {

PartitionBook::PartitionBook(std::vector<NodeId> offsets) : offsets_{std::move(offsets)} {
  if (offsets_.empty() || offsets_.front() != 0)
    throw InputError("partition book: offsets do not begin with 0");
  const auto fall = std::is_sorted_until(offsets_.begin(), offsets_.end());
  if (fall != offsets_.end()) {
    throw InputError(fmt::format("partition book: offset {} is {}, below {} before it",
                                 fall - offsets_.begin(), *fall, *(fall - 1)));
  }
}

int PartitionBook::part_of(NodeId global) const {
  // upper_bound skips empty parts: of several equal offsets the last part owns the id.
  return static_cast<int>(std::upper_bound(offsets_.begin(), offsets_.end(), global) - offsets_.begin()) - 1;
}

std::vector<int> parts_of_machines(int num_parts, int num_machines) {
  if (num_machines < 1 || num_machines > num_parts) {
    throw InputError(
        fmt::format("{} cannot be spread over {}", counted(num_parts, "part"),
                    counted(num_machines, "machine")),
        "Use at most as many machines as parts (--ranks-per-machine puts more ranks on one, and machines of "
        "--cluster says how many a plan is for), or make more parts: strata-partition repartition.");
  }
  std::vector<int> first{0};
  for (int m = 0; m < num_machines; ++m) {
    first.push_back(first.back() + num_parts / num_machines + (m < num_parts % num_machines ? 1 : 0));
  }
  return first;
}

}  // namespace strata::graph
