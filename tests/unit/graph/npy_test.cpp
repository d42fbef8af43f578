// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/npy.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <map>

#include "strata/graph/read_graph.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

using test::expect_error;
using test::npy_bytes;
using test::write_text;

template <typename T>
std::vector<T> values_of(const NpyArray& array) {
  std::vector<T> values(at(array.size()));
  std::memcpy(values.data(), array.data, values.size() * sizeof(T));
  return values;
}

class Npy : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "a.npy";
};

TEST_F(Npy, ReadsBackWhatItWrote) {
  const std::vector<float> matrix = {1, 2, 3, 4, 5, 6};
  write_npy(path_, DType::f32, {2, 3}, matrix.data());
  const NpyArray array = read_npy(path_);
  EXPECT_TRUE(array.is('f', 4));
  EXPECT_EQ(array.shape, (std::vector<Count>{2, 3}));
  EXPECT_FALSE(array.fortran_order);
  EXPECT_EQ(values_of<float>(array), matrix);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data) % 64, 0u);
  EXPECT_FALSE(std::filesystem::exists(path_.string() + ".tmp"));
}

TEST_F(Npy, WritesEveryTypeAndReplacesAFile) {
  const std::vector<std::int64_t> zeros(5, 0);
  for (const DType type :
       {DType::f32, DType::f16, DType::f64, DType::i8, DType::u8, DType::i32, DType::i64}) {
    write_npy(path_, type, {5}, zeros.data());
    const NpyArray array = read_npy(path_);
    EXPECT_EQ(at(array.item_bytes), size_of(type));
    EXPECT_EQ(array.shape, std::vector<Count>{5});
  }
  expect_error([&] { write_npy(path_, DType::bf16, {5}, zeros.data()); }, {"bf16", "f16"});
}

TEST_F(Npy, ReadsZerosWhereTheFileGotShorterAndTells) {
  const std::vector<std::int64_t> ones(100'000, 1);
  write_npy(path_, DType::i64, {100'000}, ones.data());
  const NpyArray array = read_npy(path_);
  refuse_truncated_inputs();  // nothing yet
  std::filesystem::resize_file(path_, 64 << 10);
  const std::vector<std::int64_t> values = values_of<std::int64_t>(array);
  EXPECT_EQ(values.front(), 1);
  EXPECT_EQ(values.back(), 0);
  expect_error<InputError>([] { refuse_truncated_inputs(); },
                           {path_.string(), "got shorter while it was read"});
  refuse_truncated_inputs();  // it tells once
}

TEST_F(Npy, LeavesOtherBusErrorsAlone) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer catches the signal itself";
#endif
  const std::vector<std::int64_t> ones(100'000, 1);
  write_npy(path_, DType::i64, {100'000}, ones.data());
  const NpyArray guarded = read_npy(path_);
  EXPECT_EXIT(
      {
        const int file = ::open(path_.c_str(), O_RDONLY);
        const auto* const bytes =
            static_cast<const volatile char*>(::mmap(nullptr, 1 << 20, PROT_READ, MAP_SHARED, file, 0));
        (void)bytes[(1 << 20) - 1];
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST_F(Npy, HeadersOfAnyShapeFillWholeLines) {
  for (Count rows = 1; rows < Count{1} << 60; rows *= 7) {
    const std::string header = npy_header(DType::f32, {rows, 3});
    EXPECT_EQ(header.size() % 64, 0u) << rows;
    EXPECT_LE(header.size(), 128u) << rows;
    EXPECT_EQ(header.back(), '\n') << rows;
  }
}

TEST_F(Npy, WritesEmptyArrays) {
  write_npy(path_, DType::i64, {0, 4}, nullptr);
  EXPECT_EQ(read_npy(path_).size(), 0);
}

TEST_F(Npy, CannotWriteToAMissingFolder) {
  const float x = 1;
  expect_error<IoError>([&] { write_npy(folder_ / "none/a.npy", DType::f32, {1}, &x); }, {"none/a.npy"});
}

TEST_F(Npy, ReadsFortranOrderAndVersion2) {
  std::string bytes = npy_bytes<std::int16_t>("<i2", "(2, 2)", {1, 2, 3, 4}, true);
  bytes[6] = 2;
  bytes.insert(10, 2, '\0');  // a length of four bytes
  write_text(path_, bytes);
  const NpyArray array = read_npy(path_);
  EXPECT_TRUE(array.fortran_order);
  EXPECT_EQ(values_of<std::int16_t>(array), (std::vector<std::int16_t>{1, 2, 3, 4}));
}

TEST_F(Npy, RefusesBadFiles) {
  expect_error([&] { read_npy(path_); }, {"a.npy", "no such file"});
  const std::string good = npy_bytes<float>("<f4", "(100,)", std::vector<float>(100));
  write_text(path_, "PK" + good);
  expect_error([&] { read_npy(path_); }, {"a.npy", "magic"});
  write_text(path_, "");
  expect_error([&] { read_npy(path_); }, {"empty file (0 bytes)"});
  write_text(path_, good + "x");
  expect_error([&] { read_npy(path_); }, {"too long", "(100,)", "400 bytes", "401"});
  for (const char* const shape : {"(100 2)", "(100,,)", "(100x,)", "(-100,)", "100"}) {
    write_text(path_, npy_bytes<float>("<f4", shape, std::vector<float>(100)));
    expect_error([&] { read_npy(path_); }, {"shape"});
  }
  write_text(path_, npy_bytes<float>("<f44", "(1,)", {1}));
  expect_error([&] { read_npy(path_); }, {"'<f44'"});
  write_text(path_, npy_bytes<float>("<f4x", "(1,)", {1}));
  expect_error([&] { read_npy(path_); }, {"'<f4x'"});
  for (const std::size_t length : {std::size_t{7}, std::size_t{11}, std::size_t{40}}) {
    write_text(path_, good.substr(0, length));
    expect_error([&] { read_npy(path_); }, {"truncated"});
  }
  write_text(path_, good.substr(0, good.size() - 1));
  expect_error([&] { read_npy(path_); }, {"truncated", "(100,)", "400 bytes", "399"});
  write_text(path_, npy_bytes<float>(">f4", "(1,)", {1}));
  expect_error([&] { read_npy(path_); }, {"'>f4'"});
  write_text(path_, npy_bytes<float>("|O", "(1,)", {1}));
  expect_error([&] { read_npy(path_); }, {"'|O'"});
  write_text(path_, npy_bytes<float>("<f4", "(4611686018427387904, 4)", {1}));
  expect_error([&] { read_npy(path_); }, {"overflows"});
  std::string future = good;
  future[6] = 9;
  write_text(path_, future);
  expect_error([&] { read_npy(path_); }, {"version 9"});
  expect_error([&] { read_npy(folder_.path()); }, {"not a regular file"});
}

class Npz : public Npy, public testing::WithParamInterface<test::ZipMember> {};

TEST_P(Npz, ReadsMembers) {
  std::vector<double> many(5000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i) * 0.5;
  test::ZipWriter zip;
  test::ZipMember member = GetParam();
  member.name = "x.npy";  // of odd length: what follows is not aligned
  member.contents = npy_bytes<std::int64_t>("<i8", "(2, 2)", {1, -2, 3, 4});
  zip.add(member);
  member.name = "many.npy";
  member.contents = npy_bytes("<f8", "(5000,)", many);
  zip.add(member);
  const auto path = folder_ / "a.npz";
  write_text(path, zip.finish(member.zip64));
  const NpzFile archive(path);
  EXPECT_EQ(archive.names(), (std::vector<std::string>{"many", "x"}));
  EXPECT_EQ(values_of<std::int64_t>(archive.array("x")), (std::vector<std::int64_t>{1, -2, 3, 4}));
  const NpyArray array = archive.array("many");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data) % 8, 0u);
  EXPECT_EQ(values_of<double>(array), many);
  EXPECT_EQ(archive.describe("many").shape, std::vector<Count>{5000});
  expect_error([&] { archive.array("y"); }, {"a.npz", "'y'", "many, x"});
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Npz,
    testing::Values(test::ZipMember{}, test::ZipMember{.name = {}, .contents = {}, .deflated = true},
                    test::ZipMember{.name = {}, .contents = {}, .deflated = false, .zip64 = true},
                    test::ZipMember{.name = {}, .contents = {}, .deflated = true, .zip64 = true}));

TEST_F(Npy, ArrayOutlivesItsArchive) {
  test::ZipWriter zip;
  zip.add({.name = "x.npy", .contents = npy_bytes<std::int64_t>("<i8", "(1,)", {42})});
  write_text(folder_ / "a.npz", zip.finish());
  const NpyArray array = NpzFile(folder_ / "a.npz").array("x");
  EXPECT_EQ(values_of<std::int64_t>(array), std::vector<std::int64_t>{42});
}

TEST_F(Npy, RefusesBadArchives) {
  const auto path = folder_ / "a.npz";
  expect_error([&] { NpzFile{path}; }, {"no such file"});
  write_text(path, std::string(1000, 'x'));
  expect_error([&] { NpzFile{path}; }, {"not a zip archive"});
  test::ZipWriter zip;
  std::vector<std::int64_t> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i * i);
  zip.add({.name = "x.npy", .contents = npy_bytes("<i8", "(1000,)", values), .deflated = true});
  const std::string good = zip.finish();
  write_text(path, good.substr(0, good.size() / 2));
  expect_error([&] { NpzFile{path}; }, {"truncated"});
  write_text(path, good.substr(500));  // all places in it are wrong
  expect_error([&] { NpzFile(path).array("x"); }, {"damaged"});
  std::string flipped = good;
  flipped[400] = static_cast<char>(flipped[400] ^ 0x10);
  write_text(path, flipped);
  expect_error([&] { NpzFile(path).array("x"); }, {"a.npz:x", "damaged"});
  test::ZipWriter named;
  named.add({.name = "n\xe9.npy", .contents = "no array"});
  write_text(path, named.finish());
  expect_error([&] { NpzFile(path).array("n\xe9"); }, {R"(a.npz:n\xe9)", "not a npy file"});
  expect_error([&] { NpzFile(path).array("\xff"); }, {R"(no array '\xff')"});
}

class FlippedNpz : public Npy, public testing::WithParamInterface<test::ZipMember> {
 protected:
  static std::string archive() {
    test::ZipWriter zip;
    test::ZipMember member = GetParam();
    member.name = "edge_index.npy";
    member.contents = npy_bytes<std::int64_t>("<i8", "(2, 3)", {0, 1, 3, 1, 2, 2});
    zip.add(member);
    member.name = "num_nodes.npy";
    member.contents = npy_bytes<std::int64_t>("<i8", "(1,)", {4});
    zip.add(member);
    return zip.finish(member.zip64);
  }
  /// Everything that a reader could learn from the archive.
  std::map<std::string, std::vector<std::int64_t>> contents() const {
    const NpzFile file(path_);
    std::map<std::string, std::vector<std::int64_t>> all;
    for (const std::string& name : file.names()) {
      const NpyArray array = file.array(name);
      all[name + array.type_name() + array.shape_text()] = values_of<std::int64_t>(array);
    }
    return all;
  }
};

TEST_P(FlippedNpz, IsRefusedOrReadAsWritten) {
  const std::string good = archive();
  write_text(path_, good);
  const auto expected = contents();
  ASSERT_EQ(expected.size(), 2u);
  int refused = 0;
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string damaged = good;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    write_text(path_, damaged);
    try {
      EXPECT_EQ(contents(), expected) << "bit " << bit % 8 << " of byte " << bit / 8;
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, FlippedNpz,
    testing::Values(test::ZipMember{}, test::ZipMember{.name = {}, .contents = {}, .deflated = true},
                    test::ZipMember{.name = {}, .contents = {}, .deflated = false, .zip64 = true}));

TEST_F(Npy, ChecksumOfALargeMemberIsThatOfItsPieces) {
  std::vector<std::int64_t> values(std::size_t{5} << 20);  // 40 MiB: five pieces
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i * 7919);
  const auto path = folder_ / "a.npz";
  test::ZipWriter zip;
  zip.add({.name = "x.npy", .contents = npy_bytes("<i8", "(5242880,)", values)});
  std::string bytes = zip.finish();
  ThreadPool pool(3);
  write_text(path, bytes);
  EXPECT_EQ(values_of<std::int64_t>(NpzFile(path).array("x", &pool)), values);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_text(path, bytes);
  expect_error([&] { NpzFile(path).array("x", &pool); }, {"a.npz:x", "wrong checksum"});
}

TEST_F(Npy, AMemberWhoseSizeItsBytesCannotHoldTakesNoMemory) {
  const auto path = folder_ / "a.npz";
  test::ZipWriter zip;
  zip.add({.name = "x.npy",
           .contents = npy_bytes<std::int64_t>("<i8", "(1,)", {1}),
           .deflated = true,
           .zip64 = true});
  std::string bytes = zip.finish(true);
  const std::uint64_t stated = std::uint64_t{1} << 50;
  const std::size_t directory = bytes.find("PK\x01\x02");
  std::memcpy(bytes.data() + directory + 46 + 5 + 4, &stated,
              sizeof stated);  // behind the name and the field's head
  write_text(path, bytes);
  expect_error([&] { NpzFile(path).array("x"); }, {"a.npz:x", "cannot hold the stated 1125899906842624"});
}

TEST_F(Npy, RefusesTwoMembersOfOneName) {
  const auto path = folder_ / "a.npz";
  test::ZipWriter zip;
  for (const char* const name : {"x.npy", "x"})
    zip.add({.name = name, .contents = npy_bytes<std::int64_t>("<i8", "(1,)", {1})});
  write_text(path, zip.finish());
  expect_error([&] { NpzFile{path}; }, {"a.npz", "two arrays are called 'x'"});
}

}  // namespace
}  // namespace strata::graph
