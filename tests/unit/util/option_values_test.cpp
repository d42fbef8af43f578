// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strata/util/options.hpp"
#include "support/expect_error.hpp"

namespace strata::options {
namespace {

using testing::ElementsAre;

template <typename Type>
void refuse_texts(std::initializer_list<const char*> texts) {
  for (const char* text : texts) {
    SCOPED_TRACE(text);
    test::expect_error<InputError>([&] { Type::from_text("--x", text); }, {"--x", text});
  }
}

TEST(Integers, AreDigits) {
  EXPECT_EQ(Integer<int>::from_text("--x", "0"), 0);
  EXPECT_EQ(Integer<int>::from_text("--x", "-12"), -12);
  EXPECT_EQ(Integer<int>::from_text("--x", "2147483647"), 2147483647);
  EXPECT_EQ(Integer<Count>::from_text("--x", "9223372036854775807"), std::numeric_limits<Count>::max());
  refuse_texts<Integer<int>>({"", " 1", "1 ", "00012", "-01", "+1", "1e3", "1.0", "0x10", "1_000", "1,000",
                              "one", "2147483648", "-2147483649", "99999999999999999999", "inf", "nan", "-"});
  test::expect_error<InputError>([] { Integer<int>::from_text("--x", "2147483648"); },
                                 {"at most 2147483647"});
}

TEST(Integers, OfASeedHave64Bits) {
  EXPECT_EQ(Unsigned::from_text("--x", "18446744073709551615"), ~std::uint64_t{0});
  refuse_texts<Unsigned>({"-1", "18446744073709551616", "007", "", "1.5"});
}

TEST(Reals, AreFiniteDecimals) {
  EXPECT_EQ(Real::from_text("--x", "0.003"), 0.003);
  EXPECT_EQ(Real::from_text("--x", "3e-3"), 0.003);
  EXPECT_EQ(Real::from_text("--x", ".5"), 0.5);
  EXPECT_EQ(Real::from_text("--x", "1"), 1);
  EXPECT_EQ(Real::from_text("--x", "-0.25"), -0.25);
  refuse_texts<Real>({"", "0.00 3", "inf", "-inf", "nan", "infinity", "1e999", "1e-999", "0x1p3", "00.5",
                      "+1", "1,5", "1.5f", "1e", "--1"});
}

TEST(Lists, HaveCommas) {
  EXPECT_THAT(Integers::from_text("--x", "15,10,-1"), ElementsAre(15, 10, -1));
  EXPECT_THAT(Integers::from_text("--x", ""), ElementsAre());
  for (const char* text : {",", "5,", ",5", "5,,5", "5 5", "[5]", "5;5", "5,x", "5,010", "5,2147483648"})
    EXPECT_THROW(Integers::from_text("--x", text), InputError) << text;
}

TEST(Flags, AreTrueOrFalse) {
  EXPECT_TRUE(Flag::from_text("--x", "true"));
  EXPECT_FALSE(Flag::from_text("--x", "false"));
  refuse_texts<Flag>({"1", "yes", "off", "True", ""});
  EXPECT_TRUE(Switch::from_text("--x", "on"));
  EXPECT_FALSE(Switch::from_text("--x", "off"));
  refuse_texts<Switch>({"true", "0", "ON", ""});
}

TEST(Memory, HasUnits) {
  EXPECT_EQ(Bytes::from_text("--x", "1.5GiB"), std::int64_t{3} << 29);
  EXPECT_EQ(BytesOrAuto::from_text("--x", "auto"), -1);
  EXPECT_EQ(BytesOrAuto::from_text("--x", "0"), 0);
  refuse_texts<Bytes>({"", "lots", "-1GiB", "inf", "nan", "010GiB", "1e30GiB", "auto"});
}

TEST(Literals, AreReadBack) {
  EXPECT_EQ(Text::literal("a \"b\" \\ \n"), R"("a \"b\" \\ \u000a")");
  EXPECT_EQ(Real::literal(1e-5), "1e-05");
  EXPECT_EQ(Integers::literal({15, -1}), "[15, -1]");
  EXPECT_EQ(Integers::literal({}), "[]");
  EXPECT_EQ(Unsigned::literal(7), "7");
  EXPECT_EQ(Unsigned::literal(~std::uint64_t{0}), "\"18446744073709551615\"");
  EXPECT_EQ(Unsigned::from_file("x", {std::string("18446744073709551615")}), ~std::uint64_t{0});
  EXPECT_EQ(BytesOrAuto::literal(BytesOrAuto::kAutomatic), "\"auto\"");
}

}  // namespace
}  // namespace strata::options
