// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "state.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

enum class Kind : char { input = 'i', memory = 'm', other = 'o' };

Kind kind_of(const std::exception& error) {
  if (dynamic_cast<const InputError*>(&error) != nullptr) return Kind::input;
  if (dynamic_cast<const std::out_of_range*>(&error) != nullptr) return Kind::input;
  if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) return Kind::memory;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return Kind::memory;
  return Kind::other;
}

bool is_echo(const std::exception& error) {
  const auto* typed = dynamic_cast<const Error*>(&error);
  return typed != nullptr && typed->is_echo();
}

/// The message to the other ranks: kind, message, a zero byte, remedy. An echo already names its rank.
std::string encode(const std::exception& error, const GroupState& state) {
  const auto* typed = dynamic_cast<const Error*>(&error);
  return static_cast<char>(kind_of(error)) + (is_echo(error) ? "" : state.who() + ": ") + error.what() +
         '\0' + (typed ? typed->remedy() : "");
}

[[noreturn]] void throw_echo(const std::string& blob) {
  const std::size_t end = blob.find('\0');
  const std::string message = blob.substr(1, end - 1), remedy = blob.substr(end + 1);
  const auto echo = [](auto error) {
    error.mark_as_echo();
    throw error;
  };
  switch (static_cast<Kind>(blob[0])) {
    case Kind::input:
      echo(InputError(message, remedy));
      break;
    case Kind::memory:
      echo(OutOfMemory(message, remedy));
      break;
    case Kind::other:
      break;
  }
  echo(CommError(message, remedy));
  std::terminate();
}

/// Rethrows as an echo: this rank failed, too, but another one reports the error. std::bad_alloc has no place
/// for that, so the error of that rank stands for it.
[[noreturn]] void rethrow_as_echo(const std::exception_ptr& own, const std::string& blob) {
  try {
    std::rethrow_exception(own);
  } catch (Error& error) {
    error.mark_as_echo();
    throw;
  } catch (const std::bad_alloc&) {
    throw_echo(blob);
  }
}

}  // namespace

void Communicator::together(const std::function<void()>& work) const {
  const GroupState& state = Internals::of(*this);
  std::string blob;
  std::exception_ptr own;
  std::int64_t first_failed = std::int64_t{2} * state.size;  // echoes come after all others
  try {
    work();
  } catch (const std::exception& error) {
    blob = encode(error, state);
    own = std::current_exception();
    first_failed = state.rank + (is_echo(error) ? state.size : 0);
  }
  all_reduce(std::span(&first_failed, 1), Op::min);
  if (first_failed == std::int64_t{2} * state.size) return;
  const int speaker = static_cast<int>(first_failed) % state.size;
  broadcast(blob, speaker);
  if (speaker == state.rank) std::rethrow_exception(own);
  if (own) rethrow_as_echo(own, blob);
  throw_echo(blob);
}

}  // namespace strata::comm
