// SPDX-License-Identifier: Apache-2.0
#include "strata/doctor/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

#include "examination.hpp"
#include "gpus.hpp"
#include "report.hpp"
#include "strata/comm/watchdog.hpp"
#include "strata/util/system.hpp"

namespace strata::doctor {
namespace {

using std::chrono::milliseconds;

/// The longest waits for ranks.
struct Patience {
  milliseconds presence{4000}, silence{4000}, check{8000};  // GPUs and NCCL may take seconds to start

  static Patience of(bool quick) {
    return quick ? Patience{}
                 : Patience{.presence = milliseconds(10000),
                            .silence = milliseconds(7000),
                            .check = milliseconds(30000)};
  }
};

/// Reports other versions before they may misunderstand further messages. Rank 0 has received the words.
void compare_versions(const std::vector<std::string>& words, Report& report) {
  std::vector<RankFacts> ranks;
  for (const std::string& word : words) {
    const std::size_t end = std::min(word.find('\n'), word.size() - 1);
    ranks.push_back(
        {.host = word.substr(end + 1), .versions = {{"Strata", "Strata " + word.substr(0, end)}}});
  }
  if (!ranks.empty()) report.add("versions", {}, judge_versions(ranks));
}

/// Ends the run if ranks cannot be reached; only their numbers are known.
void require_presence(const comm::World& world, const Patience& patience, Report& report) {
  const std::string word = build_version() + "\n" + world.host();
  const comm::Presence presence = comm::check_presence(world, word, patience.presence);
  if (presence.complete) return compare_versions(presence.words, report);
  if (presence.missing.empty()) std::this_thread::sleep_for(std::chrono::seconds(5));  // rank 0 reports who
  const Finding finding =
      no_answer("network", presence.missing, {},
                fmt::format("no message of MPI passed between rank {} (host {}) and {} within {} s",
                            world.rank(), world.host(), presence.missing.size() == 1 ? "it" : "them",
                            patience.presence.count() / 1000));
  world.abort(report.end_early(finding, presence.missing));
}

comm::Watchdog::Options watchdog_options(const Patience& patience, Report& report) {
  comm::Watchdog::Options options;
  options.period = milliseconds(250);
  options.silence = patience.silence;
  options.busy_silence = patience.silence;
  options.patience = patience.check;
  options.last_words = [&report](const std::string& message, const std::vector<int>& ranks) {
    const Finding finding{
        .level = Level::failure,
        .check = "silence",
        .message = message,
        .action = "Look at that host: its network, its memory, and processes that are stopped.",
        .remedy = Remedy::silence};
    return report.end_early(finding, ranks);
  };
  return options;
}

/// Ends the run on rank 0 when its time is up, whatever it waits for.
class Deadline {
 public:
  Deadline(const comm::World& world, Report& report, std::chrono::steady_clock::time_point end)
      : thread_([this, &world, &report, end] {
          std::unique_lock lock(mutex_);
          if (done_.wait_until(lock, end, [this] { return is_done_; })) return;
          world.abort(report.end_early(
              {.level = Level::failure,
               .check = "silence",
               .message = "the time was up during the check \"" + report.current_check() + "\"",
               .action = "Leave --quick out, or look at what that check needs.",
               .remedy = Remedy::silence},
              {}));
        }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      is_done_ = true;
    }
    done_.notify_all();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool is_done_ = false;
  std::thread thread_;  // last, because it uses the others
};

}  // namespace

void prepare_environment() { ask_for_nccl_log(); }

int examine(Request request, const std::function<void(Request&)>& complete, const comm::World& world,
            std::chrono::steady_clock::time_point started) {
  const Patience patience = Patience::of(request.quick);
  Report report(request, world.rank() == 0, started);
  constexpr milliseconds kToEnd{500};  // before the program's own last resort
  std::optional<Deadline> deadline;
  if (world.rank() == 0) deadline.emplace(world, report, started + request.limit() - kToEnd);
  require_presence(world, patience, report);
  complete(request);
  comm::Watchdog watchdog(world, watchdog_options(patience, report));
  Examination examination(request, world, watchdog, report, started);
  examination.run();
  watchdog.close();
  return report.end();
}

}  // namespace strata::doctor
