// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <set>

#include "healthy_ranks.hpp"
#include "network.hpp"

namespace strata::doctor {
namespace {

using test::healthy_ranks;
using test::shortened;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kGigabyte = 1e9, kTenMegabit = 1.25e6;

NetworkFacts even_network(int hosts) {
  NetworkFacts facts;
  facts.ring_bytes_per_second = facts.all_to_all_bytes_per_second = kGigabyte;
  for (int from = 0; from < hosts; ++from)
    for (int to = 0; to < hosts; ++to)
      if (from != to)
        facts.links.push_back(
            {.from = from, .to = to, .latency_seconds = 10e-6, .bytes_per_second = 2 * kGigabyte});
  facts.carriers.resize(at(hosts), "ib0");
  return facts;
}

LinkRate& link(NetworkFacts& facts, int from, int to) {
  return *std::ranges::find_if(facts.links, [&](const LinkRate& l) { return l.from == from && l.to == to; });
}

TEST(JudgeNetwork, FindsNothingWhereAllLinksAreAlike) {
  EXPECT_THAT(judge_network(even_network(4), healthy_ranks(4)), IsEmpty());
  EXPECT_THAT(judge_network({}, healthy_ranks(1)), IsEmpty());
}

TEST(JudgeNetwork, NamesTheHostThatAllSlowLinksLeave) {
  NetworkFacts facts = even_network(3);
  link(facts, 1, 0).bytes_per_second = link(facts, 1, 2).bytes_per_second = kTenMegabit;
  const Findings findings = judge_network(facts, healthy_ranks(3));
  EXPECT_THAT(shortened(findings), ElementsAre("warning network h1 slow-links-between-hosts"));
  EXPECT_THAT(findings.front().message, HasSubstr("1.2 MB/s"));
  EXPECT_THAT(findings.front().message, HasSubstr("to every other host"));
}

TEST(JudgeNetwork, NamesASingleSlowLink) {
  NetworkFacts facts = even_network(3);
  link(facts, 2, 0).bytes_per_second = 0.4 * kGigabyte;
  const Findings findings = judge_network(facts, healthy_ranks(3));
  EXPECT_THAT(shortened(findings), ElementsAre("warning network h2 slow-links-between-hosts"));
  EXPECT_THAT(findings.front().message, HasSubstr("sends to h0"));
}

TEST(JudgeNetwork, SaysOnceThatEveryLinkIsSlow) {
  NetworkFacts facts = even_network(4);
  for (LinkRate& l : facts.links) l.bytes_per_second = kTenMegabit;
  EXPECT_THAT(shortened(judge_network(facts, healthy_ranks(4))),
              ElementsAre("warning network - slow-links-between-hosts"));
}

TEST(JudgeNetwork, NeedsNoThirdHostToKnowASlowLink) {
  NetworkFacts facts = even_network(2);
  link(facts, 0, 1).bytes_per_second = kTenMegabit;
  EXPECT_THAT(shortened(judge_network(facts, healthy_ranks(2))),
              ElementsAre("warning network h0 slow-links-between-hosts"));
}

TEST(JudgeNetwork, SeesALongWay) {
  NetworkFacts facts = even_network(3);
  link(facts, 0, 2).latency_seconds = link(facts, 2, 0).latency_seconds = 5e-3;
  const Findings findings = judge_network(facts, healthy_ranks(3));
  EXPECT_THAT(shortened(findings), ElementsAre("warning network h0 slow-links-between-hosts"));
  EXPECT_THAT(findings.front().message, HasSubstr("to h2 takes 5.0 ms"));
}

TEST(JudgeNetwork, NotesASwitchThatDoesNotServeAllAtOnce) {
  NetworkFacts facts = even_network(4);
  facts.all_to_all_bytes_per_second = 0.2 * kGigabyte;
  EXPECT_THAT(shortened(judge_network(facts, healthy_ranks(4))),
              ElementsAre("note network - slow-links-between-hosts"));
}

TEST(JudgeNetwork, SeesThatAFasterInterfaceIsLeftUnused) {
  auto ranks = healthy_ranks(2);
  for (RankFacts& rank : ranks)
    rank.interfaces = {{.name = "eth0", .bits_per_second = 1e9}, {.name = "ib0", .bits_per_second = 200e9}};
  NetworkFacts facts = even_network(2);
  EXPECT_THAT(judge_network(facts, ranks), IsEmpty());
  facts.carriers = {"eth0", "eth0"};
  const Findings findings = judge_network(facts, ranks);
  EXPECT_THAT(shortened(findings), ElementsAre("warning network h0 messages-on-the-wrong-network",
                                               "warning network h1 messages-on-the-wrong-network"));
  EXPECT_THAT(findings.front().action, HasSubstr("btl_tcp_if_include ib0"));
}

TEST(CarrierOf, IsTheInterfaceThatSentWhatMpiSent) {
  const std::vector<Interface> before{{.name = "eth0", .sent_bytes = 1000}, {.name = "v0", .sent_bytes = 0}};
  const std::vector<Interface> after{{.name = "eth0", .sent_bytes = 1500},
                                     {.name = "v0", .sent_bytes = 70000}};
  EXPECT_EQ(carrier_of(before, after, 60000), "v0");
  EXPECT_EQ(carrier_of(before, after, 600000), "") << "most went another way";
}

TEST(JudgeClocks, NamesTheHostWhoseClockIsOff) {
  const auto ranks = healthy_ranks(3);
  const Findings findings = judge_clocks({{}, {.seconds = 0.9, .error_seconds = 0}, {.seconds = -90}}, ranks);
  EXPECT_THAT(shortened(findings), ElementsAre("warning clocks h2 clocks-that-differ"));
  EXPECT_THAT(findings.front().message, HasSubstr("1:30 behind that of h0"));
}

TEST(JudgeClocks, DoesNotBlameASlowNetwork) {
  EXPECT_THAT(judge_clocks({{}, {.seconds = 1.5, .error_seconds = 1}}, healthy_ranks(2)), IsEmpty());
}

TEST(RoundsOfPairs, HaveEveryPairOnceAndEveryHostAtMostOnceARound) {
  for (int hosts = 1; hosts <= 9; ++hosts) {
    std::set<std::pair<int, int>> all;
    for (const auto& round : rounds_of_pairs(hosts)) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        EXPECT_TRUE(a < b && b < hosts) << hosts << " hosts: " << a << ", " << b;
        EXPECT_TRUE(all.insert({a, b}).second) << hosts << " hosts: " << a << ", " << b << " twice";
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second) << hosts << " hosts";
      }
    }
    EXPECT_EQ(all.size(), at(hosts * (hosts - 1) / 2));
  }
}

}  // namespace
}  // namespace strata::doctor
