// SPDX-License-Identifier: Apache-2.0
#include "failure.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>

#include "strata/rpc/agent.hpp"
#include "strata/util/error.hpp"

namespace strata::rpc {
namespace {

std::string readable(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : mangled;
}

}  // namespace

Failure failure_of(const std::exception_ptr& thrown) {
  Failure failure;
  if (const std::type_info* type = thrown.__cxa_exception_type()) failure.type = readable(type->name());
  try {
    std::rethrow_exception(thrown);
  } catch (const RemoteError& error) {  // of a call that the call made: where it began matters
    failure = {.type = error.type(),
               .text = error.text(),
               .remedy = error.remedy(),
               .rank = error.rank(),
               .host = error.host(),
               .agent = error.agent(),
               .device = error.device()};
  } catch (const Error& error) {
    failure.text = error.what();
    failure.remedy = error.remedy();
  } catch (const std::exception& error) {
    failure.text = error.what();
  } catch (...) {
    failure.text = "what was thrown is no std::exception";
  }
  return failure;
}

std::exception_ptr exception_of(const Failure& failure) {
  return std::make_exception_ptr(RemoteError({.type = failure.type,
                                              .text = failure.text,
                                              .remedy = failure.remedy,
                                              .rank = failure.rank,
                                              .host = failure.host,
                                              .agent = failure.agent,
                                              .device = failure.device}));
}

RemoteError::RemoteError(Parts parts)
    : Error(fmt::format("{} on {} (rank {}, host {}{}{}): {}", parts.type, parts.agent, parts.rank,
                        parts.host, parts.device.empty() ? "" : ", ", parts.device, parts.text),
            parts.remedy),
      parts_(std::move(parts)) {}

}  // namespace strata::rpc
