#pragma once
#include <exception>
#include <string>

#include "strata/comm/communicator.hpp"

namespace strata::comm {

/// Throws on all ranks if one has an exception: its own there, elsewhere a CommError with that rank, its host
/// and message. Collective.
void agree_on_failure(const Communicator& communicator, const std::string& failure, std::exception_ptr own);

}  // namespace strata::comm
