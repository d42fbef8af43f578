// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/types.hpp"

namespace strata {
namespace {

using namespace std::string_view_literals;

/// Bytes at an offset of a file that identify the program that packed it.
struct Mark {
  std::string_view name, bytes, unpack;
  std::size_t offset = 0;
};

constexpr std::size_t kTarOffset = 257;
constexpr Mark kMarks[] = {{"gzip", "\x1f\x8b"sv, "gunzip"},
                           {"zstd", "\x28\xb5\x2f\xfd"sv, "unzstd"},
                           {"xz",
                            "\xfd"
                            "7zXZ\0"sv,
                            "unxz"},
                           {"bzip2", "1AY&SY"sv, "bunzip2", 4},
                           {"bzip2", "\x17\x72\x45\x38\x50\x90"sv, "bunzip2", 4},  // of no bytes
                           {"zip", "PK\x03\x04"sv, "unzip"},
                           {"zip", "PK\x05\x06"sv, "unzip"},
                           {"lz4", "\x04\x22\x4d\x18"sv, "unlz4"},
                           {"7z", "7z\xbc\xaf\x27\x1c"sv, "7z x"},
                           {"compress", "\x1f\x9d"sv, "uncompress"},
                           {"tar", "ustar"sv, "tar xf", kTarOffset}};

const Mark* mark_of(std::string_view first_bytes) {
  for (const Mark& mark : kMarks)
    if (first_bytes.size() >= mark.offset && first_bytes.substr(mark.offset).starts_with(mark.bytes))
      return &mark;
  return nullptr;
}

}  // namespace

std::string_view compression_of(std::string_view first_bytes) {
  const Mark* const mark = mark_of(first_bytes);
  return mark == nullptr ? std::string_view() : mark->name;
}

void refuse_compressed(std::string_view first_bytes, const std::string& origin) {
  const Mark* const mark = mark_of(first_bytes);
  if (mark == nullptr) return;
  throw InputError(fmt::format("{}: compressed by {}: unpack it first", origin, mark->name),
                   fmt::format("Call `{} {}`, and give the file that it writes.", mark->unpack, origin));
}

void refuse_compressed(const std::filesystem::path& path) {
  std::string first(kTarOffset + 6, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), std::ssize(first));
  first.resize(at(std::max<std::streamsize>(file.gcount(), 0)));
  refuse_compressed(first, path.string());
}

}  // namespace strata
