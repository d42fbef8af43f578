// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/rpc/registry.hpp"

namespace strata::rpc {

/// These register the calls that optimizers and pipelines make.
void add_optimizer_calls(Registry& registry);
void add_pipeline_calls(Registry& registry);

}  // namespace strata::rpc
