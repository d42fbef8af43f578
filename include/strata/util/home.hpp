// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace strata {

/// A path that begins with "~/", or is "~", with the folder that HOME names instead of "~"; any other text as
/// it is. Shells do so only where a word begins with it.
std::string expand_home(std::string path);

/// The same of a word of a command line: the whole, or what follows its first "=", as in "--output=~/parts".
std::string expand_home_in_word(std::string word);

}  // namespace strata
