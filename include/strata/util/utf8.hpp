// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

/// Offset of the first byte that belongs to no UTF-8 character (RFC 3629: no overlong forms, no surrogates);
/// none if all of `text` is UTF-8.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

/// Throws InputError naming `origin`, the byte and its offset if `text` is not UTF-8, as names in JSON
/// records must be.
void require_utf8(std::string_view text, const std::string& origin);

/// `text` as a message can show it: control characters and bytes that are not UTF-8 are written like "\xff".
std::string printable(std::string_view text);

/// `text` without the byte order mark that some editors put at the start of UTF-8 files.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace strata
