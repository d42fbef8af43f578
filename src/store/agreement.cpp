#include "agreement.hpp"

#include <fmt/format.h>

#include <exception>
#include <string>

#include "strata/util/error.hpp"

namespace strata::store {
namespace {

enum class Kind : char { input = 'i', memory = 'm', other = 'o' };

/// A failure as a blob: kind, message, a zero byte, remedy. Empty when nothing failed.
std::string encode(const std::exception& error) {
  Kind kind = Kind::other;
  if (dynamic_cast<const InputError*>(&error) != nullptr) kind = Kind::input;
  if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) kind = Kind::memory;
  const auto* typed = dynamic_cast<const Error*>(&error);
  return static_cast<char>(kind) + std::string(error.what()) + '\0' + (typed ? typed->remedy() : "");
}

[[noreturn]] void throw_failure_of(int rank, const std::string& blob) {
  const std::size_t end = blob.find('\0');
  const std::string message = blob.substr(1, end - 1), remedy = blob.substr(end + 1);
  switch (static_cast<Kind>(blob[0])) {
    case Kind::input:
      throw InputError(message, remedy);
    case Kind::memory:
      throw OutOfMemory(message, remedy);
    default:
      throw CommError(fmt::format("rank {} of this communicator failed: {}", rank, message), remedy);
  }
}

}  // namespace

void agree(const comm::Communicator& communicator, const std::function<void()>& work) {
  std::string failure;
  std::exception_ptr own;
  try {
    work();
  } catch (const std::exception& error) {
    failure = encode(error);
    own = std::current_exception();
  }
  const std::vector<std::string> failures = communicator.all_gather(failure);
  if (own) std::rethrow_exception(own);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty()) throw_failure_of(static_cast<int>(rank), failures[rank]);
  }
}

}  // namespace strata::store
