// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <utility>

namespace strata::doctor {

/// Returns what `work` returns, or nothing if it takes longer than `patience`, as reading from a file system
/// that does not answer may. It then goes on in a thread of its own, so it must own all that it uses. Throws
/// what it throws.
template <typename Work>
auto within(std::chrono::milliseconds patience, Work work) -> std::optional<decltype(work())> {
  std::packaged_task<decltype(work())()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(patience) != std::future_status::ready) return std::nullopt;
  return result.get();
}

}  // namespace strata::doctor
