#pragma once
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace strata::train {

/// metrics.jsonl: one JSON object a line, appended and flushed at once (docs/metrics.md is its schema). Only
/// the first rank has one; elsewhere writing does nothing.
class MetricsLog {
 public:
  MetricsLog() = default;
  MetricsLog(const std::string& path, bool append);  ///< throws IoError
  MetricsLog(MetricsLog&& other) noexcept;
  MetricsLog& operator=(MetricsLog&& other) noexcept;
  ~MetricsLog();

  void write(const nlohmann::json& record);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace strata::train
