#include "metrics_log.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "strata/util/error.hpp"

namespace strata::train {

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
  const std::string line = record.dump() + "\n";
  if (std::fputs(line.c_str(), file_) < 0 || std::fflush(file_) != 0) {
    throw IoError(fmt::format("cannot write {}: {}", path_, std::strerror(errno)),
                  "Free space on that disk.");
  }
}

}  // namespace strata::train
