// SPDX-License-Identifier: Apache-2.0
#include "report_page.hpp"

#include <fmt/format.h>

#include "strata/util/log.hpp"
#include "strata/util/report_page.hpp"
#include "strata/util/terminal.hpp"

namespace strata::cli {

void write_report_page(const std::vector<std::string>& runs, const std::filesystem::path& page) {
  const std::string failure = draw_report(runs, page);
  if (failure.empty())
    tell(fmt::format("report  {}\n", page.string()));
  else
    spdlog::warn("--report: there is no page, but the run is complete. {}", failure);
}

void report_run(const std::string& run, bool stopped) {
  if (!stopped) return write_report_page({run}, std::filesystem::path(run) / kReportPage);
  tell(fmt::format("report  none of a run that was stopped; strata-report {} draws what it has\n", run));
}

}  // namespace strata::cli
