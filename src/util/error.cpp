// SPDX-License-Identifier: Apache-2.0
#include "strata/util/error.hpp"

#include <fmt/format.h>

#include <new>

namespace strata {

ExitCode exit_code(const std::exception& error) noexcept {
  if (dynamic_cast<const InputError*>(&error) != nullptr) return ExitCode::bad_input;
  if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) return ExitCode::out_of_memory;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return ExitCode::out_of_memory;
  return ExitCode::failure;
}

std::string format_error(const std::string& program, const std::exception& error) {
  std::string text = fmt::format("{}: {}", program, error.what());
  const auto* own = dynamic_cast<const Error*>(&error);
  if (own == nullptr) return text;
  if (!own->remedy().empty()) text += "\n  " + own->remedy();
  // Bad input and files need no source location in their message; a failure that somebody will report does.
  const bool is_of_files = dynamic_cast<const IoError*>(&error) != nullptr;
  if (exit_code(error) == ExitCode::failure && !is_of_files) {
    text += fmt::format("\n  at {}:{}", own->where().file_name(), own->where().line());
  }
  return text;
}

}  // namespace strata
