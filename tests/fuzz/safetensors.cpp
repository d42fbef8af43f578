// SPDX-License-Identifier: Apache-2.0
// A file of tensors, as models and checkpoints are.
#include "fuzz_target.hpp"
#include "strata/nn/weights.hpp"

using namespace strata;
using namespace strata::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const InputFile file({data, size});
  expect_result_or_error([&] { nn::read_tensors(file.path()); });
  return 0;
}
