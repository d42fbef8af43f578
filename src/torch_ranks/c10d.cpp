// SPDX-License-Identifier: Apache-2.0
#include "c10d.hpp"

namespace strata::torch_ranks {

std::string text_of(const std::exception& error) {
  const auto* typed = dynamic_cast<const c10::Error*>(&error);
  const std::string text = typed != nullptr ? typed->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string string_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace strata::torch_ranks
