// SPDX-License-Identifier: Apache-2.0
#include "facts.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>

#include "bounded.hpp"
#include "support/temporary_folder.hpp"

namespace strata::doctor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A root with files of a kernel.
class Root {
 public:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  strata::test::TemporaryFolder folder_;
};

TEST(Facts, ReadsListsOfProcessors) {
  EXPECT_THAT(parse_processors("0-2,8,10-11\n"), ElementsAre(0, 1, 2, 8, 10, 11));
  EXPECT_THAT(parse_processors(""), IsEmpty());
}

TEST(Facts, ReadsTheChosenWord) {
  EXPECT_EQ(chosen_word("always [madvise] never"), "madvise");
  EXPECT_EQ(chosen_word("nothing is chosen"), "");
}

TEST(Facts, FindsTheNodeOfADevice) {
  const Root root;
  root.write("sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
  root.write("sys/devices/system/node/node1/cpulist", "4-5\n");
  EXPECT_EQ(node_of_device("0000:3B:00.0", root.path()), 1);
  EXPECT_EQ(node_of_device("0000:AF:00.0", root.path()), -1);
  EXPECT_THAT(processors_of_node(1, root.path()), ElementsAre(4, 5));
}

TEST(Facts, CountsWhatInterfacesHaveSent) {
  const Root root;
  root.write("proc/self/net/dev",
             "Inter-|   Receive   |  Transmit\n face |bytes    packets|bytes    packets\n"
             "    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n"
             "  eth0: 100 1 0 0 0 0 0 0 4567 2 0 0 0 0 0 0\n"
             "  eth1: 100 1 0 0 0 0 0 0 1 2 0 0 0 0 0 0\n");
  root.write("sys/class/net/eth0/speed", "25000\n");
  root.write("sys/class/net/eth1/operstate", "down\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "10\n");
  root.write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  const std::vector<Interface> found = find_interfaces(root.path());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "eth0");
  EXPECT_EQ(found[0].sent_bytes, 4567);
  EXPECT_EQ(found[0].bits_per_second, 25e9);
  EXPECT_EQ(found[1].name, "mlx5_0:1");
  EXPECT_TRUE(found[1].rdma);
  EXPECT_EQ(found[1].sent_bytes, 40) << "ports count words of four bytes";
  EXPECT_EQ(found[1].bits_per_second, 100e9);
}

TEST(Facts, CountsHowLongProcessorsWereBusy) {
  const Root root;
  root.write(
      "proc/stat",
      "cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 100 20 30 9000 500 1 2 47 0 0\ncpu12 7 0 0 5 0 0 0 0 0 0\nintr 1\n");
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_THAT(busy_seconds({0, 12}, root.path()), ElementsAre(200 * tick, 7 * tick));
  EXPECT_THAT(busy_seconds({0, 1}, root.path()), IsEmpty()) << "the second is not known";
}

TEST(Facts, SurviveTheWayToOtherRanks) {
  RankFacts facts;
  facts.host = "h0";
  facts.versions["MPI"] = "Open MPI v4.1.4";
  facts.processors = {0, 3};
  facts.locked_bytes = RankFacts::kUnlimited;
  facts.interfaces = {{.name = "v0", .bits_per_second = 1e9, .sent_bytes = 7, .rdma = true}};
  const nlohmann::json text = facts;
  EXPECT_EQ(nlohmann::json(text.get<RankFacts>()), text);
}

TEST(Within, ReturnsOrThrowsWhatTheWorkDoes) {
  using std::chrono::seconds;
  EXPECT_EQ(within(seconds(60), [] { return 7; }), 7);
  EXPECT_THROW(within(seconds(60), []() -> int { throw std::runtime_error("no"); }), std::runtime_error);
}

TEST(Within, GivesUpOnWhatDoesNotEnd) {
  const auto may_end = std::make_shared<std::atomic<bool>>(false);
  const auto result = within(std::chrono::milliseconds(20), [may_end] {
    while (!*may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return 7;
  });
  EXPECT_EQ(result, std::nullopt);
  *may_end = true;
}

}  // namespace
}  // namespace strata::doctor
