// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "strata/cuda/device.hpp"

namespace strata::python {

/// Work on a thread of its own; Python's thread waits for it in pieces, so that Ctrl-C ends the wait. The
/// work itself goes on then: nothing else of this kind begins before it has ended.
class Interruptible {
 public:
  virtual ~Interruptible() = default;

  /// Called with the GIL. Throws what Python's signal handlers raise; `work` is kept until it has ended.
  static void run(std::shared_ptr<Interruptible> work);
  /// Waits, for a signal at most, until no work is left behind: for what uses the same things and is too
  /// short for a thread of its own. Called with the GIL.
  static void finish_left();
  /// Waits for at most `milliseconds`; returns whether no work is left behind. Called with the GIL.
  static bool await_left(int milliseconds);

  /// A call that waits, for others or for long work, in pieces of kPiece.
  class Wait {
   public:
    static constexpr std::chrono::milliseconds kPiece{100};  ///< as long as a signal may wait
    /// Called between pieces, with the GIL: runs Python's signal handlers, throws their exceptions, and calls
    /// the function of on_second() about once per second.
    void go_on();
    /// `watch` is called with the time that a call has waited.
    static void on_second(std::function<void(std::chrono::seconds)> watch);

   private:
    std::int64_t pieces_ = 0;
  };

 protected:
  virtual void call() = 0;

 private:
  struct Left;
  static std::vector<std::shared_ptr<Left>>& left();
};

/// Returns or throws what `function` does. That runs without the GIL on a thread that uses `device`, and owns
/// all that it reads, because it outlives the call if a signal ends the wait.
template <typename Function>
auto interruptible(Device device, Function function) {
  using Result = std::invoke_result_t<Function&>;
  using Kept = std::conditional_t<std::is_void_v<Result>, bool, Result>;
  struct Work final : Interruptible {
    Work(Device d, Function f) : device(d), function(std::move(f)) {}
    void call() override try {
      const cuda::DeviceGuard guard(device);
      if constexpr (std::is_void_v<Result>)
        function();
      else
        result = function();
    } catch (...) {
      error = std::current_exception();
    }
    Device device;
    Function function;
    std::optional<Kept> result;
    std::exception_ptr error;
  };
  const auto work = std::make_shared<Work>(device, std::move(function));
  Interruptible::run(work);
  if (work->error) std::rethrow_exception(work->error);
  if constexpr (!std::is_void_v<Result>) return std::move(*work->result);
}

/// Bytes whose gathering takes long enough for a thread that costs 0.1 ms, and is short on any machine.
inline std::int64_t long_gather_bytes(Device device) {
  return std::int64_t{32} << (device.is_cuda() ? 25 : 20);
}

/// The same where the work is long, else on this thread, without the GIL.
template <typename Function>
auto interruptible_if(bool is_long, Device device, Function function) {
  if (is_long) return interruptible(device, std::move(function));
  Interruptible::finish_left();
  const nb::gil_scoped_release guard;
  const cuda::DeviceGuard on_device(device);
  return function();
}

}  // namespace strata::python
