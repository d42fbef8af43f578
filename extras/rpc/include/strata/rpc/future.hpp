// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace strata::rpc {

/// Where callbacks run: threads of an agent.
class Workers;

/// Something that will be done, well or badly. Thread safe.
class Completion {
 public:
  explicit Completion(std::weak_ptr<Workers> workers) : workers_(std::move(workers)) {}
  virtual ~Completion() = default;

  /// These set the outcome; only the first has an effect. The caller keeps this until they return.
  void succeed() { finish(nullptr); }
  void fail(std::exception_ptr error) { finish(std::move(error)); }

  /// Both look without sleeping at first, as long as the agent's threads do.
  void wait();                                    ///< rethrows the error
  bool wait_for(std::chrono::milliseconds time);  ///< whether it is done by then; throws nothing
  bool is_done() const { return done_; }
  std::exception_ptr error() const;  ///< null if there is none yet
  /// Runs `callback` on a thread of the agent when this is done, for the AutogradContext of the thread that
  /// calls then(). Destroys it without running it if the agent ends before.
  void then(std::function<void()> callback);
  const std::weak_ptr<Workers>& workers() const { return workers_; }

 protected:
  /// Sets a result, with the lock held, unless this is done already; returns whether it was not.
  bool finish(
      std::exception_ptr error, const std::function<void()>& set_result = [] {});

 private:
  bool is_done_soon() const;

  const std::weak_ptr<Workers> workers_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> done_ = false;  // written with the lock held
  std::exception_ptr error_;
  std::vector<std::function<void()>> continuations_;
};

/// What keeps this also keeps a promise: `completion` fails when the last of them is gone, unless it is done.
std::shared_ptr<void> keep_promise(std::shared_ptr<Completion> completion);

/// The answer of a call that is under way; a handle that copies share.
///
///     rpc::Future<int> sum = agent.async("worker1", &add, 1, 2);
///     sum.then([](rpc::Future<int> done) { return done.wait() + 1; }).wait();   // 4
template <typename T>
class Future {
 public:
  Future() = default;
  Future(std::shared_ptr<Completion> completion, std::function<T()> take)
      : completion_(std::move(completion)), take_(std::move(take)) {}

  /// Waits for the answer and returns it, or throws the call's error. Called at most once.
  T wait() {
    completion_->wait();
    return take_();
  }
  bool wait_for(std::chrono::milliseconds time) const { return completion_->wait_for(time); }
  bool is_done() const { return completion_->is_done(); }
  std::exception_ptr error() const { return completion_->error(); }  ///< null: none, or not done yet

  /// Calls `callback` with this future on a thread of the agent once it is done; returns the future of what
  /// it returns or throws. If the agent ends before, that is a CommError. Calls that it makes belong to the
  /// AutogradContext of the thread that calls then().
  template <typename Callback, typename U = std::invoke_result_t<Callback, Future>>
  Future<U> then(Callback callback) {
    struct Result final : Completion {
      using Completion::Completion;
      using Completion::finish;
      std::conditional_t<std::is_void_v<U>, std::monostate, std::optional<U>> value;
    };
    const auto result = std::make_shared<Result>(completion_->workers());
    completion_->then(
        [result, callback = std::move(callback), self = *this, promise = keep_promise(result)]() mutable {
          try {
            if constexpr (std::is_void_v<U>) {
              callback(std::move(self));
              result->succeed();
            } else {
              U value = callback(std::move(self));
              result->finish(nullptr, [&] { result->value = std::move(value); });
            }
          } catch (...) {
            result->fail(std::current_exception());
          }
        });
    return Future<U>(result, [result]() -> U {
      if constexpr (!std::is_void_v<U>) return std::move(*result->value);
    });
  }

 private:
  std::shared_ptr<Completion> completion_;
  std::function<T()> take_;
};

/// Waits for all of them, and returns what they return, or throws the first one's error.
template <typename T>
auto wait_for_all(std::vector<Future<T>> futures) {
  std::vector<std::conditional_t<std::is_void_v<T>, std::monostate, T>> results;
  std::exception_ptr error;
  for (Future<T>& future : futures) {
    try {
      if constexpr (std::is_void_v<T>)
        future.wait();
      else
        results.push_back(future.wait());
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
  if constexpr (!std::is_void_v<T>) return results;
}

}  // namespace strata::rpc
