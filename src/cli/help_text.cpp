// SPDX-License-Identifier: Apache-2.0
#include "help_text.hpp"

#include <fmt/format.h>

#include "strata/util/text.hpp"

namespace strata::cli {
namespace {

constexpr const char* kUsage =
    "{0} --graph PARTS [OPTION...]          trains a graph neural network\n"
    "{0} --resume RUN                       continues a run with its options\n"
    "{0} evaluate RUN --graph PARTS         scores a trained model\n"
    "{0} predict RUN --graph PARTS --output logits.npy\n"
    "\n"
    "  strata-partition build --input npy:DIR --parts 2 --output parts\n"
    "  mpirun -n 2 {0} --graph parts --model sage --fanouts 15,10,5\n";

constexpr const char* kPlanUsage =
    "{0} --graph PARTS [OPTION...]     predicts what a training run needs and how fast it is\n"
    "\n"
    "The options are those of strata-train. Nothing is trained.\n"
    "\n"
    "  mpirun -n 16 {0} --graph parts --model sage\n"
    "  {0} --graph parts --model sage --cluster machines=16,gpus=8,link=400Gbit/s\n";

std::string about_help() {
  return "\n" +
         wrapped(
             "--config FILE reads options from a TOML file, --version shows the version (--version all "
             "also those of the libraries), and --help all lists every option.",
             0, options::help_columns());
}

}  // namespace

std::string train_help(const std::string& program, const options::OptionTable& table, bool all) {
  return fmt::format(kUsage, program) + list_options(table, all) + about_help();
}

std::string plan_help(const std::string& program, const options::OptionTable& own,
                      const options::OptionTable& table, bool all) {
  return fmt::format(kPlanUsage, program) + list_options(own, all) + list_options(table, all) + about_help();
}

}  // namespace strata::cli
