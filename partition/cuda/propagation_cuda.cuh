// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "multilevel/cluster.hpp"

namespace strata::partition {

/// Does propagate() on the current GPU.
Labels propagate_cuda(const LevelGraph& graph, const ClusterOptions& options, std::int64_t list_bytes);

}  // namespace strata::partition
