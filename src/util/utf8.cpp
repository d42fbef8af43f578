// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

unsigned byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

struct Range {
  unsigned first, last;
  bool holds(unsigned byte) const { return byte >= first && byte <= last; }
};

/// What may follow a leading byte: the number of further bytes, and the range of the first of them.
struct Lead {
  std::size_t further;
  Range second;
};

std::optional<Lead> lead_of(unsigned byte) {
  constexpr Range kAny{0x80, 0xbf};
  if (byte < 0x80) return Lead{0, kAny};
  if (byte >= 0xc2 && byte <= 0xdf) return Lead{1, kAny};
  if (byte == 0xe0) return Lead{2, {0xa0, 0xbf}};
  if (byte == 0xed) return Lead{2, {0x80, 0x9f}};
  if (byte >= 0xe1 && byte <= 0xef) return Lead{2, kAny};
  if (byte == 0xf0) return Lead{3, {0x90, 0xbf}};
  if (byte == 0xf4) return Lead{3, {0x80, 0x8f}};
  if (byte >= 0xf1 && byte <= 0xf3) return Lead{3, kAny};
  return std::nullopt;
}

/// Bytes of the character at `at`; 0 if there is no valid one.
std::size_t character_at(std::string_view text, std::size_t at) {
  const std::optional<Lead> lead = lead_of(byte_at(text, at));
  if (!lead || lead->further >= text.size() - at) return 0;
  for (std::size_t i = 1; i <= lead->further; ++i) {
    const Range range = i == 1 ? lead->second : Range{0x80, 0xbf};
    if (!range.holds(byte_at(text, at + i))) return 0;
  }
  return lead->further + 1;
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_at(text, at);
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::nullopt;
}

void require_utf8(std::string_view text, const std::string& origin) {
  const std::optional<std::size_t> at = first_invalid_utf8(text);
  if (!at) return;
  throw InputError(fmt::format("{}: byte 0x{:02x} at offset {} is not UTF-8 text", printable(origin),
                               byte_at(text, *at), *at),
                   "Save it as UTF-8; `iconv -f latin1 -t utf-8` or `iconv -f utf-16 -t utf-8` converts.");
}

std::string printable(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_at(text, at);
    const bool control = byte_at(text, at) < 0x20 || byte_at(text, at) == 0x7f;
    if (bytes == 0 || control)
      shown += fmt::format("\\x{:02x}", byte_at(text, at));
    else
      shown += text.substr(at, bytes);
    at += bytes == 0 ? 1 : bytes;
  }
  return shown;
}

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

}  // namespace strata
