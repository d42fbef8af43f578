// SPDX-License-Identifier: Apache-2.0
// A .npz archive: its directory, and every array in it.
#include "fuzz_target.hpp"
#include "strata/graph/npy.hpp"

using namespace strata;
using namespace strata::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const InputFile file({data, size});
  expect_result_or_error([&] {
    const graph::NpzFile archive(file.path());
    for (const std::string& name : archive.names())
      expect_result_or_error([&] { archive.array(name).size(); });
  });
  return 0;
}
