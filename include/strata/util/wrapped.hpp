// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace strata {

/// Wraps a text into lines of at most `columns` columns that begin with `indent` blanks, except the first,
/// which follows what stands there already. Ends with a newline.
std::string wrapped(std::string_view text, int indent, int columns);

}  // namespace strata
