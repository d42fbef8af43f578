// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strata/partition/build.hpp"
#include "strata/util/log.hpp"

namespace strata::partition {

/// The result of a command of strata-partition.
struct CommandResult {
  std::string text;       ///< for a person; ends with a newline
  std::string json;       ///< the same for programs
  bool succeeded = true;  ///< false: `verify` found something wrong
  /// Name of the page if one was asked for. The caller has it drawn from the facts in facts_file(page).
  std::filesystem::path page{};
};

/// The file into which build and repartition write the contents of `page` as JSON: "page.html.json".
std::filesystem::path facts_file(std::filesystem::path page);

/// An option of a call from a program: its name, with '-' or '_' between words, and its values as texts.
struct NamedArgument {
  std::string name;
  std::vector<std::string> values;
};

/// A command of strata-partition: build, info, convert, repartition or verify, with its options.
///
///     Command command({"build", "--input", "synthetic:", "--parts", "4", "--output", "parts"});
///     fmt::print("{}", command.run(stop).text);
class Command {
 public:
  /// The words after the program's name. Throws InputError for what is unknown ("did you mean --parts?"),
  /// malformed or missing.
  explicit Command(const std::vector<std::string>& words);
  /// The same for a call from a program; `caller` is its name in messages: "strata.partition". `places` are
  /// the arguments without a name, such as a directory. REQUIRES: there is such a command.
  Command(const std::string& command, const std::vector<std::string>& places,
          const std::vector<NamedArgument>& options, const std::string& caller);
  ~Command();
  Command(Command&&) noexcept;
  Command& operator=(Command&&) noexcept;

  /// Makes `build` cut this graph instead of reading one: --input only names it then. `make` is called with
  /// the number of threads when the command runs.
  void give(std::function<graph::Graph(int)> make);

  const std::string& help() const;  ///< a text to print instead of a run (--help, --version), or empty
  LogLevel log_level() const;
  bool wants_json() const;

  /// Runs the command. Throws InputError, IoError, OutOfMemory or Stopped, and leaves nothing behind
  /// then. A stop becomes effective between the pieces of work; METIS cannot be interrupted.
  CommandResult run(StopFlag& stop);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A command on a thread of its own, for programs that have more to do and handle signals themselves.
class CommandJob {
 public:
  explicit CommandJob(Command command);
  CommandJob(CommandJob&&) noexcept;
  ~CommandJob();  ///< does not wait: work that has not ended goes on

  bool wait_for(std::chrono::milliseconds patience) const;  ///< whether it has ended by then
  /// Asks it to end without a result. It may work on for a while, for example in METIS, but writes nothing.
  void stop();
  /// Whether it has files that it would remove first when stopped, which takes moments.
  bool has_files() const;
  /// Waits for the end. Throws what Command::run() throws; call it once.
  CommandResult take();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::partition
