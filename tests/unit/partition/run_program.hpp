// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

/// Runs of strata-partition as a program.
namespace strata::test {

struct Outcome {
  int exit_code = -1;
  std::string output;
};

inline Outcome run_shell(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    outcome.output.append(buffer, got);
  outcome.exit_code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

/// Tests that run the program on files of their own.
class ProgramTest : public testing::Test {
 protected:
  static constexpr const char* kInput = "synthetic:kind=sbm,nodes=2000,degree=10,classes=4,features=8,seed=1";

  static Outcome run(const std::string& arguments) {
    return run_shell(std::string(STRATA_PARTITION) + " " + arguments);
  }
  std::string out() const { return (folder_ / "out").string(); }

  strata::test::TemporaryFolder folder_;
};

/// What the child took, and its exit code.
struct Usage {
  int exit_code = -1;
  std::int64_t peak_bytes = 0;
};

inline Usage run_measured(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), STRATA_PARTITION);
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    execv(STRATA_PARTITION, words.data());
    _exit(127);
  }
  int status = 0;
  struct rusage usage {};
  wait4(child, &status, 0, &usage);
  return {WEXITSTATUS(status), std::int64_t{usage.ru_maxrss} * 1024};
}

}  // namespace strata::test
