// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/farewell.hpp"

#include "state.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {

Farewell::Farewell(const Communicator& world) : communicator_(world.duplicate()) {}

std::optional<int> Farewell::meet(bool has_own_news, std::chrono::milliseconds patience) const try {
  const GroupState& state = Internals::of(communicator_);
  const std::optional<std::int64_t> first =
      state.backend->min_within(has_own_news ? state.rank : state.size, patience);
  if (!first) return std::nullopt;
  return *first < state.size ? static_cast<int>(*first) : 0;
} catch (const CommError&) {  // a rank that is gone does not come
  return std::nullopt;
}

}  // namespace strata::comm
