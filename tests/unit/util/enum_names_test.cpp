// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/util/log.hpp"
#include "strata/util/text.hpp"
#include "support/expect_error.hpp"

namespace strata {
namespace {

enum class Plain { one };
static_assert(NamedEnum<LogLevel> && !NamedEnum<Plain> && !NamedEnum<int>);

TEST(EnumNames, LeadBothWays) {
  for (const auto& [value, name] : enum_names<LogLevel>) {
    EXPECT_EQ(enum_name(value), name);
    EXPECT_EQ(enum_value<LogLevel>(name, "--log-level"), value);
  }
  EXPECT_EQ(enum_name(static_cast<LogLevel>(77)), "");
}

TEST(EnumNames, AreListedForAPerson) {
  EXPECT_EQ(list_choices(enum_choices<LogLevel>()), "trace, debug, info, warn, error or off");
  EXPECT_EQ(list_choices({"on", "off"}), "on or off");
  EXPECT_EQ(list_choices({"only"}), "only");
}

TEST(EnumNames, AreRefusedWithTheNearest) {
  test::expect_error<InputError>(
      [] { enum_value<LogLevel>("debgu", "--log-level"); },
      {"--log-level: there is no \"debgu\"", "Did you mean debug?", "warn, error or off"});
  for (const char* name : {"", "Info", "info ", "information technology"})
    test::expect_error<InputError>([name] { enum_value<LogLevel>(name, "--log-level"); },
                                   {"--log-level: there is no", "Give trace"});
}

}  // namespace
}  // namespace strata
