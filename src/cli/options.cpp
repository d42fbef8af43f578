// SPDX-License-Identifier: Apache-2.0
#include "strata/cli/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <deque>
#include <optional>
#include <vector>

#include "config_file.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/utf8.hpp"
#include "train_options.hpp"

namespace strata::cli {
namespace {

/// CLI11 splits the command line and writes the help; the table says what the words mean.
class CommandLine {
 public:
  explicit CommandLine(const OptionTable& table)
      : app_(
            "Trains a graph neural network on a partitioned graph.\n"
            "  mpirun -n 8 strata-train --graph parts/ --model sage --fanouts "
            "15,10,5",
            "strata-train") {
    app_.set_version_flag("--version", std::string("strata-train ") + STRATA_VERSION);
    config_file_ = app_.add_option(
        "--config", config_path_,
        "TOML file with the same names as the options, which tables may group; the command line wins");
    for (const Option& option : table.options()) add(option);
    // The last value of an option wins, so that a person can change the defaults of a script.
    for (CLI::Option* option : app_.get_options())
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app_.allow_extras();  // collected so that the error can name the nearest option
  }

  /// A text to print instead of a run (--help, --version), or nothing. Throws
  /// InputError.
  std::optional<std::string> parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      return app_.help();
    } catch (const CLI::CallForVersion& version) {
      return std::string(version.what()) + "\n";
    } catch (const CLI::ParseError& e) {
      throw InputError(e.what(), "strata-train --help lists all options.");
    }
    if (const std::vector<std::string> extras = app_.remaining(); !extras.empty()) refuse(extras.front());
    return std::nullopt;
  }

  std::optional<std::string> config_path() const {
    return config_file_->count() > 0 ? std::optional(config_path_) : std::nullopt;
  }

  bool has(std::string_view name) const {
    return std::ranges::any_of(
        words_, [&](const Word& word) { return word.is_given() && word.option->name == name; });
  }

  /// Sets the variables of the options that were given.
  void apply() const {
    for (const Word& word : words_)
      if (word.is_given()) word.option->read_text("--" + word.option->name, word.text);
  }

 private:
  struct Word {
    const Option* option;
    CLI::Option* parsed = nullptr;
    std::string text = {};

    bool is_given() const { return parsed->count() > 0; }
  };

  void add(const Option& option) {
    Word& word = words_.emplace_back(Word{.option = &option});
    const std::string name = "--" + option.name;
    word.parsed = option.takes_value ? app_.add_option(name, word.text, option.help)
                                     : app_.add_flag(name, word.text, option.help);
    word.parsed->group(fmt::format("{} ([{}] in a file)", option.heading, option.table));
    if (!option.takes_value) return;
    word.parsed->type_name(option.hint);
    word.parsed->default_str(option.default_value);
  }

  [[noreturn]] void refuse(const std::string& word) const {
    const std::string remedy = "strata-train --help lists all options.";
    if (!word.starts_with("-"))
      throw InputError(fmt::format("unexpected argument {}", word),
                       "Options begin with --; the numbers of a list have "
                       "commas between them: 15,10,5. " +
                           remedy);
    std::vector<std::string> names;
    for (const CLI::Option* option : app_.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const std::string near = closest(word.substr(0, word.find('=')), names);
    throw InputError(fmt::format("unknown option {}", word),
                     near.empty() ? remedy : fmt::format("Did you mean {}? {}", near, remedy));
  }

  CLI::App app_;
  std::deque<Word> words_;  ///< a deque: CLI11 keeps their addresses
  CLI::Option* config_file_ = nullptr;
  std::string config_path_;
};

/// Whether the text mentions the option, and not only as a part of another: "--epochs" in "--epochs-more".
bool mentions(const std::string& text, const std::string& option) {
  for (std::size_t at = text.find(option); at != std::string::npos; at = text.find(option, at + 1)) {
    const std::size_t end = at + option.size();
    if (end == text.size() || (text[end] != '-' && std::isalnum(static_cast<unsigned char>(text[end])) == 0))
      return true;
  }
  return false;
}

/// Calls train::validate(), and adds the places of the file's options that the error mentions.
void validate(const train::TrainConfig& config, const ConfigFile& file, const CommandLine& line) {
  try {
    train::validate(config);
  } catch (const InputError& error) {
    std::string places;
    for (const auto& [name, place] : file.given_at)
      if (!line.has(name) && mentions(error.what(), "--" + name))
        places += (places.empty() ? "" : ", ") + place;
    if (places.empty()) throw;
    throw InputError(fmt::format("{} ({})", error.what(), places), error.remedy());
  }
}

}  // namespace

ParsedOptions parse_train_options(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) require_utf8(argv[i], fmt::format("argument {}", i));  // records are JSON
  TrainSettings settings;
  const OptionTable table = train_options(settings);
  CommandLine line(table);
  if (const auto text = line.parse(argc, argv)) return {.config = std::nullopt, .text = *text};
  ConfigFile file;
  if (const auto path = line.config_path()) file = read_config_file(*path);
  settings.config = file.config;
  line.apply();
  settle_tf32(
      settings, [&](std::string_view name) { return line.has(name); }, "--");
  validate(settings.config, file, line);
  return {.config = settings.config, .text = {}};
}

}  // namespace strata::cli
