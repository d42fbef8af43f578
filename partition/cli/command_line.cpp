// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/interrupt.hpp"
#include "strata/partition/command.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/report_page.hpp"

namespace strata::partition {
namespace {

constexpr const char* kProgram = "strata-partition";

/// Draws a page; warns where that fails, for example because there is no Python: the parts are whole even so.
void draw_page(const std::filesystem::path& page) {
  const std::string facts = facts_file(page).string();
  const std::string failure = draw_report({facts}, page);
  if (!failure.empty())
    spdlog::warn("--report: there is no page, but the parts are whole. {}\n  strata-report {} draws it.",
                 failure, facts);
}

int dispatch(const std::vector<std::string>& words) {
  Command command(words);
  if (!command.help().empty()) {
    fmt::print("{}", command.help());
    return static_cast<int>(ExitCode::ok);
  }
  init_log(kProgram, command.log_level());
  StopFlag stop;
  const InterruptGuard guard{stop};
  try {
    const CommandResult result = command.run(stop);
    fmt::print("{}", command.wants_json() ? result.json : result.text);
    if (!result.page.empty()) draw_page(result.page);
    return static_cast<int>(result.succeeded ? ExitCode::ok : ExitCode::failure);
  } catch (const Stopped& stopped) {
    fmt::print(stderr, "{}", format_error(kProgram, stopped));
    return 128 + guard.signal();
  }
}

}  // namespace

int run_command_line(int argc, char** argv) {
  try {
    return dispatch(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", format_error(kProgram, error));
    return static_cast<int>(exit_code(error));
  }
}

}  // namespace strata::partition
