// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace strata {

/// Words of a text, in lines of at most `columns` columns that begin with `indent` blanks, the first of them
/// after what stands there already. Ends with a newline.
std::string wrapped(std::string_view text, int indent, int columns);

}  // namespace strata
