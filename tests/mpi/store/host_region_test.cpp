#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "strata/store/host_region.hpp"
#include "strata/util/error.hpp"
#include "support/run_setup.hpp"

namespace strata::store {
namespace {

using test::RunSetup;
using testing::HasSubstr;

std::set<std::string> shared_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().starts_with("strata-")) names.insert(entry.path().filename());
  }
  return names;
}

std::span<std::int32_t> numbers(const HostRegion& region) {
  return {reinterpret_cast<std::int32_t*>(region.data()), region.bytes() / sizeof(std::int32_t)};
}

TEST(HostRegion, IsZeroAndSharedByTheRanksOfAMachine) {
  const RunSetup run(0);
  const HostRegion region = HostRegion::create(run.machine, 1'000'000, "numbers");
  ASSERT_EQ(region.bytes(), 1'000'000u);
  const auto all = numbers(region);
  EXPECT_TRUE(std::ranges::all_of(all, [](int v) { return v == 0; }));
  run.machine.barrier();
  const auto size = static_cast<std::size_t>(run.machine.size());
  for (std::size_t i = static_cast<std::size_t>(run.machine.rank()); i < all.size(); i += size)
    all[i] = static_cast<int>(i);
  run.machine.barrier();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<int>(i));
}

TEST(HostRegion, BelongsToOneVirtualMachineAlone) {
  const RunSetup run(1);
  const HostRegion region = HostRegion::create(run.machine, 4096, "numbers");
  numbers(region)[0] = run.machine.index() + 1;
  test::world().communicator().barrier();
  EXPECT_EQ(numbers(region)[0], run.machine.index() + 1);
}

TEST(HostRegion, LeavesNoName) {
  const RunSetup run(0);
  run.machine.barrier();
  const auto before = shared_names();
  run.machine.barrier();
  const HostRegion region = HostRegion::create(run.machine, 1 << 20, "numbers");
  run.machine.barrier();
  const auto after = shared_names();
  EXPECT_TRUE(std::ranges::includes(before, after));
}

TEST(HostRegion, MayBeEmpty) {
  const RunSetup run(0);
  EXPECT_EQ(HostRegion::create(run.machine, 0, "nothing").bytes(), 0u);
}

TEST(HostRegion, RefusesWhatIsTooLargeOnAllRanks) {
  const RunSetup run(0);
  try {
    HostRegion::create(run.machine, std::size_t{1} << 50, "numbers");
    FAIL() << "accepted";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("no room for numbers"));
    EXPECT_THAT(error.what(), HasSubstr("wanted 1024.0 TiB, free "));
    EXPECT_FALSE(error.remedy().empty());
  }
}

}  // namespace
}  // namespace strata::store
