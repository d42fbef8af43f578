// SPDX-License-Identifier: Apache-2.0
#include "report/metrics_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::train {
namespace {

/// Whether a record is about something after `progress`.
bool is_after(const ProgressState& progress, const nlohmann::json& record) {
  const std::string type = record.value("type", "");
  const Count done = progress.epoch, epoch = record.value("epoch", Count{0});
  if (type == "step")
    return epoch > done && (epoch > done + 1 || record.value("step", Count{0}) > progress.step_in_epoch);
  if (type == "epoch" || type == "traffic" || type == "ranks") return epoch > done;
  if (type == "evaluation" || type == "classes" || type == "targets")
    return epoch > done || (epoch == done && progress.evaluation_due);
  if (type == "final") return record.value("epochs", Count{0}) > done;
  return false;
}

/// The time, to the millisecond.
double time_stamp() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1000;
}

bool is_kept(const ProgressState& progress, std::string_view line) {
  try {
    return !is_after(progress, nlohmann::json::parse(line));
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path, bool append)
    : path_(path), file_(std::fopen(path.c_str(), append ? "a" : "w")) {
  if (file_ == nullptr) throw IoError(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
}
MetricsLog::MetricsLog(MetricsLog&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, nullptr)) {}
MetricsLog& MetricsLog::operator=(MetricsLog&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}
MetricsLog::~MetricsLog() {
  if (file_ != nullptr) std::fclose(file_);
}

void MetricsLog::write(const nlohmann::json& record) {
  if (file_ == nullptr) return;
  nlohmann::json stamped = record;
  stamped["time"] = time_stamp();
  const std::string line = stamped.dump() + "\n";
  if (std::fputs(line.c_str(), file_) < 0 || std::fflush(file_) != 0) {
    throw IoError(fmt::format("cannot write {}: {}", path_, std::strerror(errno)),
                  "Free space on that disk.");
  }
}

void forget_records_after(const ProgressState& progress, const std::string& path) {
  if (!std::filesystem::exists(path)) return;
  const std::string text = read_file(path);
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (end < text.size() && is_kept(progress, line)) kept.append(line) += '\n';
    begin = end + 1;
  }
  if (kept != text) write_file_atomically(path, kept);
}

}  // namespace strata::train
