// SPDX-License-Identifier: Apache-2.0
#include "strata/util/scratch.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata {
namespace {

constexpr std::int64_t kMib = 1 << 20;

class Scratch : public testing::Test {
 protected:
  ScratchArray<std::int32_t> numbers(ScratchStore& store, Count count) {
    ScratchWriter<std::int32_t> writer(store);
    std::vector<std::int32_t> piece(1000);
    for (Count first = 0; first < count; first += 1000) {
      std::iota(piece.begin(), piece.end(), static_cast<std::int32_t>(first));
      writer.append(std::span(piece).first(static_cast<std::size_t>(std::min<Count>(1000, count - first))));
    }
    return std::move(writer).finish();
  }

  test::TemporaryFolder folder_;
  ScratchStore store_{folder_.path(), 64 * kMib};
};

TEST_F(Scratch, KeepsWhatIsAppendedAndShowsNoFile) {
  const auto array = numbers(store_, 1'234'567);
  ASSERT_EQ(array.size(), 1'234'567);
  for (Count i = 0; i < array.size(); ++i) ASSERT_EQ(array[i], i);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_EQ(numbers(store_, 0).size(), 0);
}

TEST_F(Scratch, TakesPiecesFromSeveralThreadsWhereRoomIsReserved) {
  constexpr std::size_t kPieces = 64, kBytes = 5000;
  ScratchFile file(store_);
  file.reserve(kPieces * kBytes);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t piece = t; piece < kPieces; piece += 4)
        file.write_at(piece * kBytes, std::vector<char>(kBytes, static_cast<char>(piece)).data(), kBytes);
    });
  for (std::thread& thread : threads) thread.join();
  const std::shared_ptr<std::byte> bytes = std::move(file).map();
  for (std::size_t i = 0; i < kPieces * kBytes; ++i) ASSERT_EQ(bytes.get()[i], std::byte(i / kBytes));
}

TEST_F(Scratch, ReadsFarRunsOfFilesAndOfMemoryAlike) {
  const auto array = numbers(store_, 100'000);
  const std::vector<std::int32_t> same(array.span().begin(), array.span().end());
  FarReader<std::int32_t> on_disk(&store_, array.data()), behind_it(&store_, array.data() + 10),
      in_memory(nullptr, same.data());
  for (Count first = 0; first < 99'000; first += 777) {
    EXPECT_EQ(on_disk.read(first, 500)[499], first + 499);
    EXPECT_EQ(in_memory.read(first, 500)[499], first + 499);
    EXPECT_EQ(behind_it.read(first, 2)[1], first + 11);
  }
}

TEST_F(Scratch, ReadsTablesWithoutMappingTheirPages) {
  const auto array = numbers(store_, 100'000);
  const auto* const on_disk = reinterpret_cast<const std::byte*>(array.data());
  const std::vector<std::byte> in_memory(on_disk, on_disk + 400'000);
  const std::filesystem::path path = folder_ / "an input\nof two lines";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(on_disk), static_cast<std::streamsize>(in_memory.size()));
  const int file = ::open(path.c_str(), O_RDONLY);
  constexpr std::size_t kPage = 65'536;
  void* const mapped = ::mmap(nullptr, 400'000 - kPage, PROT_READ, MAP_PRIVATE, file, kPage);
  ASSERT_NE(mapped, MAP_FAILED);
  ::close(file);
  const auto* const input = static_cast<const std::byte*>(mapped) + 128;
  {
    FarTable stored(&store_, on_disk), of_input(&store_, input), here(&store_, in_memory.data()),
        in_place(nullptr, input);
    for (std::size_t at = 0; at < 300'000; at += 7'777) {
      EXPECT_EQ(std::memcmp(stored.read(at, 300), on_disk + at, 300), 0);
      EXPECT_EQ(std::memcmp(of_input.read(at, 300), on_disk + kPage + 128 + at, 300), 0);
      EXPECT_EQ(here.read(at, 300), in_memory.data() + at);
      EXPECT_EQ(in_place.read(at, 300), input + at);
    }
    std::filesystem::resize_file(path, 100'000);
    test::expect_error<IoError>([&] { of_input.read(200'000, 300); }, {"too short"});
  }
  std::filesystem::remove(path);
  test::expect_error<IoError>([&] { FarTable(&store_, input); }, {"an input"});
  // Linux lists the path of a removed file with " (deleted)" behind it.
  for (const char* const suffix : {"", " (deleted)"}) std::ofstream(path.string() + suffix) << "another file";
  test::expect_error<IoError>([&] { FarTable(&store_, input); },
                              {"an input", "another file took the place of the input", "Leave the input"});
  ::munmap(mapped, 400'000 - kPage);
}

// The array and the file take 128 MiB, of which a quarter of 64 MiB may be resident.
TEST_F(Scratch, LetsGoOfResidentPagesOfItsArraysAndOfMappedInputs) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  const auto array = numbers(store_, 32 << 20);
  const std::int64_t before = resident_bytes();
  std::int64_t most = 0, sum = 0;
  for (Count i = 0; i < array.size(); ++i) {
    sum += array[i];
    if (i % (1 << 18) != 0) continue;
    store_.trim();
    most = std::max(most, resident_bytes());
  }
  EXPECT_EQ(sum, (Count{32} << 20) * ((Count{32} << 20) - 1) / 2);
  EXPECT_LT(most - before, 24 * kMib);
}

TEST_F(Scratch, TellsAFullDisk) {
  if (mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=2m") != 0)
    GTEST_SKIP() << "mounting a tmpfs needs root";
  {
    test::expect_error<IoError>([&] { numbers(store_, 1 << 20); }, {"No space left", "--scratch"});
    test::expect_error<IoError>([&] { ScratchFile(store_).reserve(8 * kMib); }, {"8.0 MiB", "No space left"});
  }
  umount(folder_.path().c_str());
}

TEST(ScratchStores, RefuseFoldersThatCannotBeWritten) {
  ScratchStore store("/nowhere", kMib);
  test::expect_error<IoError>([&] { const ScratchFile file(store); }, {"/nowhere"});
}

}  // namespace
}  // namespace strata
