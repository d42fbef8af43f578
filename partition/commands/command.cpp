// SPDX-License-Identifier: Apache-2.0
#include "strata/partition/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>

#include "commands/arguments.hpp"
#include "commands/run.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"
#include "version.hpp"

namespace strata::partition {
namespace {

using options::Option;
using options::OptionTable;
using Words = std::vector<std::string>;

constexpr const char* kProgram = "strata-partition";

struct Subcommand {
  std::string_view name;
  const char* summary;
  void (*add_options)(OptionTable& table, Arguments& args);
  CommandResult (*run)(Arguments& args, const options::GivenOptions& given, StopFlag& stop);
};

constexpr auto kSubcommands = std::to_array<Subcommand>({
    {"build", "Read a graph, partition it and write one HDF5 file per part", add_build_options, run_build},
    {"info",
     "Show sizes, edge cut and balance of a partition directory, or describe a graph that is not "
     "partitioned: degrees, components, labels, and the memory that training takes",
     add_info_options, run_info},
    {"convert", "Write any graph, also one in parts, as a folder of NumPy arrays", add_convert_options,
     run_convert},
    {"repartition",
     "Cut the graph of a partition directory into another number of parts; the original input is not needed",
     add_repartition_options, run_repartition},
    {"verify",
     "Check every byte and invariant of a partition directory. Needs 25 bytes of memory per node and, per "
     "thread, 4 MiB, an eighth of a byte per node and a 4096th of a part",
     add_verify_options, run_verify},
});

const Subcommand* find_subcommand(std::string_view name) {
  const auto* const found = std::ranges::find(kSubcommands, name, &Subcommand::name);
  return found == kSubcommands.end() ? nullptr : found;
}

[[noreturn]] void refuse_subcommand(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known{"--help", "--version"};
  for (const Subcommand& command : kSubcommands) {
    known.emplace_back(command.name);
    Arguments args;
    OptionTable table;
    command.add_options(table, args);
    if (std::ranges::find(table.options(), name, &Option::shown) != table.options().end())
      throw InputError(fmt::format("unknown option {}", name),
                       fmt::format("Name the command first: {} {} {} ...", kProgram, command.name, name));
  }
  const std::string near = closest(name, known);
  throw InputError(fmt::format("unknown {} {}", name.starts_with('-') ? "option" : "command", name),
                   fmt::format("{}{} --help lists the commands.",
                               near.empty() ? "" : fmt::format("Did you mean {}? ", near), kProgram));
}

std::string program_help() {
  std::string text = fmt::format(
      "{0} COMMAND [OPTION...]\n\nCuts a graph into parts for strata-train. Needs neither a GPU nor MPI.\n\n"
      "  {0} build --input npy:DIR --parts 2 --output parts\n\nCommands\n",
      kProgram);
  for (const Subcommand& command : kSubcommands)
    text += options::describe(std::string(command.name), command.summary);
  return text + fmt::format("\n{} COMMAND --help lists a command's options, --version shows the version.\n",
                            kProgram);
}

std::string help_of(const Subcommand& command, const OptionTable& table) {
  std::string usage = fmt::format("{} {}", kProgram, command.name);
  for (const Option& option : table.options())
    if (option.is_required)
      usage += fmt::format(" {}{}", option.shown(), option.is_place ? "" : " " + option.hint);
  return fmt::format("{} [OPTION...]\n\n{}{}", usage, wrapped(command.summary, 0, options::help_columns()),
                     list_options(table, true));
}

/// Options of the program that a call from another one does not have.
constexpr std::string_view kOfProgram[] = {"json", "log-level"};

std::string with(std::string name, char from, char to) {
  std::ranges::replace(name, from, to);
  return name;
}

/// The words of a command line for an option that `caller` names.
Words words_of(const NamedArgument& given, const OptionTable& table, std::string_view command,
               const std::string& caller) {
  const std::string name = with(given.name, '_', '-');
  const Option* const option = table.find(name);
  const auto is_known = [](const Option& known) {
    return !known.is_place && std::ranges::find(kOfProgram, known.name) == std::end(kOfProgram);
  };
  if (option == nullptr || !is_known(*option)) {
    std::vector<std::string> known;
    for (const Option& other : table.options())
      if (is_known(other)) known.push_back(with(other.name, '-', '_'));
    const std::string near = closest(with(name, '-', '_'), known);
    throw InputError(fmt::format("{}() knows no option {}", caller, given.name),
                     near.empty() ? fmt::format("{} {} --help lists the options.", kProgram, command)
                                  : fmt::format("Did you mean {}?", near));
  }
  if (given.values.size() > 1 && !option->repeats)
    throw InputError(
        fmt::format("{}() takes one value of {}, not {}", caller, given.name, given.values.size()),
        "Give one.");
  Words words;
  for (const std::string& value : given.values) words.push_back(fmt::format("--{}={}", name, value));
  return words;
}

}  // namespace

struct Command::State {
  Arguments args;
  OptionTable table;  ///< bound to the arguments
  const Subcommand* command = nullptr;
  std::optional<options::CommandLine> line;
  std::string help;

  void choose(std::string_view name) {
    command = find_subcommand(name);
    if (command != nullptr) command->add_options(table, args);
  }

  void parse(Words words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      require_utf8(words[i], fmt::format("argument {}", i + 1));  // the manifest is JSON
      words[i] = expand_home_in_word(std::move(words[i]));
    }
    if (asks_for_text(words)) return;
    if (words.empty())
      throw InputError("a command is required", fmt::format("{} --help lists the commands.", kProgram));
    if (command == nullptr) refuse_subcommand(words.front());
    const auto hint = [this](const std::string& word) {
      const bool is_input = table.find("input") != nullptr && !line->has("input");
      return is_input ? fmt::format("Did you mean --input {}?", word) : std::string();
    };
    line.emplace(options::Hints{
        .help = fmt::format("{} {} --help lists the options.", kProgram, command->name), .for_word = hint});
    line->add(table);
    line->parse({words.begin() + 1, words.end()});
    line->refuse_empty_values();
    line->apply(table);
  }

  bool asks_for_text(const Words& words) {
    const auto end = std::ranges::find(words, "--");
    const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
    if (!words.empty() && words.front() == "--version")
      help = fmt::format("{} {}\n", kProgram, program_version());
    else if (std::any_of(words.begin(), end, is_help))
      help = command == nullptr ? program_help() : help_of(*command, table);
    return !help.empty();
  }
};

std::filesystem::path facts_file(std::filesystem::path page) { return page += ".json"; }

Command::Command(const std::vector<std::string>& words) : state_(std::make_unique<State>()) {
  if (!words.empty()) state_->choose(words.front());
  state_->parse(words);
}

Command::Command(const std::string& command, const std::vector<std::string>& places,
                 const std::vector<NamedArgument>& options, const std::string& caller)
    : state_(std::make_unique<State>()) {
  state_->choose(command);
  Words words{command};
  for (const NamedArgument& option : options)
    std::ranges::move(words_of(option, state_->table, command, caller), std::back_inserter(words));
  words.emplace_back("--");
  words.insert(words.end(), places.begin(), places.end());
  state_->parse(std::move(words));
}

Command::~Command() = default;
Command::Command(Command&&) noexcept = default;
Command& Command::operator=(Command&&) noexcept = default;

void Command::give(std::function<graph::Graph(int)> make) { state_->args.input.given = std::move(make); }

const std::string& Command::help() const { return state_->help; }
LogLevel Command::log_level() const { return state_->args.log_level; }
bool Command::wants_json() const { return state_->args.json; }

CommandResult Command::run(StopFlag& stop) {
  const Announcements announcements;
  try {
    return state_->command->run(state_->args, *state_->line, stop);
  } catch (const InputError&) {
    graph::refuse_truncated_inputs();  // the cause of any other error in the input
    throw;
  }
}

}  // namespace strata::partition
