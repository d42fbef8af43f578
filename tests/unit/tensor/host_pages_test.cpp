// SPDX-License-Identifier: Apache-2.0
#include "memory/host_pages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "strata/util/error.hpp"
#include "strata/util/types.hpp"

namespace strata::tensor {
namespace {

using testing::HasSubstr;

std::size_t page_bytes() { return at(::sysconf(_SC_PAGESIZE)); }

/// Pages of a file that ends before they do: the system cannot give the last ones.
class ShortMapping {
 public:
  ShortMapping(std::size_t pages, std::size_t backed) : file_(::memfd_create("strata", 0)) {
    EXPECT_EQ(::ftruncate(file_, static_cast<off_t>(backed * page_bytes())), 0);
    bytes_.size = pages * page_bytes();
    void* data = ::mmap(nullptr, bytes_.size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    EXPECT_NE(data, MAP_FAILED);
    bytes_.data = static_cast<std::byte*>(data);
  }
  ~ShortMapping() {
    ::munmap(bytes_.data, bytes_.size);
    ::close(file_);
  }
  ShortMapping(const ShortMapping&) = delete;
  ShortMapping& operator=(const ShortMapping&) = delete;
  const Bytes& bytes() const { return bytes_; }
  std::size_t resident_pages() const {
    std::vector<unsigned char> resident(bytes_.size / page_bytes());
    EXPECT_EQ(::mincore(bytes_.data, bytes_.size, resident.data()), 0);
    return at(std::ranges::count_if(resident, [](unsigned char r) { return r & 1; }));
  }

 private:
  int file_;
  Bytes bytes_{};
};

TEST(TakePrivatePages, TakesThemAll) {
  const ShortMapping mapping(3000, 3000);
  EXPECT_EQ(mapping.resident_pages(), 0u);
  take_private_pages(mapping.bytes(), 3, "numbers");
  if (!can_populate({mapping.bytes().data, page_bytes()})) GTEST_SKIP() << "the kernel populates no mappings";
  EXPECT_EQ(mapping.resident_pages(), 3000u);
}

TEST(TakePrivatePages, SaysWhatCouldNotBeTaken) {
  const ShortMapping mapping(40'000, 39'990);
  if (!can_populate({mapping.bytes().data, page_bytes()})) GTEST_SKIP() << "the kernel populates no mappings";
  try {
    take_private_pages(mapping.bytes(), 2, "numbers");
    ADD_FAILURE() << "accepted";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("no room for numbers in host memory: wanted 156.2 MiB, free "));
    EXPECT_THAT(error.remedy(), HasSubstr("more machines"));
  }
}

}  // namespace
}  // namespace strata::tensor
