// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/cli/options.hpp"
#include "strata/nn/model.hpp"
#include "strata/train/trainer.hpp"

namespace strata::cli {

/// A program with the command line of strata-train or strata-plan.
struct Program {
  std::string name;  ///< in messages
  Purpose purpose = Purpose::train;
  std::string own_model = {};  ///< name of its own model in records and files; empty: --model chooses
  train::ModelFactory make_model = nn::make_model;  ///< see train::train()
};

/// The whole main function of such a program: trains, resumes and uses trained models (`predict`,
/// `evaluate`), writes what strata-train writes, reports errors once and ends all ranks in order. Returns the
/// exit code. Call it before the program starts a thread.
///
///     int main(int argc, char** argv) {
///       return strata::cli::run_program(
///           argc, argv, {.name = "mine", .own_model = "mine", .make_model = make});
///     }
int run_program(int argc, char** argv, const Program& program);

}  // namespace strata::cli
