// SPDX-License-Identifier: Apache-2.0
// Tensors and values of more than 2 GiB, which 32-bit lengths would cut off. They take half a minute, so that
// only who sets STRATA_TEST_HUGE runs them:
//     STRATA_TEST_HUGE=1 STRATA_TEST_SECONDS=300 mpirun -n 2 build/cpu/bin/huge_messages_test
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "strata/rpc/agent.hpp"
#include "support/mpi_world.hpp"

namespace strata::rpc {
namespace {

using test::world;

constexpr std::int64_t kBytes = (std::int64_t{1} << 31) + 12'345;

struct Ends {
  std::int64_t size = 0;
  int first = 0, last = 0;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(size, first, last);
  }
  bool operator==(const Ends&) const = default;
};

Ends ends_of_tensor(const at::Tensor& x) {
  return {.size = x.numel(), .first = x[0].item<int>(), .last = x[-1].item<int>()};
}
Ends ends_of_text(const std::string& text) {
  return {.size = static_cast<std::int64_t>(text.size()), .first = text.front(), .last = text.back()};
}

std::int64_t available_mib() {
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;) {
    if (word != "MemAvailable:") continue;
    std::int64_t kib = 0;
    info >> kib;
    return kib >> 10;
  }
  return 0;
}

class HugeMessages : public testing::TestWithParam<Channel> {};

TEST_P(HugeMessages, ArriveWhole) {
  constexpr std::int64_t kNeededMib = 10 << 10;
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  if (std::getenv("STRATA_TEST_HUGE") == nullptr) GTEST_SKIP() << "needs STRATA_TEST_HUGE in the environment";
  const std::vector<std::string> free = world().communicator().all_gather(std::to_string(available_mib()));
  if (std::ranges::any_of(free, [](const std::string& mib) { return std::stoll(mib) < kNeededMib; }))
    GTEST_SKIP() << "needs 10 GiB of memory";
  Registry registry;
  registry.function("ends_of_tensor", &ends_of_tensor).function("ends_of_text", &ends_of_text);
  Agent agent(world().communicator(), fmt::format("worker{}", world().rank()), std::move(registry),
              {.timeout = std::chrono::minutes(5), .channels = {GetParam()}});
  if (world().rank() == 0) {
    {
      at::Tensor x = at::full({kBytes}, 5, at::kByte);
      x[-1].fill_(9);
      EXPECT_EQ(agent.sync("worker1", &ends_of_tensor, x), (Ends{.size = kBytes, .first = 5, .last = 9}));
    }
    std::string text(at(kBytes), 'a');
    text.back() = 'z';
    EXPECT_EQ(agent.sync("worker1", &ends_of_text, text), (Ends{.size = kBytes, .first = 'a', .last = 'z'}));
  }
  agent.shutdown();
}

INSTANTIATE_TEST_SUITE_P(Each, HugeMessages, testing::Values(Channel::shared_memory, Channel::tcp),
                         [](const auto& info) {
                           return info.param == Channel::tcp ? "Tcp" : "SharedMemory";
                         });

}  // namespace
}  // namespace strata::rpc
