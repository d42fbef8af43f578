// SPDX-License-Identifier: Apache-2.0
#include "strata/util/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

namespace strata {

namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::trace:
      return spdlog::level::trace;
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

/// Formats information as a plain line; other messages show their level and whose they are.
class TerminalFormatter final : public spdlog::formatter {
 public:
  explicit TerminalFormatter(bool named) : named_(named) {}
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    clear_bar();
    (message.level == spdlog::level::info ? plain_ : marked_).format(message, line);
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<TerminalFormatter>(named_);
  }

 private:
  bool named_;
  spdlog::pattern_formatter plain_{"%v"}, marked_{named_ ? "%^%l%$: %n: %v" : "%^%l%$: %v"};
};

}  // namespace

void init_log(const std::string& name, LogLevel level) { init_log(name, level, level); }

void init_log(const std::string& name, LogLevel level, LogLevel terminal) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
      wants_color() ? spdlog::color_mode::always : spdlog::color_mode::never);
  sink->set_level(level_of(terminal));
  auto logger = std::make_shared<spdlog::logger>(name, std::move(sink));
  logger->set_formatter(std::make_unique<TerminalFormatter>(!name.empty()));
  logger->set_level(level_of(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace strata
