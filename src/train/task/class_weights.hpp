// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace strata::train {

/// The text that asks for balanced_weights() instead of numbers.
inline constexpr const char* kBalanced = "balanced";

/// Parses the numbers of --class-weights, separated by commas. Throws InputError.
std::vector<double> parse_class_weights(const std::string& text);

}  // namespace strata::train
