// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/weights.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "strata/nn/model.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "support/blocks.hpp"

namespace strata::nn {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Weights : public testing::Test {
 protected:
  Weights() { std::filesystem::create_directories(folder_); }
  ~Weights() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path() const { return folder_ / "model.safetensors"; }

  /// What reading a file of this header and these data says.
  std::string message(const std::string& header, const std::string& data) const {
    const std::uint64_t length = header.size();
    write_file_atomically(path(), std::string(reinterpret_cast<const char*>(&length), 8) + header + data);
    return message();
  }
  std::string message() const {
    try {
      read_tensors(path());
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  }

 private:
  std::filesystem::path folder_ = std::filesystem::temp_directory_path() /
                                  ("strata_weights_" + std::to_string(getpid()) + "_" +
                                   testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Weights, ComeBackAsTheyWere) {
  TensorFile file;
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                          at::kChar, at::kByte}) {
    file.tensors.push_back({std::string("a.") + c10::toString(type),
                            at::arange(24, at::TensorOptions().dtype(type)).view({2, 3, 4})});
  }
  file.tensors.push_back({"scalar", at::zeros({}).add(3)});
  file.tensors.push_back({"empty", at::zeros({0, 5})});
  file.tensors.push_back({"strided \"quoted\"", test::random_rows(6, 5, 1).t()});
  file.metadata = {{"format", "pt"}, {"note", "two\nlines"}};
  write_tensors(path(), file);

  const TensorFile read = read_tensors(path());
  EXPECT_EQ(read.metadata, file.metadata);
  ASSERT_EQ(read.tensors.size(), file.tensors.size());
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    EXPECT_EQ(read.tensors[i].name, file.tensors[i].name);
    EXPECT_EQ(read.tensors[i].tensor.scalar_type(), file.tensors[i].tensor.scalar_type());
    EXPECT_TRUE(read.tensors[i].tensor.equal(file.tensors[i].tensor)) << file.tensors[i].name;
  }
}

TEST_F(Weights, DataBeginAtAMultipleOfEight) {
  for (const char* name : {"a", "ab", "abcdefg"}) {
    write_tensors(path(), {.tensors = {{name, at::zeros({3})}}, .metadata = {}});
    std::uint64_t length = 0;
    std::memcpy(&length, read_file(path()).data(), 8);
    EXPECT_EQ(length % 8, 0u);
  }
}

TEST_F(Weights, OfAnEmptyFileAreNone) {
  write_tensors(path(), {});
  const TensorFile read = read_tensors(path());
  EXPECT_TRUE(read.tensors.empty());
  EXPECT_TRUE(read.metadata.empty());
  EXPECT_TRUE(read.hashed);
}

TEST_F(Weights, RefuseEveryFlippedBit) {
  const std::string whole =
      format_tensors({.tensors = {{"a.weight", test::random_rows(3, 2, 1)}, {"b", at::zeros({2})}},
                      .metadata = {{"format", "pt"}, {"epoch", "3"}}});
  EXPECT_TRUE(parse_tensors(whole, path()).hashed);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(parse_tensors(flipped, path()), InputError) << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

TEST_F(Weights, SayWhatChanged) {
  std::string contents =
      format_tensors({.tensors = {{"a", at::zeros({3})}, {"b", at::zeros({2})}}, .metadata = {}});
  contents.back() = 1;
  write_file_atomically(path(), contents);
  EXPECT_THAT(message(), AllOf(HasSubstr("tensor \"b\" changed"), HasSubstr(path().string())));
  contents = format_tensors({.tensors = {}, .metadata = {{"epoch", "3"}}});
  contents[contents.find("\"3\"") + 1] = '4';
  write_file_atomically(path(), contents);
  EXPECT_THAT(message(), HasSubstr("the header changed"));
}

TEST_F(Weights, OfOtherProgramsNeedNoHashes) {
  EXPECT_EQ(
      message(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
              std::string(8, '\0')),
      "accepted");
  EXPECT_FALSE(read_tensors(path()).hashed);
}

TEST_F(Weights, RefuseHeadersBeyondReason) {
  const std::string data(8, '\0');
  const std::string deep(1 << 20, '[');
  EXPECT_THAT(message(R"({"a":{"dtype":)" + deep, data), HasSubstr("nested too deeply"));
  EXPECT_THAT(message(R"({"a":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})", ""),
              HasSubstr("too large"));
  std::string ones = "1";
  for (int i = 0; i < 100; ++i) ones += ",1";
  EXPECT_THAT(message(R"({"a":{"dtype":"F64","shape":[)" + ones + R"(],"data_offsets":[0,8]}})", data),
              HasSubstr("too large"));
}

TEST_F(Weights, RefuseEveryTruncation) {
  write_tensors(path(), {.tensors = {{"a", at::zeros({3})}, {"b", at::zeros({2})}}, .metadata = {}});
  const std::string whole = read_file(path());
  for (std::size_t size = 0; size < whole.size(); size += 5) {
    write_file_atomically(path(), whole.substr(0, size));
    EXPECT_THAT(message(), HasSubstr("truncated")) << size;
  }
  write_file_atomically(path(), whole + "x");
  EXPECT_THAT(message(), AllOf(HasSubstr("follow the last"), HasSubstr(path().string())));
}

TEST_F(Weights, RefuseBadHeaders) {
  const std::string data(8, '\0');
  const auto entry = [](const std::string& type, const std::string& shape, const std::string& offsets) {
    return R"("a":{"dtype":)" + type + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const std::string good = entry("\"F32\"", "[2]", "[0,8]");
  EXPECT_EQ(message("{" + good + "}", data), "accepted");
  EXPECT_THAT(message("{" + good, data), HasSubstr("JSON"));
  EXPECT_THAT(message("[1]", data), HasSubstr("JSON object"));
  EXPECT_THAT(message("{" + good + "," + good + "}", data), HasSubstr("twice"));
  EXPECT_THAT(message("{" + entry("\"F31\"", "[2]", "[0,8]") + "}", data), HasSubstr("F31"));
  EXPECT_THAT(message("{" + entry("7", "[2]", "[0,8]") + "}", data), HasSubstr("unknown type"));
  EXPECT_THAT(message("{" + entry("\"F32\"", "[3]", "[0,8]") + "}", data), HasSubstr("12 bytes"));
  EXPECT_THAT(message("{" + entry("\"F32\"", "[-2]", "[0,8]") + "}", data), HasSubstr("whole number"));
  EXPECT_THAT(message("{" + entry("\"F32\"", "2", "[0,8]") + "}", data), HasSubstr("not an array"));
  EXPECT_THAT(message("{" + entry("\"F32\"", "[4294967296,4294967296]", "[0,8]") + "}", data),
              HasSubstr("too large"));
  EXPECT_THAT(message("{" + entry("\"F32\"", "[2]", "[8,0]") + "}", data), HasSubstr("offsets"));
  EXPECT_THAT(message("{" + entry("\"F32\"", "[2]", "[0]") + "}", data), HasSubstr("two numbers"));
  EXPECT_THAT(message("{" + entry("\"F32\"", "[1]", "[4,8]") + "}", data), HasSubstr("gap"));
  EXPECT_THAT(message("{" + good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", data),
              HasSubstr("overlaps"));
  EXPECT_THAT(message(R"({"a":{"dtype":"F32","shape":[2]}})", data), HasSubstr("data_offsets"));
  EXPECT_THAT(message("{\"__metadata__\":{\"k\":1}," + good + "}", data), HasSubstr("not a string"));
}

TEST_F(Weights, NameTheByteOfAHeaderThatIsNotUtf8) {
  EXPECT_THAT(message("{\"na\xefve\": 1}", ""), testing::HasSubstr("not UTF-8 text: byte 0xef at offset 12"));
}

TEST_F(Weights, KeepControlCharactersOfTheirNamesFromTheTerminal) {
  const std::string header = R"({"a\u001b[31mred":{"dtype":"F13","shape":[1],"data_offsets":[0,4]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  try {
    parse_tensors(file + header + "1234", "foreign.safetensors");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).find('\x1b'), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("a\\x1b[31mred"), std::string::npos) << error.what();
  }
}

TEST_F(Weights, RefuseTwoTensorsOfOneName) {
  EXPECT_THROW(
      write_tensors(path(), {.tensors = {{"a", at::zeros({1})}, {"a", at::zeros({1})}}, .metadata = {}}),
      Error);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(Weights, OfAModelLoadIntoAnother) {
  ModelOptions options{.kind = ModelKind::sage, .in_cols = 5, .hidden = 6, .out_cols = 3, .seed = 1};
  const auto from = make_model(options);
  options.seed = 2;
  const auto to = make_model(options);
  write_tensors(path(), {.tensors = weights_of(*from), .metadata = {}});
  load_weights(*to, read_tensors(path()), path());
  for (const auto& item : from->named_parameters()) {
    EXPECT_TRUE(item.value().equal(to->named_parameters()[item.key()])) << item.key();
    EXPECT_TRUE(to->named_parameters()[item.key()].requires_grad());
  }
}

TEST_F(Weights, ThatDoNotFitLeaveTheModelAlone) {
  ModelOptions options{.kind = ModelKind::sage, .in_cols = 5, .hidden = 6, .out_cols = 3, .seed = 1};
  const auto from = make_model(options);
  options.out_cols = 4;
  options.seed = 2;
  const auto to = make_model(options);
  const at::Tensor before = to->named_parameters()["convs.0.lin_l.weight"].detach().clone();
  try {
    load_weights(*to, {.tensors = weights_of(*from), .metadata = {}}, "some/file");
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("some/file"), HasSubstr("convs.1.lin_l.weight"),
                                HasSubstr("[3, 6]"), HasSubstr("[4, 6]")));
  }
  EXPECT_TRUE(before.equal(to->named_parameters()["convs.0.lin_l.weight"]));
  EXPECT_THROW(load_weights(*to, {}, "some/file"), InputError);
}

}  // namespace
}  // namespace strata::nn
