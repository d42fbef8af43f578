// SPDX-License-Identifier: Apache-2.0
#include "memory_error.hpp"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::train {
namespace {

template <typename Exception>
void explain(const Exception& exception) {
  try {
    throw exception;
  } catch (...) {
    rethrow_explained();
  }
}

TEST(MemoryError, OfAGpuSaysWhatWasWantedAndWhatToLower) {
  const c10::OutOfMemoryError error(
      {__func__, __FILE__, __LINE__},
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.72 GiB of which "
      "1.25 GiB is free. Including non-PyTorch memory, this process has 1 GiB in use. See documentation.");
  test::expect_error<OutOfMemory>([&] { explain(error); }, {"Tried to allocate 2.00 GiB", "1.25 GiB is free.",
                                                            "--batch-size", "--gpu-memory"});
  try {
    explain(error);
  } catch (const OutOfMemory& e) {
    EXPECT_EQ(std::string(e.what()).find("documentation"), std::string::npos) << e.what();
  }
}

TEST(MemoryError, OfTheHostSaysWhatIsFree) {
  test::expect_error<OutOfMemory>([] { explain(std::bad_alloc()); }, {"host memory", "free", "--batch-size"});
}

TEST(MemoryError, OthersPassAsTheyAre) {
  test::expect_error<InputError>([] { explain(InputError("other", "Do this.")); }, {"other"});
  EXPECT_THROW(explain(std::runtime_error("any")), std::runtime_error);
}

}  // namespace
}  // namespace strata::train
