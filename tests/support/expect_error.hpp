// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "strata/util/error.hpp"

namespace strata::test {

/// Runs `action`, which must throw exactly an E whose message and remedy together hold all of `parts`, and
/// have a remedy.
template <typename E = InputError, typename Action>
void expect_error(Action&& action, const std::vector<std::string>& parts) {
  try {
    action();
  } catch (const E& error) {
    const std::string text = std::string(error.what()) + "\n" + error.remedy();
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
    EXPECT_FALSE(error.remedy().empty()) << text;
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return;
  }
  ADD_FAILURE() << "nothing was thrown; expected: " << (parts.empty() ? "" : parts.front());
}

}  // namespace strata::test
