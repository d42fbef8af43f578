// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "strata/util/text.hpp"
#include "support/expect_error.hpp"

namespace strata {
namespace {

TEST(Format, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(std::int64_t{5} << 20), "5.0 MiB");
  EXPECT_EQ(format_bytes(std::int64_t{42} << 30), "42.0 GiB");
  EXPECT_EQ(format_bytes(std::int64_t{3} << 50), "3072.0 TiB");
  EXPECT_EQ(format_bytes(-2048), "-2.0 KiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::int64_t>::min()), "-8388608.0 TiB");
}

TEST(Format, BytesRoundUpToTheNextUnit) {
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(1048524), "1023.9 KiB");
  EXPECT_EQ(format_bytes(1048525), "1.0 MiB");
  EXPECT_EQ(format_bytes(1048575), "1.0 MiB");
  EXPECT_EQ(format_bytes(-1048575), "-1.0 MiB");
  EXPECT_EQ(format_bytes((std::int64_t{1} << 30) - 1), "1.0 GiB");
  EXPECT_EQ(format_bytes((std::int64_t{1} << 40) - 1), "1.0 TiB");
}

TEST(Format, BytesAtLeast) {
  EXPECT_EQ(format_bytes_at_least(1000), "1000 B");
  EXPECT_EQ(format_bytes_at_least(std::int64_t{72} << 20), "72.0 MiB");
  EXPECT_EQ(format_bytes_at_least((std::int64_t{72} << 20) + 1), "72.1 MiB");
  EXPECT_EQ(format_bytes_at_least((std::int64_t{16} << 30) + (1 << 20)), "16.1 GiB");
  EXPECT_EQ(format_bytes_at_least((std::int64_t{1} << 30) - 1), "1.0 GiB");
}

TEST(Format, Counts) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-123456), "-123,456");
}

TEST(Format, CountedNouns) {
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(1, "virtual machine"), "1 virtual machine");
  EXPECT_EQ(counted(1234, "GPU"), "1,234 GPUs");
}

TEST(Format, Seconds) {
  EXPECT_EQ(format_seconds(0.000123), "123 us");
  EXPECT_EQ(format_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(format_seconds(1.25), "1.2 s");
  EXPECT_EQ(format_seconds(75), "1:15");
  EXPECT_EQ(format_seconds(3599), "59:59");
  EXPECT_EQ(format_seconds(3661), "1:01:01");
}

TEST(Format, SecondsRoundUpToTheNextUnit) {
  EXPECT_EQ(format_seconds(0.0009994), "999 us");
  EXPECT_EQ(format_seconds(0.0009996), "1.0 ms");
  EXPECT_EQ(format_seconds(0.99994), "999.9 ms");
  EXPECT_EQ(format_seconds(0.99996), "1.0 s");
  EXPECT_EQ(format_seconds(59.94), "59.9 s");
  EXPECT_EQ(format_seconds(59.96), "1:00");
  EXPECT_EQ(format_seconds(3599.6), "1:00:00");
}

TEST(ParseBytes, ReadsNumbersAndUnits) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("4096B"), 4096);
  EXPECT_EQ(parse_bytes("1.5GiB"), std::int64_t{3} << 29);
  EXPECT_EQ(parse_bytes("800M"), std::int64_t{800} << 20);
  EXPECT_EQ(parse_bytes("2KB"), 2048);
  EXPECT_EQ(parse_bytes("1T"), std::int64_t{1} << 40);
}

TEST(ParseBytes, ReturnsWhatWasFormatted) {
  for (int shift = 0; shift < 43; ++shift) {
    const std::int64_t bytes = std::int64_t{1} << shift;
    std::string text = format_bytes(bytes);
    std::erase(text, ' ');
    EXPECT_EQ(parse_bytes(text), bytes) << text;
  }
}

TEST(ParseBytes, RefusesTheRest) {
  for (const char* text :
       {"", "GiB", "-1", "-1GiB", "4 GiB", "4gib", "4X", "4GiBs", "1e30", "nan", "inf", "9e18K"}) {
    SCOPED_TRACE(text);
    test::expect_error([&] { parse_bytes(text); }, {std::string("\"") + text + "\"", "4GiB, 800M, 4096"});
  }
}

TEST(Closest, FindsTheNearestIfItIsNear) {
  const std::vector<std::string> options = {"--fanouts", "--hidden", "--epochs", "--lr"};
  EXPECT_EQ(closest("--fanout", options), "--fanouts");
  EXPECT_EQ(closest("--hiden", options), "--hidden");
  EXPECT_EQ(closest("--epcohs", options), "--epochs");
  EXPECT_EQ(closest("--lr", options), "--lr");
  EXPECT_EQ(closest("--something-else", options), "");
  EXPECT_EQ(closest("--fanouts", {}), "");
}

TEST(Table, AlignsItsColumns) {
  Table table({"part", "nodes"});
  table.row({"0", "1,354"});
  table.row({"longer", "7"});
  EXPECT_EQ(table.str(),
            "part    nodes\n"
            "------  -----\n"
            "0       1,354\n"
            "longer      7\n");
}

TEST(Table, EndsNoLineWithSpaces) {
  Table table({"name", "x"});
  table.row({"a", ""});
  EXPECT_EQ(table.str(), "name  x\n----  -\na\n");
}

}  // namespace
}  // namespace strata
