// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace strata::cli {

/// What somebody means who types this as the name of an option, as other programs call it: "--num-layers" ->
/// "--fanouts has one number per layer: 15,10,5 makes three." Empty if that is not known.
std::string hint_for_option(std::string_view name);

/// The value that somebody means who gives an option this value: ("model", "GraphSAGE") -> "sage". Empty if
/// that is not known.
std::string hint_for_value(std::string_view option, std::string_view value);

/// The same for a word that is no option: "parts" -> "--graph parts".
std::string hint_for_word(const std::string& word);

}  // namespace strata::cli
