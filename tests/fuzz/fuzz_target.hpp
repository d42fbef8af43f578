// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

/// What the fuzzers of readers share. A reader promises a result or a strata::Error whose text can be shown,
/// whatever the bytes; crashes, hangs, memory beyond the limits of launch/fuzz and other exceptions break the
/// promise.
namespace strata::fuzz {

using Bytes = std::span<const std::uint8_t>;

inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Whether there is a number of 7 digits or more: one of nodes rightly takes up to as much memory as the host
/// has.
inline bool has_long_number(std::string_view text) {
  std::size_t digits = 0;
  for (const char c : text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > 6) return true;
  }
  return false;
}

/// Runs `read`. Exceptions that are no strata::Error pass, and end the program.
template <typename Read>
void expect_result_or_error(Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    const std::string text = std::string(error.what()) + error.remedy();
    if (!text.empty() && !first_invalid_utf8(text)) return;
    std::fprintf(stderr, "a message that cannot be shown: %s\n", printable(text).c_str());
    std::abort();
  }
}

/// A file in memory that has a path. An owner.
class InputFile {
 public:
  explicit InputFile(Bytes bytes) : fd_(memfd_create("input", MFD_CLOEXEC)) {
    if (fd_ < 0 || ::write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace strata::fuzz
