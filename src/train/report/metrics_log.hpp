// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoint/progress_state.hpp"

namespace strata::train {

/// metrics.jsonl: one JSON object per line, appended and flushed at once (docs/metrics.md is its schema).
/// Only the first rank has one; elsewhere writing does nothing.
class MetricsLog {
 public:
  MetricsLog() = default;
  MetricsLog(const std::string& path, bool append);  ///< throws IoError
  MetricsLog(MetricsLog&& other) noexcept;
  MetricsLog& operator=(MetricsLog&& other) noexcept;
  ~MetricsLog();

  void write(const nlohmann::json& record);  ///< with its `time`

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

/// Removes from a file of metrics, if it is there, what a run that goes on from `progress` will write again:
/// records of later steps, epochs and evaluations, and a line that was cut off. The file is replaced as a
/// whole. Throws IoError.
void forget_records_after(const ProgressState& progress, const std::string& path);

}  // namespace strata::train
