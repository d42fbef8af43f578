// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <source_location>
#include <stdexcept>
#include <string>

namespace strata {

/// What every Strata library throws. It keeps its parts separate; only a program's `main` formats them (see
/// format_error).
///
/// `message` says what failed, with its numbers; `remedy` says what to do about it (empty: there is nothing
/// to suggest).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string remedy = {},
                 std::source_location where = std::source_location::current())
      : std::runtime_error(message), remedy_(std::move(remedy)), where_(where) {}

  const std::string& remedy() const noexcept { return remedy_; }
  const std::source_location& where() const noexcept { return where_; }

  /// Whether another rank reports the same failure. Programs that print errors let that rank speak first.
  bool is_echo() const noexcept { return is_echo_; }
  void mark_as_echo() noexcept { is_echo_ = true; }

 private:
  std::string remedy_;
  std::source_location where_;
  bool is_echo_ = false;
};

// The kinds below spell out their constructors, because nvcc 13 fails on inherited ones with a defaulted
// std::source_location.

/// Input that a person gave is not usable: an option, a file, its contents. It is refused before work begins.
class InputError : public Error {
 public:
  explicit InputError(const std::string& message, std::string remedy = {},
                      std::source_location where = std::source_location::current())
      : Error(message, std::move(remedy), where) {}
};

/// The operating system or HDF5 could not read or write.
class IoError : public Error {
 public:
  explicit IoError(const std::string& message, std::string remedy = {},
                   std::source_location where = std::source_location::current())
      : Error(message, std::move(remedy), where) {}
};

/// Host or device memory does not suffice. The message names its purpose, the bytes wanted and the bytes
/// free.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& message, std::string remedy = {},
                       std::source_location where = std::source_location::current())
      : Error(message, std::move(remedy), where) {}
};

/// A CUDA call failed.
class CudaError : public Error {
 public:
  explicit CudaError(const std::string& message, std::string remedy = {},
                     std::source_location where = std::source_location::current())
      : Error(message, std::move(remedy), where) {}
};

/// An MPI or NCCL call failed, or another rank did.
class CommError : public Error {
 public:
  explicit CommError(const std::string& message, std::string remedy = {},
                     std::source_location where = std::source_location::current())
      : Error(message, std::move(remedy), where) {}
};

/// Exit codes of all programs.
enum class ExitCode : int {
  ok = 0,
  failure = 1,        ///< any other Error
  bad_input = 2,      ///< InputError, or options that do not parse
  out_of_memory = 3,  ///< OutOfMemory
  /// A signal stopped the run; a checkpoint was written (EX_TEMPFAIL: start again with --resume).
  stopped = 75,
  stopped_unsaved = 76,  ///< a signal stopped the run, and no checkpoint could be written
};

/// The exit code for this exception.
ExitCode exit_code(const std::exception& error) noexcept;

/// "strata-train: <message>\n  <remedy>", with the source location last if somebody may have to look there.
/// `program` may contain the rank and host.
std::string format_error(const std::string& program, const std::exception& error);

}  // namespace strata
