// SPDX-License-Identifier: Apache-2.0
#include "strata/doctor/last_resort.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace strata::doctor {
namespace {

using std::chrono::seconds;

constexpr seconds kLimit{5}, kForEver{60};

TEST(LastResortDeathTest, NamesTheRankThatWaitsForMpiAndEndsIt) {
  const auto wait = [] {
    setenv("OMPI_COMM_WORLD_RANK", "4", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "7", 1);
    const LastResort last_resort(kLimit);
    std::this_thread::sleep_for(kForEver);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(2),
              "rank 4 of 7 .host .*: MPI_Init has not returned within 1 s\n"
              "  It waits for every rank(.*\n)+.*#a-rank-that-does-not-answer");
}

TEST(LastResortDeathTest, EndsAtItsLimitWhatMpiDidNotKeep) {
  const auto wait = [] {
    LastResort last_resort(kLimit);
    last_resort.mpi_has_started();
    std::this_thread::sleep_for(kForEver);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(2), "^strata-doctor: rank 0.* no end within 5 s\n  See docs");
}

TEST(LastResortDeathTest, LeavesAloneWhatEndsInTime) {
  const auto work = [] {
    {
      LastResort last_resort(kLimit);
      last_resort.mpi_has_started();
    }
    std::this_thread::sleep_for(kLimit + seconds(1));
    std::_Exit(0);
  };
  EXPECT_EXIT(work(), testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace strata::doctor
