// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "judge.hpp"
#include "strata/doctor/doctor.hpp"

namespace strata::doctor {

/// The findings so far. Rank 0 prints them as they come. Thread safe, because the thread that watches the
/// other ranks may have to end it.
class Report {
 public:
  Report(const Request& request, bool prints, std::chrono::steady_clock::time_point started)
      : request_(request), prints_(prints), started_(started) {}

  void begin(const std::vector<RankFacts>& ranks);
  void enter(const char* check);  ///< a literal: what is looked at from now on
  std::string current_check() const { return current_.load(); }
  /// Adds a check's facts, in lines for people, and its findings.
  void add(const std::string& check, const std::vector<std::string>& lines, const Findings& findings);
  void keep(const std::string& name, nlohmann::json facts);  ///< for the file of --json

  /// Prints the last line and writes the file of --json; returns the exit code.
  int end();
  /// The same where ranks fell silent, whose host is added; also prints where rank 0 cannot.
  int end_early(Finding finding, const std::vector<int>& silent);

 private:
  void print(const std::string& check, const std::vector<std::string>& lines, const Findings& findings) const;
  int finish();
  double seconds() const;

  const Request& request_;
  bool prints_;
  std::chrono::steady_clock::time_point started_;
  std::mutex mutex_;
  std::atomic<const char*> current_ = "start";
  bool ended_ = false;
  std::vector<std::string> host_of_rank_;
  std::vector<std::string> hosts_;
  Findings findings_;
  nlohmann::json facts_ = nlohmann::json::object();
};

/// One line per group of hosts with the same text: "h0, h2: 8 ranks, ...", or only the text if all have it.
std::vector<std::string> lines_by_host(const std::vector<Host>& hosts, const std::vector<std::string>& texts);

std::vector<std::string> describe_versions(const std::vector<RankFacts>& ranks);
std::vector<std::string> describe_ranks(const std::vector<RankFacts>& ranks);
std::vector<std::string> describe_limits(const std::vector<RankFacts>& ranks);
std::vector<std::string> describe_network(const NetworkFacts& network, const std::vector<RankFacts>& ranks);
std::vector<std::string> describe_output(const OutputFacts& output);
std::vector<std::string> lines_of(const std::string& text);
std::vector<std::string> describe_clocks(const std::vector<ClockOffset>& offsets);
std::vector<std::string> describe_storage(const std::vector<StorageFacts>& storage,
                                          const std::vector<RankFacts>& ranks, const std::string& folder);

}  // namespace strata::doctor
