// SPDX-License-Identifier: Apache-2.0
#include "agree.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::cli {

ParsedOptions agree(const Asked& asked, const comm::Communicator& world) {
  std::string file;
  world.together([&] {
    if (asked.error) std::rethrow_exception(asked.error);
    file = asked.command->run_file();
  });
  const std::string mine = file;
  world.broadcast(file, 0);
  world.together([&] {
    if (file != mine)
      throw InputError(fmt::format("this rank was asked to use the run of {}, rank 0 that of {}", mine, file),
                       "Give all ranks the same options.");
  });
  std::string found, contents;
  world.together([&] {
    std::error_code ignored;
    if (world.rank() > 0 || file.empty() || !std::filesystem::exists(file, ignored)) return;
    contents = read_file(file);
    found = "found";
  });
  world.broadcast(found, 0);
  world.broadcast(contents, 0);
  ParsedOptions options;
  world.together(
      [&] { options = asked.command->complete(found.empty() ? std::nullopt : std::optional(contents)); });
  return options;
}

}  // namespace strata::cli
