// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::doctor {
namespace {

using nlohmann::json;

json record_of(const Finding& finding) {
  return {{"level", enum_name(finding.level)},
          {"check", finding.check},
          {"host", finding.host},
          {"message", finding.message},
          {"action", finding.action},
          {"remedy", remedy_page(finding.remedy)}};
}

constexpr int kColumns = 80, kIndent = 11;  // of a terminal; of what stands beside the names of checks

/// A line beside a name. If it is too long, what follows begins below its first word; rows of tables stay
/// whole.
std::string beside(const std::string& line) {
  const std::size_t blanks = std::min(line.find_first_not_of(' '), line.size());
  if (line.find("  ", blanks) != std::string::npos) return line + "\n";
  return line.substr(0, blanks) +
         wrapped(std::string_view(line).substr(blanks), kIndent + static_cast<int>(blanks), kColumns);
}

std::string lines_beside(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : std::string(kIndent, ' ')) + beside(line);
  return text;
}

std::string summary(const Findings& findings) {
  const auto count = [&](Level level) { return std::ranges::count(findings, level, &Finding::level); };
  const auto failures = count(Level::failure), warnings = count(Level::warning);
  if (failures + warnings == 0) return "all is well";
  if (failures == 0) return counted(warnings, "warning");
  return fmt::format("{}{}: a run would fail", counted(failures, "failure"),
                     warnings == 0 ? "" : ", " + counted(warnings, "warning"));
}

}  // namespace

double Report::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

void Report::begin(const std::vector<RankFacts>& ranks) {
  const std::lock_guard lock(mutex_);
  for (const RankFacts& rank : ranks) host_of_rank_.push_back(rank.host);
  for (const Host& host : hosts_of(ranks)) hosts_.push_back(host.name);
  facts_["ranks"] = ranks;
  if (!prints_) return;
  fmt::print("strata-doctor {}: {} on {}{}\n", build_version(), counted(std::ssize(ranks), "rank"),
             counted(std::ssize(hosts_), "host"), request_.quick ? ", quick" : "");
  std::fflush(stdout);
}

void Report::enter(const char* check) { current_ = check; }

void Report::add(const std::string& check, const std::vector<std::string>& lines, const Findings& findings) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  const auto is_known = [&](const Finding& finding) {
    return std::ranges::any_of(findings_, [&](const Finding& known) {
      return known.host == finding.host && known.message == finding.message;
    });
  };
  Findings added;  // a difference of versions is found at the first greeting, and again with all facts
  for (const Finding& finding : findings)
    if (!is_known(finding)) added.push_back(finding);
  findings_.insert(findings_.end(), added.begin(), added.end());
  if (prints_) print(check, lines, added);
}

void Report::keep(const std::string& name, json facts) {
  const std::lock_guard lock(mutex_);
  facts_[name] = std::move(facts);
}

void Report::print(const std::string& check, const std::vector<std::string>& lines,
                   const Findings& findings) const {
  if (!lines.empty()) fmt::print("{:10} {}", check, lines_beside(lines));
  for (const Finding& finding : findings) {
    std::vector<std::string> words =
        lines_of((finding.host.empty() ? "" : finding.host + ": ") + finding.message);
    if (!finding.action.empty()) words.push_back(finding.action);
    words.push_back("See " + remedy_page(finding.remedy));
    fmt::print("  {:8} {}", enum_name(finding.level), lines_beside(words));
  }
  std::fflush(stdout);
}

int Report::finish() {
  ended_ = true;
  const int code = exit_code(findings_);
  if (prints_) {
    fmt::print("{} ({})\n", summary(findings_), format_seconds(seconds()));
    std::fflush(stdout);
  }
  if (request_.json.empty() || !prints_) return code;
  json record{{"program", "strata-doctor " + build_version()},
              {"quick", request_.quick},
              {"ranks", host_of_rank_.size()},
              {"hosts", hosts_},
              {"seconds", seconds()},
              {"exit_code", code},
              {"findings", json::array()},
              {"facts", facts_}};
  for (const Finding& finding : findings_) record["findings"].push_back(record_of(finding));
  write_file_atomically(request_.json, record.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  return code;
}

int Report::end() {
  const std::lock_guard lock(mutex_);
  return finish();
}

int Report::end_early(Finding finding, const std::vector<int>& silent) {
  const std::lock_guard lock(mutex_);
  if (ended_) return exit_code(findings_);
  prints_ = true;
  if (finding.host.empty() && silent.size() == 1 && !host_of_rank_.empty())
    finding.host = host_of_rank_[at(silent.front())];
  findings_.push_back(finding);
  print(finding.check, {}, {finding});
  try {
    return finish();
  } catch (const std::exception& error) {  // nobody above could report it
    fmt::print(stderr, "{}\n", format_error("strata-doctor", error));
    return exit_code(findings_);
  }
}

}  // namespace strata::doctor
