// SPDX-License-Identifier: Apache-2.0
#include "tuning/sm_split.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace strata::train {
namespace {

using cuda::SmShares;

TEST(SmSplitRequest, IsParsed) {
  using Kind = SmSplitRequest::Kind;
  EXPECT_EQ(parse_sm_split("auto").kind, Kind::automatic);
  EXPECT_EQ(parse_sm_split("off").kind, Kind::off);
  const SmSplitRequest request = parse_sm_split("20,100");
  EXPECT_EQ(request.kind, Kind::given);
  EXPECT_EQ(request.shares, (SmShares{20, 100}));
  EXPECT_EQ(name_of(request.shares), "20,100");
  EXPECT_EQ(name_of(kNoSmSplit), "off");
}

TEST(SmSplitRequest, IsRefusedWhereItMakesNoSense) {
  for (const char* text :
       {"", "on", "10", "10,", ",90", "10,90,5", "10;90", "a,b", "10, 90", "1e1,90", "10,90%"})
    test::expect_error([&] { parse_sm_split(text); }, {"--sm-split", "no pair of shares", "10,90"});
  test::expect_error([] { parse_sm_split("0,90"); }, {"--sm-split 0,90", "0 percent", "1 and 100"});
  test::expect_error([] { parse_sm_split("10,101"); }, {"101 percent"});
  test::expect_error([] { parse_sm_split("-5,90"); }, {"-5 percent"});
  test::expect_error([] { parse_sm_split("100,100"); }, {"nothing is split", "off"});
}

}  // namespace
}  // namespace strata::train
