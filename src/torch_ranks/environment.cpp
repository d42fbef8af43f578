// SPDX-License-Identifier: Apache-2.0
#include "environment.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>

#include "strata/util/error.hpp"

namespace strata::torch_ranks {
namespace {

constexpr const char* kRemedy =
    "Start with torchrun or torch.multiprocessing.spawn, and set RANK, WORLD_SIZE, MASTER_ADDR and "
    "MASTER_PORT in each process as torch.distributed wants them.";

std::optional<std::string> find(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

std::string need(const char* name) {
  const std::optional<std::string> text = find(name);
  if (!text || text->empty())
    throw InputError(fmt::format("{} is not set in the environment", name), kRemedy);
  return *text;
}

struct Range {
  int first, last;
};

int number(const char* name, const std::string& text, Range range) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= range.first && value <= range.last)
    return value;
  throw InputError(fmt::format("{} is '{}' in the environment, not a number from {} to {}", name, text,
                               range.first, range.last),
                   kRemedy);
}

void check_local_rank() {
  constexpr int kMost = std::numeric_limits<int>::max();
  const auto rank = find("LOCAL_RANK"), size = find("LOCAL_WORLD_SIZE");
  const int ranks = size ? number("LOCAL_WORLD_SIZE", *size, {1, kMost}) : kMost;
  if (rank) number("LOCAL_RANK", *rank, {0, ranks - 1});
}

}  // namespace

Environment read_environment() {
  Environment found;
  found.world_size = number("WORLD_SIZE", need("WORLD_SIZE"), {1, std::numeric_limits<int>::max()});
  found.rank = number("RANK", need("RANK"), {0, found.world_size - 1});
  found.address = need("MASTER_ADDR");
  found.port = static_cast<std::uint16_t>(number("MASTER_PORT", need("MASTER_PORT"), {1, 65535}));
  check_local_rank();
  found.launcher_has_store = find("TORCHELASTIC_USE_AGENT_STORE") == "True";
  found.attempt = find("TORCHELASTIC_RESTART_COUNT").value_or("0");
  return found;
}

}  // namespace strata::torch_ranks
