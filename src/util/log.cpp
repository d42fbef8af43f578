#include "strata/util/log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include "strata/util/error.hpp"

namespace strata {

void init_log(const std::string& name, const std::string& level) {
  const auto parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off && level != "off") {
    throw InputError(fmt::format("\"{}\" is not a log level", level),
                     "Use trace, debug, info, warn, error or off.");
  }
  auto logger =
      std::make_shared<spdlog::logger>(name, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %^%-5l%$ %n: %v");
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void add_log_file(const std::string& path) try {
  auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
  sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %-5l %n: %v");
  spdlog::default_logger()->sinks().push_back(std::move(sink));
} catch (const spdlog::spdlog_ex& e) {
  throw IoError(e.what());
}

}  // namespace strata
