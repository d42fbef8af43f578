// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/nn/model.hpp"
#include "strata/train/config.hpp"
#include "strata/train/inference.hpp"
#include "strata/train/planning.hpp"
#include "strata/train/trainer.hpp"
#include "strata/util/options.hpp"

namespace strata::cli {

/// The purpose of a call: to train, to use a trained model, or to plan a run without training.
enum class Purpose { train, predict, evaluate, plan };

/// What a command line asks for: a run with this configuration, or, without one, a text to print (--help,
/// --version).
struct ParsedOptions {
  std::optional<train::TrainConfig> config;
  /// What `predict` and `evaluate` use the trained model for. `config` says where and how.
  std::optional<train::InferenceRequest> inference;
  std::optional<train::PlanRequest> plan;  ///< of strata-plan: nothing is trained
  std::vector<std::uint64_t> seeds;        ///< --seeds: a run for each; empty: one run
  std::string text;
};

/// An option of a call from a program: its name, with '-' or '_' between words, and what a configuration file
/// could have as its value.
struct NamedOption {
  std::string name;
  options::FileValue value;
};

/// A command line of strata-train or strata-plan that is split into its words. Their meaning may depend on
/// the folder of an earlier run, which only one rank may see; it is read in between.
///
///     Command command(argc, argv);
///     if (!command.text().empty()) ...            // --help
///     auto options = command.complete(contents of run_file(), if there is one);
class Command {
 public:
  /// `own_model`: the name of the model that the program has of its own; empty: --model chooses. A command
  /// line for training may begin with the word predict or evaluate, which changes its purpose. Throws
  /// InputError for options that are unknown ("did you mean --fanouts?") or lack a value.
  Command(int argc, const char* const* argv, const std::string& own_model = {},
          Purpose purpose = Purpose::train);
  /// The same options, named in a call from a program; `caller` is its name in messages and records:
  /// "strata.train". To use a trained model, "run" names its folder, and without "graph" the graph is the one
  /// that it was trained on. Throws InputError for names that are unknown.
  Command(std::vector<NamedOption> options, const std::string& caller, Purpose purpose = Purpose::train);
  ~Command();
  Command(Command&&) noexcept;
  Command& operator=(Command&&) noexcept;

  const std::string& text() const;  ///< to print instead of a run; empty: there is none
  /// The file with the options of the run that is continued or used; empty: there is none.
  std::string run_file() const;
  /// `run_options`: the contents of run_file(); nothing if there is no such file. Reads the file of --config
  /// (same names; the command line wins). Throws InputError for values that are malformed or contradictory.
  ParsedOptions complete(const std::optional<std::string>& run_options) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Parses and completes a command line, for a program whose ranks all see the folders of earlier runs.
ParsedOptions parse_train_options(int argc, const char* const* argv);

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

namespace strata {

template <>
inline constexpr auto enum_names<cli::Purpose> =
    std::to_array<EnumName<cli::Purpose>>({{cli::Purpose::train, "train"},
                                           {cli::Purpose::predict, "predict"},
                                           {cli::Purpose::evaluate, "evaluate"},
                                           {cli::Purpose::plan, "plan"}});

}  // namespace strata
