// SPDX-License-Identifier: Apache-2.0
// A configuration file of strata-train.
#include "fuzz_target.hpp"
#include "strata/cli/config_file.hpp"

using namespace strata;
using namespace strata::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  expect_result_or_error([&] { cli::parse_config_file(text_of({data, size}), "run.toml"); });
  return 0;
}
