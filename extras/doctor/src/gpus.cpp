// SPDX-License-Identifier: Apache-2.0
#include "gpus.hpp"

#include <sys/klog.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::doctor {
namespace {

/// Bytes per second of copies from pinned memory.
class CopyProbe {
 public:
  explicit CopyProbe(Device device)
      : device_(device),
        stream_(device),
        from_(cuda::Memory::pinned, kBytes, "bytes to measure with", device),
        to_(cuda::Memory::device, kBytes, "bytes to measure with", device) {}

  double rate() const {
    const cuda::DeviceGuard guard(device_);
    copy();  // warms up
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) copy();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    return kTimes * static_cast<double>(kBytes) / seconds.count();
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  static constexpr int kTimes = 4;
  void copy() const {
    cuda::copy_async(to_.data(), from_.data(), kBytes, stream_);
    stream_.synchronize();
  }

  Device device_;
  cuda::Stream stream_;
  cuda::Buffer from_, to_;
};

/// The output of a program; empty if it cannot be started.
std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>/dev/null").c_str(), "re"), &pclose);
  std::string text;
  if (!pipe) return text;
  std::array<char, 4096> piece{};
  for (std::size_t read = 0; (read = fread(piece.data(), 1, piece.size(), pipe.get())) > 0;)
    text.append(piece.data(), read);
  return text;
}

std::string query(const std::string& fields) {
  return output_of("nvidia-smi --query-gpu=uuid," + fields + " --format=csv,noheader,nounits");
}

/// The kernel's log; nothing for users who may not read it.
std::optional<std::string> kernel_log() {
  constexpr int kReadAll = 3, kSize = 10;
  const int size = klogctl(kSize, nullptr, 0);
  if (size <= 0) return std::nullopt;
  std::string log(at(size), '\0');
  const int read = klogctl(kReadAll, log.data(), size);
  if (read < 0) return std::nullopt;
  log.resize(at(read));
  return log;
}

/// "GPU-2B5C...-..." as cuda::device_uuid() writes it.
std::string plain_uuid(std::string text) {
  if (text.starts_with("GPU-")) text.erase(0, 4);
  std::erase(text, '-');
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// The columns of a line of comma-separated values.
std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns;
  std::istringstream stream(line);
  for (std::string column; std::getline(stream, column, ',');) {
    const std::size_t begin = column.find_first_not_of(' '), end = column.find_last_not_of(" \r");
    columns.push_back(begin == std::string::npos ? std::string() : column.substr(begin, end - begin + 1));
  }
  return columns;
}

/// 0 for "[N/A]" and the like.
std::int64_t number_of(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 0); }

}  // namespace

void measure_copies(const comm::Communicator& host, Device device, GpuFacts& facts) {
  if (!device.is_cuda()) return;
  std::optional<CopyProbe> probe;
  host.together([&] { probe.emplace(device); });
  for (int turn = 0; turn < host.size(); ++turn) {
    host.barrier();
    host.together([&] {
      if (turn == host.rank()) facts.copy_alone = probe->rate();
    });
  }
  host.barrier();
  host.together([&] { facts.copy_together = probe->rate(); });
}

std::vector<GpuState> parse_states(const std::string& errors_and_links, const std::string& reasons) {
  constexpr std::size_t kColumns = 4;
  std::vector<GpuState> states;
  std::istringstream lines(errors_and_links);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> columns = columns_of(line);
    if (columns.size() != kColumns || !columns[0].starts_with("GPU-")) continue;
    states.push_back({.uuid = plain_uuid(columns[0]),
                      .uncorrected_errors = number_of(columns[1]),
                      .link_width = static_cast<int>(number_of(columns[2])),
                      .most_link_width = static_cast<int>(number_of(columns[3]))});
  }
  std::istringstream others(reasons);
  for (std::string line; std::getline(others, line);) {
    const std::vector<std::string> columns = columns_of(line);
    if (columns.size() != 2) continue;
    const auto state = std::ranges::find(states, plain_uuid(columns[0]), &GpuState::uuid);
    if (state != states.end()) state->held_back = static_cast<std::uint64_t>(number_of(columns[1]));
  }
  return states;
}

std::vector<std::string> parse_driver_messages(const std::string& log) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> found;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find("NVRM: Xid");
    if (begin == std::string::npos) continue;
    found.push_back(line.substr(begin + std::string("NVRM: ").size()));
  }
  if (found.size() > kMost) found.erase(found.begin(), found.end() - kMost);  // the newest matter most
  return found;
}

DriverFacts look_at_driver() {
  std::string reasons = query("clocks_event_reasons.active");
  if (!reasons.starts_with("GPU-")) reasons = query("clocks_throttle_reasons.active");  // drivers before 535
  DriverFacts facts{
      .states = parse_states(
          query("ecc.errors.uncorrected.volatile.total,pcie.link.width.current,pcie.link.width.max"),
          reasons)};
  const std::optional<std::string> log = kernel_log();
  facts.log_readable = log.has_value();
  if (log) facts.driver_messages = parse_driver_messages(*log);
  return facts;
}

}  // namespace strata::doctor
