// SPDX-License-Identifier: Apache-2.0
#include "strata/partition/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "commands/arguments.hpp"
#include "commands/run.hpp"
#include "strata/graph/input_stamp.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/home.hpp"
#include "strata/util/progress.hpp"
#include "strata/util/utf8.hpp"
#include "version.hpp"

namespace strata::partition {
namespace {

constexpr const char* kProgram = "strata-partition";

/// The options or subcommands that the user may have meant.
std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> known{"build", "convert", "info", "repartition", "verify", "--help", "--version"};
  for (const CLI::App* command : app.get_subcommands()) {
    known = {};
    for (const CLI::Option* option : command->get_options()) known.push_back(option->get_name());
  }
  return known;
}

/// Reports unknown words before missing ones, because they are often the same mistake.
[[noreturn]] void refuse_command_line(const CLI::ParseError& error, const CLI::App& app) {
  const auto used = app.get_subcommands();
  const std::string help =
      fmt::format("See {}{} --help.", kProgram, used.empty() ? "" : " " + used.front()->get_name());
  const std::vector<std::string> unknown = app.remaining(true);
  if (unknown.empty()) {
    const std::string text = error.what();
    const std::size_t remedy = text.find('\n');
    if (remedy == text.npos) throw InputError(text, help);
    throw InputError(text.substr(0, remedy), fmt::format("{} {}", text.substr(remedy + 1), help));
  }
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  if (used.empty())
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
      if (command->get_option_no_throw(word) != nullptr && word != "--help")
        throw InputError(
            fmt::format("unknown argument {}", word),
            fmt::format("Name the command first: {} {} {} ...", kProgram, command->get_name(), word));
  const bool takes_input = !used.empty() && used.front()->get_option_no_throw("--input") != nullptr;
  if (takes_input && !word.starts_with("-") && used.front()->count("--input") == 0)
    throw InputError(fmt::format("unexpected argument {}", unknown.front()),
                     fmt::format("Did you mean --input {}?", unknown.front()));
  const std::string near = closest(word, known_words(app));
  throw InputError(fmt::format("unknown argument {}", word),
                   near.empty() ? help : fmt::format("Did you mean {}? {}", near, help));
}

/// Refuses empty values: an empty variable of a shell must not undo what an option promises.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands())
    for (const CLI::Option* option : command->get_options())
      if (std::ranges::count(option->results(), "") > 0)
        throw InputError(fmt::format("{}: the value is empty", option->get_name()),
                         "Give one, or leave the option out.");
}

/// Options of the program that a call from another one does not have.
constexpr std::string_view kOfProgram[] = {"help", "json", "log-level"};

std::string with(std::string name, char from, char to) {
  std::replace(name.begin(), name.end(), from, to);
  return name;
}

[[noreturn]] void refuse_name(const std::string& name, const CLI::App& command, const std::string& caller) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    const std::string word = option->get_single_name();
    if (option->get_positional() || std::ranges::find(kOfProgram, word) != std::end(kOfProgram)) continue;
    known.push_back(with(word, '-', '_'));
  }
  const std::string near = closest(with(name, '-', '_'), known);
  throw InputError(fmt::format("{}() knows no option {}", caller, name),
                   near.empty() ? fmt::format("{} {} --help lists the options.", kProgram, command.get_name())
                                : fmt::format("Did you mean {}?", near));
}

}  // namespace

struct Command::State {
  CLI::App app{"Cuts a graph into parts for strata-train. Needs neither a GPU nor MPI."};
  Arguments args;
  CommandOptions commands;
  std::string help;

  State() {
    app.name(kProgram);
    app.set_version_flag("--version", fmt::format("{} {}", kProgram, program_version()));
    app.require_subcommand(1);
    commands = add_commands(app, args);
  }

  void parse(const std::vector<std::string>& words) {
    for (std::size_t i = 0; i < words.size(); ++i)
      require_utf8(words[i], fmt::format("argument {}", i + 1));  // the manifest is JSON
    std::vector<const char*> argv{kProgram};
    for (const std::string& word : words) argv.push_back(word.c_str());
    try {
      app.parse(static_cast<int>(argv.size()), argv.data());
      refuse_empty_values(app);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() != 0) refuse_command_line(error, app);
      std::ostringstream out;
      app.exit(error, out, out);
      help = out.str();
    }
  }

  CommandResult run(StopFlag& stop) {
    if (commands.build->parsed()) return run_build(args, *commands.build, stop);
    if (commands.repartition->parsed()) return run_repartition(args, *commands.repartition, stop);
    if (commands.convert->parsed()) return run_convert(args, *commands.convert, stop);
    return commands.info->parsed() ? run_info(args, *commands.info, stop) : run_verify(args);
  }
};

std::filesystem::path facts_file(std::filesystem::path page) { return page += ".json"; }

Command::Command(const std::vector<std::string>& words) : state_(std::make_unique<State>()) {
  std::vector<std::string> expanded;
  std::ranges::transform(words, std::back_inserter(expanded), expand_home_in_word);
  state_->parse(expanded);
}

Command::Command(const std::string& command, const std::vector<std::string>& places,
                 const std::vector<NamedArgument>& options, const std::string& caller)
    : state_(std::make_unique<State>()) {
  const CLI::App* const chosen = state_->app.get_subcommand(command);
  std::vector<std::string> words{command};
  for (const NamedArgument& option : options) {
    const std::string name = with(option.name, '_', '-');
    const bool of_program = std::ranges::find(kOfProgram, name) != std::end(kOfProgram);
    if (of_program || chosen->get_option_no_throw("--" + name) == nullptr)
      refuse_name(option.name, *chosen, caller);
    for (const std::string& value : option.values) words.push_back(fmt::format("--{}={}", name, value));
  }
  words.emplace_back("--");
  words.insert(words.end(), places.begin(), places.end());
  std::vector<std::string> expanded;
  std::ranges::transform(words, std::back_inserter(expanded), expand_home_in_word);
  state_->parse(expanded);
}

Command::~Command() = default;
Command::Command(Command&&) noexcept = default;
Command& Command::operator=(Command&&) noexcept = default;

const std::string& Command::help() const { return state_->help; }
LogLevel Command::log_level() const { return enum_value<LogLevel>(state_->args.log_level, "--log-level"); }
bool Command::wants_json() const { return state_->args.json; }

CommandResult Command::run(StopFlag& stop) {
  const Announcements announcements;
  try {
    return state_->run(stop);
  } catch (const InputError&) {
    graph::refuse_truncated_inputs();  // the cause of any other error in the input
    throw;
  }
}

}  // namespace strata::partition
