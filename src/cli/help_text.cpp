// SPDX-License-Identifier: Apache-2.0
#include "help_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "strata/util/wrapped.hpp"

namespace strata::cli {
namespace {

using options::Option;

constexpr int kIndent = 26;
constexpr int kLeast = 40;  // columns, on any terminal

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

/// The options under their headings.
std::string list_options(const options::OptionTable& table, bool all, int columns) {
  std::string text, heading;
  for (const Option& option : table.options()) {
    if (!all && !option.is_common) continue;
    if (option.heading != heading)
      text += all && !option.table.empty()
                  ? fmt::format("\n{} ([{}] in a file)\n", option.heading, option.table)
                  : fmt::format("\n{}\n", option.heading);
    heading = option.heading;
    text += describe_option(option, columns);
  }
  return text;
}

std::string about_help(int columns) {
  return "\n" +
         wrapped(
             "--config FILE reads options from a TOML file, --version shows the version (--version all "
             "also those of the libraries), and --help all lists every option.",
             0, std::max(columns, kLeast));
}

}  // namespace

std::string describe_option(const Option& option, int columns) {
  std::string left = "  --" + option.name;
  // Long lists of choices stand with the explanation.
  const std::string hint = option.takes_value ? option.hint : "";
  std::string help = option.help;
  if (!hint.empty() && left.size() + 1 + hint.size() < kIndent)
    left += ' ' + hint;
  else if (!hint.empty())
    help = hint + "  " + help;
  if (!option.default_value.empty()) help += fmt::format(" [{}]", option.default_value);
  if (left.size() >= kIndent) left += '\n' + std::string(kIndent, ' ');
  if (left.find('\n') == std::string::npos) left.resize(kIndent, ' ');
  return left + wrapped(help, kIndent, std::max(columns, kIndent + kLeast));
}

std::string train_help(const std::string& program, const options::OptionTable& table, bool all, int columns) {
  return fmt::format(kUsage, program) + list_options(table, all, columns) + about_help(columns);
}

std::string plan_help(const std::string& program, const options::OptionTable& own,
                      const options::OptionTable& table, bool all, int columns) {
  return fmt::format(kPlanUsage, program) + list_options(own, all, columns) +
         list_options(table, all, columns) + about_help(columns);
}

}  // namespace strata::cli
