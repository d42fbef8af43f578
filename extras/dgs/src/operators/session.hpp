// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "strata/dgs/group.hpp"

/// The group of this process, which operators use without naming it, as in Dist-GPU-sampling.
namespace strata::dgs {

/// Numbers for the meeting place of a group's ranks. The caller must be its rank 0.
std::vector<std::int64_t> unique_id();
/// Joins the group. Collective over the ranks that got these numbers.
void join_group(std::int64_t size, const std::vector<std::int64_t>& id, std::int64_t rank);
void leave_group();  ///< collective

/// Throws InputError if this process is in no group. It stays until its last user is gone.
std::shared_ptr<Group> group();
std::shared_ptr<Group> group_if_any();

}  // namespace strata::dgs
