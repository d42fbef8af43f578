// SPDX-License-Identifier: Apache-2.0
#include "strata/util/error.hpp"

#include <gtest/gtest.h>

#include <new>

namespace strata {
namespace {

TEST(ExitCode, StandsForTheKindOfError) {
  EXPECT_EQ(exit_code(InputError("x")), ExitCode::bad_input);
  EXPECT_EQ(exit_code(OutOfMemory("x")), ExitCode::out_of_memory);
  EXPECT_EQ(exit_code(std::bad_alloc()), ExitCode::out_of_memory);
  EXPECT_EQ(exit_code(IoError("x")), ExitCode::failure);
  EXPECT_EQ(exit_code(CudaError("x")), ExitCode::failure);
  EXPECT_EQ(exit_code(CommError("x")), ExitCode::failure);
  EXPECT_EQ(exit_code(Error("x")), ExitCode::failure);
  EXPECT_EQ(exit_code(std::runtime_error("x")), ExitCode::failure);
}

TEST(ExitCode, HasTheNumbersThatScriptsKnow) {
  EXPECT_EQ(static_cast<int>(ExitCode::ok), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::failure), 1);
  EXPECT_EQ(static_cast<int>(ExitCode::bad_input), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::out_of_memory), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::stopped), 75);
  EXPECT_EQ(static_cast<int>(ExitCode::stopped_unsaved), 76);
}

TEST(FormatError, HasMessageAndRemedy) {
  EXPECT_EQ(format_error("strata-train", InputError("--lr: 0 is not positive", "Give a rate.")),
            "strata-train: --lr: 0 is not positive\n  Give a rate.");
  EXPECT_EQ(format_error("strata-train", InputError("no remedy")), "strata-train: no remedy");
  EXPECT_EQ(format_error("strata-train", std::runtime_error("foreign")), "strata-train: foreign");
}

TEST(FormatError, NamesThePlaceOfFailures) {
  const CudaError error("cannot copy", "Try again.");
  const std::string text = format_error("strata-train: rank 3", error);
  EXPECT_EQ(text.find("strata-train: rank 3: cannot copy\n  Try again.\n  at "), 0u) << text;
  EXPECT_NE(text.find("error_test.cpp:" + std::to_string(error.where().line())), std::string::npos) << text;
}

TEST(FormatError, NamesOnlyTheFileIfOneCannotBeRead) {
  EXPECT_EQ(format_error("strata-train", IoError("x.npy: the disk is full", "Free some space.")),
            "strata-train: x.npy: the disk is full\n  Free some space.");
}

TEST(Errors, KeepTheirParts) {
  const OutOfMemory error("wanted 3", "Use less.");
  EXPECT_STREQ(error.what(), "wanted 3");
  EXPECT_EQ(error.remedy(), "Use less.");
  EXPECT_NE(std::string(error.where().file_name()).find("error_test.cpp"), std::string::npos);
}

}  // namespace
}  // namespace strata
