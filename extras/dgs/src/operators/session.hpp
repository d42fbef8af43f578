// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "strata/dgs/group.hpp"

/// The group of this process, which the operators name nowhere, as Dist-GPU-sampling has it.
namespace strata::dgs {

/// Numbers that say where the ranks of a group meet. Whoever calls it must be its rank 0.
std::vector<std::int64_t> unique_id();
/// Collective over the ranks that got these numbers.
void join_group(std::int64_t size, const std::vector<std::int64_t>& id, std::int64_t rank);
void leave_group();  ///< collective

/// Throws InputError if this process is in no group. It stays until its last user is gone.
std::shared_ptr<Group> group();
std::shared_ptr<Group> group_if_any();

}  // namespace strata::dgs
