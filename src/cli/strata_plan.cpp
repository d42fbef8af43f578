// SPDX-License-Identifier: Apache-2.0
#include "strata/cli/program.hpp"

int main(int argc, char** argv) {
  return strata::cli::run_program(argc, argv, {.name = "strata-plan", .purpose = strata::cli::Purpose::plan});
}
