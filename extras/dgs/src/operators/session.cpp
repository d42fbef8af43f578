// SPDX-License-Identifier: Apache-2.0
#include "operators/session.hpp"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "operators/arguments.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"

namespace strata::dgs {
namespace {

struct Session {
  std::mutex mutex;
  std::shared_ptr<Group> group;
};

/// The session of this process, which is never destroyed: the end of a process waits for no other rank.
Session& session() {
  static auto& only = *new Session;
  return only;
}

constexpr std::int64_t kIsMeetingPlace = 0x5354524154414447;  // "STRATADG"

constexpr std::size_t kHead = 4;  // numbers before the host's name

/// [mark, port, number, length of the host's name, its bytes in words]
std::vector<std::int64_t> numbers_of(const torch_ranks::MeetingPlace& place) {
  std::vector<std::int64_t> numbers(kHead + (place.host.size() + 7) / 8);
  numbers[0] = kIsMeetingPlace;
  numbers[1] = place.port;
  numbers[2] = place.number;
  numbers[3] = static_cast<std::int64_t>(place.host.size());
  std::memcpy(numbers.data() + kHead, place.host.data(), place.host.size());
  return numbers;
}

torch_ranks::MeetingPlace place_of(const std::vector<std::int64_t>& numbers) {
  const bool is_one = numbers.size() > kHead && numbers[0] == kIsMeetingPlace && numbers[1] > 0 &&
                      numbers[1] <= 0xFFFF && numbers[3] > 0 &&
                      at(numbers[3]) <= (numbers.size() - kHead) * 8;
  if (!is_one) {
    throw InputError("the unique id is none that _CAPI_get_unique_id() gave",
                     "Call it on rank 0 and send its numbers to the others (broadcast_object_list).");
  }
  std::string host(at(numbers[3]), '\0');
  std::memcpy(host.data(), numbers.data() + kHead, host.size());
  return {.host = std::move(host), .port = static_cast<std::uint16_t>(numbers[1]), .number = numbers[2]};
}

/// Sends messages of the library to stderr, as those of the package.
void start_log() {
  static std::once_flag once;
  std::call_once(once, [] { init_log("strata.dgs", LogLevel::warn); });
}

}  // namespace

std::vector<std::int64_t> unique_id() { return numbers_of(torch_ranks::open_meeting_place()); }

void join_group(std::int64_t size, const std::vector<std::int64_t>& id, std::int64_t rank) {
  constexpr std::int64_t kMostRanks = 1 << 16;
  if (size < 1 || size > kMostRanks || rank < 0 || rank >= size) {
    throw InputError(fmt::format("rank {} of {} ranks is no rank of a group", rank, size),
                     "_CAPI_set_nccl(nranks, unique_id, rank) with 0 <= rank < nranks.");
  }
  const torch_ranks::MeetingPlace place = place_of(id);
  const std::lock_guard lock(session().mutex);
  if (session().group) {
    throw InputError("this process is in a group already",
                     "Call _CAPI_set_nccl() once, or _CAPI_close() on all ranks before the next.");
  }
  start_log();
  session().group =
      std::make_shared<Group>(torch_ranks::backend_at(place, static_cast<int>(rank), static_cast<int>(size),
                                                      {.ends_with_others = false}),
                              current_gpu());
}

void leave_group() {
  const std::lock_guard lock(session().mutex);
  if (!session().group) return;
  synchronize(session().group->device());
  session().group->close();
  session().group.reset();
}

std::shared_ptr<Group> group_if_any() {
  const std::lock_guard lock(session().mutex);
  return session().group;
}

std::shared_ptr<Group> group() {
  if (std::shared_ptr<Group> found = group_if_any()) return found;
  throw InputError(
      "this process is in no group of ranks",
      "Call _CAPI_set_nccl(nranks, unique_id, rank) first, with the numbers that rank 0 got from "
      "_CAPI_get_unique_id().");
}

}  // namespace strata::dgs
