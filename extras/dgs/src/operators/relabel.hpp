// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

namespace strata::dgs {

/// (distinct ids of `mapping` in the order in which they first appear, their positions in it for each of
/// `to_relabel`); -1 stands for an id that `mapping` lacks. All tensors have one type and one device.
using Relabeled = std::tuple<at::Tensor, std::vector<at::Tensor>>;
Relabeled relabel(const std::vector<at::Tensor>& mapping, const std::vector<at::Tensor>& to_relabel);

}  // namespace strata::dgs
