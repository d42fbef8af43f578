#pragma once
#include <functional>

#include "strata/comm/communicator.hpp"

namespace strata::store {

/// Runs `work` on every rank and throws on all of them if one threw: its own exception where it threw;
/// elsewhere the failure of the lowest rank that failed, with its type if that is OutOfMemory or InputError,
/// as a CommError otherwise.
///
/// Collective over `communicator`; `work` must not be, or must fail on all ranks alike.
void agree(const comm::Communicator& communicator, const std::function<void()>& work);

}  // namespace strata::store
