// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/util/text.hpp"
#include "support/expect_error.hpp"

namespace strata {
namespace {

using namespace std::string_literals;

TEST(Utf8, FindsTheFirstByteThatIsNoCharacter) {
  for (const std::string& text : {""s, "plain"s, "naïve"s, "€"s, "\U0001F600"s, "\0a"s, "\xEF\xBF\xBF"s})
    EXPECT_EQ(first_invalid_utf8(text), std::nullopt) << text;
  const auto expect = [](const std::string& text, std::size_t at) {
    EXPECT_EQ(first_invalid_utf8(text), std::optional(at)) << printable(text);
  };
  expect("ab\xff", 2);
  expect("na\xefve", 2);  // Latin-1
  expect(
      "\xff\xfe"
      "a\0"s,
      0);                         // UTF-16
  expect("\xc0\xaf", 0);          // overlong
  expect("\xe0\x80\xaf", 0);      // overlong
  expect("\xed\xa0\x80", 0);      // a surrogate
  expect("\xf4\x90\x80\x80", 0);  // beyond the last character
  expect("ok\xe2\x82", 2);        // cut off
  expect("\xe2\x82(", 0);
  expect("\x80", 0);
}

TEST(Utf8, NamesTheByteAndItsOffset) {
  test::expect_error([] { require_utf8("na\xefve", "names.txt"); },
                     {"names.txt: byte 0xef at offset 2 is not UTF-8", "iconv"});
  require_utf8("naïve", "names.txt");
}

TEST(Utf8, ShowsWhatCanBeShown) { EXPECT_EQ(printable("na\xefve €\t\0"s), "na\\xefve €\\x09\\x00"); }

TEST(Utf8, DropsAByteOrderMarkAtTheStartOnly) {
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF"
                                    "a"),
            "a");
  EXPECT_EQ(without_byte_order_mark("a\xEF\xBB\xBF"), "a\xEF\xBB\xBF");
  EXPECT_EQ(without_byte_order_mark(""), "");
}

}  // namespace
}  // namespace strata
