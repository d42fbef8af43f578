// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/part_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "strata/graph/manifest_file.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A directory with one random part of two; the other part is empty.
class PartFile : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("strata_part_file_" + std::to_string(::getpid()));
    fs::create_directory(directory_);
    std::mt19937 random{7};
    constexpr Count kInner = 50;
    data_.indptr = {0};
    for (Count v = 0; v < kInner; ++v) {
      for (unsigned k = random() % 8; k > 0; --k) data_.indices.push_back(random() % kInner);
      data_.indptr.push_back(static_cast<Count>(data_.indices.size()));
      data_.original_ids.push_back(kInner - 1 - v);
      data_.labels.push_back(static_cast<std::int32_t>(random() % 4) - 1);
    }
    data_.edge_ids.resize(data_.indices.size());
    std::iota(data_.edge_ids.begin(), data_.edge_ids.end(), Count{1} << 40);
    for (std::size_t e = 0; e < data_.indices.size(); ++e)
      data_.weights.push_back(static_cast<float>(random() % 1000) / 8);
    data_.train = {{49, 3, 2}, {0, 1, 2}};
    data_.test = {{5}, {0}};
    features_.resize(static_cast<std::size_t>(kInner) * 3 * 2);
    for (std::byte& b : features_) b = static_cast<std::byte>(random());
    record_.manifest = {.name = "random",
                        .build_id = "00000000deadbeef",
                        .book = PartitionBook{{0, kInner, kInner}},
                        .num_edges = static_cast<Count>(data_.indices.size()),
                        .undirected = false,
                        .has_edge_weights = true,
                        .feature_cols = 3,
                        .feature_dtype = DType::bf16,
                        .num_classes = 3,
                        .has_labels = true,
                        .num_train = 3,
                        .num_valid = 0,
                        .num_test = 1};
    record_.parts = {write_part(directory_, record_.manifest, data_, features_),
                     write_part(directory_, record_.manifest, empty(), {})};
    record_.constraints = {{"nodes", true, 0.03, {kInner, 0}}};
    write_manifest(directory_, record_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  static PartData empty() {
    PartData data;
    data.part = 1;
    data.indptr = {0};
    return data;
  }

  std::string refusal(int part = 0) const {
    try {
      PartReader::open(directory_, read_manifest(directory_), part);
    } catch (const InputError& error) {
      return error.what();
    }
    return "opened";
  }

  fs::path directory_;
  PartData data_;
  std::vector<std::byte> features_;
  PartitionRecord record_;
};

template <typename T, typename Read>
std::vector<T> read_all(Count count, Read read) {
  std::vector<T> values(static_cast<std::size_t>(count), T{-77});
  read(values.data());
  return values;
}

TEST_F(PartFile, IsOfAGraphWithADigestOrOfABuild) {
  EXPECT_EQ(read_graph_digest(directory_), "build 00000000deadbeef");
  record_.graph_digest = "0123456789abcdef";
  write_manifest(directory_, record_);
  EXPECT_EQ(read_graph_digest(directory_), "0123456789abcdef");
}

TEST_F(PartFile, HasThePathsOfItsTypes) {
  const fs::path other = directory_ / "types";
  fs::create_directory(other);
  record_.manifest.types = {.nodes = {"paper"},
                            .edges = {{.source = "paper", .name = "cites", .destination = "paper"}}};
  const PartRecord part = write_part(other, record_.manifest, data_, features_);
  for (const DatasetRecord& dataset : part.datasets)
    EXPECT_TRUE(dataset.name.starts_with("/nodes/paper/") ||
                dataset.name.starts_with("/edges/paper__cites__paper/") || dataset.name == kChecksums)
        << dataset.name;
  EXPECT_EQ(PartReader::open(other, record_.manifest, 0, Verify::off).num_edges(), std::ssize(data_.indices));
  EXPECT_THROW(PartReader::open(directory_, record_.manifest, 0, Verify::off), InputError);
}

/// Lowers the limit of open files for as long as it lives.
class FewOpenFiles {
 public:
  explicit FewOpenFiles(rlim_t most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit fewer{.rlim_cur = most, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &fewer);
  }
  ~FewOpenFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewOpenFiles(const FewOpenFiles&) = delete;
  FewOpenFiles& operator=(const FewOpenFiles&) = delete;

 private:
  rlimit before_{};
};

std::ptrdiff_t open_files() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

TEST_F(PartFile, IsOpenedForEachReadingWhereThereAreManyParts) {
  constexpr int kParts = 60;
  const fs::path many = directory_ / "many";
  fs::create_directory(many);
  std::vector<Count> offsets(kParts + 1, 50);
  offsets.front() = 0;
  record_.manifest.book = PartitionBook{offsets};
  record_.parts = {write_part(many, record_.manifest, data_, features_)};
  for (int part = 1; part < kParts; ++part) {
    PartData none = empty();
    none.part = part;
    record_.parts.push_back(write_part(many, record_.manifest, none, {}));
  }
  record_.constraints.clear();
  write_manifest(many, record_);

  const Manifest manifest = read_manifest(many);
  const auto read = [&](const PartReader& reader) {
    return read_all<Count>(51, [&](auto* out) { reader.read_indptr(0, 51, out); });
  };
  const std::ptrdiff_t before = open_files();
  const PartReader kept = PartReader::open(many, manifest, 0);
  EXPECT_EQ(open_files(), before + 1);
  const FewOpenFiles few(4 * kParts - 1);
  std::vector<PartReader> readers;
  for (int i = 0; i < 5 * kParts; ++i) readers.push_back(PartReader::open(many, manifest, 0));
  EXPECT_EQ(open_files(), before + 1);
  for (const PartReader& reader : readers) EXPECT_EQ(read(reader), data_.indptr);

  fs::copy_file(part_path(many, 0), many / "copy");
  fs::rename(many / "copy", part_path(many, 0));
  EXPECT_EQ(read(kept), data_.indptr) << "it is open";
  try {
    read(readers.front());
    ADD_FAILURE() << "another file of the name was read";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("was replaced while it was read"));
  }
}

TEST_F(PartFile, SaysThatTheProcessMayOpenNoMoreFiles) {
  const Manifest manifest = read_manifest(directory_);
  const FewOpenFiles few(64);
  std::vector<int> others;
  for (int other = ::dup(0); other >= 0; other = ::dup(0)) others.push_back(other);
  for (int left = 0; left < 2; ++left) {  // none for the part itself, and then none for HDF5
    try {
      PartReader::open(directory_, manifest, 0);
      ADD_FAILURE() << "it was opened";
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("Too many open files"));
      EXPECT_THAT(error.remedy(), HasSubstr("ulimit -n"));
    }
    ::close(others.back());
    others.pop_back();
  }
  for (const int other : others) ::close(other);
}

TEST_F(PartFile, GivesBackWhatWasWritten) {
  const Manifest manifest = read_manifest(directory_);
  EXPECT_EQ(manifest.name, "random");
  EXPECT_EQ(manifest.feature_dtype, DType::bf16);
  const PartReader reader = PartReader::open(directory_, manifest, 0);
  const Count nodes = reader.num_inner(), edges = reader.num_edges();
  ASSERT_EQ(nodes, 50);
  ASSERT_EQ(edges, static_cast<Count>(data_.indices.size()));
  EXPECT_EQ(read_all<Count>(nodes + 1, [&](auto* out) { reader.read_indptr(0, nodes + 1, out); }),
            data_.indptr);
  EXPECT_EQ(read_all<NodeId>(edges, [&](auto* out) { reader.read_indices(0, edges, out); }), data_.indices);
  EXPECT_EQ(read_all<EdgeId>(edges, [&](auto* out) { reader.read_edge_ids(0, edges, out); }), data_.edge_ids);
  EXPECT_TRUE(manifest.has_edge_weights);
  EXPECT_EQ(read_all<float>(edges, [&](auto* out) { reader.read_weights(0, edges, out); }), data_.weights);
  EXPECT_EQ(read_all<NodeId>(nodes, [&](auto* out) { reader.read_original_ids(0, nodes, out); }),
            data_.original_ids);
  EXPECT_EQ(read_all<std::int32_t>(nodes, [&](auto* out) { reader.read_labels(0, nodes, out); }),
            data_.labels);
  std::vector<std::byte> rows(features_.size());
  reader.read_features(0, nodes, rows.data());
  EXPECT_EQ(rows, features_);
  EXPECT_EQ(reader.read_split(Split::train).rows, data_.train.rows);
  EXPECT_EQ(reader.read_split(Split::train).ranks, data_.train.ranks);
  EXPECT_TRUE(reader.read_split(Split::valid).rows.empty());
  EXPECT_EQ(reader.split_size(Split::train), 3);
  EXPECT_EQ(read_all<Count>(2, [&](auto* out) { reader.read_split_rows(Split::train, 1, 2, out); }),
            (std::vector<Count>{3, 2}));
}

TEST_F(PartFile, KeepsClusters) {
  for (const auto& file : fs::directory_iterator(directory_)) fs::remove(file);
  record_.manifest.num_clusters = 3;
  for (std::int32_t row = 0; row < 50; ++row) data_.clusters.push_back(row * 7 % 3);
  const auto write = [&] {
    for (const auto& file : fs::directory_iterator(directory_)) fs::remove(file);
    record_.parts = {write_part(directory_, record_.manifest, data_, features_),
                     write_part(directory_, record_.manifest, empty(), {})};
    write_manifest(directory_, record_);
  };
  write();
  const Manifest manifest = read_manifest(directory_);
  EXPECT_EQ(manifest.num_clusters, 3);
  {
    const PartReader reader = PartReader::open(directory_, manifest, 0);
    EXPECT_EQ(read_all<std::int32_t>(50, [&](auto* out) { reader.read_clusters(0, 50, out); }),
              data_.clusters);
    const std::vector<Count> rows{49, 0, 17, 18, 17};
    EXPECT_EQ(reader.read_clusters_of(rows),
              (std::vector<std::int32_t>{data_.clusters[49], 0, data_.clusters[17], 0, data_.clusters[17]}));
    EXPECT_THROW(reader.read_clusters_of(std::vector<Count>{50}), InputError);
    EXPECT_TRUE(PartReader::open(directory_, manifest, 1).read_clusters_of({}).empty());
  }
  for (const std::int32_t bad : {-1, 3}) {
    data_.clusters[31] = bad;
    write();
    const PartReader reader = PartReader::open(directory_, read_manifest(directory_), 0);
    try {
      reader.read_clusters_of(std::vector<Count>{31});
      ADD_FAILURE() << bad << " was read";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr(fmt::format("row 31 is in cluster {}, but clusters are 0 to 2", bad)));
    }
  }
}

TEST_F(PartFile, RefusesImpossibleNumbersOfClusters) {
  for (const Count clusters : {Count{1}, Count{1} << 31, Count{1} << 60}) {
    record_.manifest.num_clusters = clusters;
    write_manifest(directory_, record_);
    EXPECT_THAT(refusal(), HasSubstr(fmt::format("field \"clusters\" is {} for 2 parts", clusters)));
  }
  record_.manifest.num_clusters = 4;
  write_manifest(directory_, record_);
  EXPECT_THAT(refusal(), HasSubstr("/nodes/node/cluster is missing")) << "the parts have none";
}

TEST_F(PartFile, KeepsSetsOfClasses) {
  for (const auto& file : fs::directory_iterator(directory_)) fs::remove(file);
  record_.manifest.multi_label = true;
  record_.manifest.num_classes = 40;
  data_.labels.resize(2 * 50);
  std::iota(data_.labels.begin(), data_.labels.end(), 3);
  record_.parts = {write_part(directory_, record_.manifest, data_, features_),
                   write_part(directory_, record_.manifest, empty(), {})};
  write_manifest(directory_, record_);
  const Manifest manifest = read_manifest(directory_);
  EXPECT_TRUE(manifest.multi_label);
  EXPECT_EQ(manifest.label_words(), 2);
  const PartReader reader = PartReader::open(directory_, manifest, 0);
  EXPECT_EQ(read_all<std::int32_t>(100, [&](auto* out) { reader.read_labels(0, 50, out); }), data_.labels);
  EXPECT_EQ(read_all<std::int32_t>(2, [&](auto* out) { reader.read_labels(49, 1, out); }),
            (std::vector<std::int32_t>{101, 102}));
}

TEST_F(PartFile, ReadsRangesAndRefusesBeyondTheEnd) {
  const PartReader reader = PartReader::open(directory_, read_manifest(directory_), 0);
  std::vector<NodeId> two(2);
  reader.read_original_ids(10, 2, two.data());
  EXPECT_THAT(two, testing::ElementsAre(39, 38));
  std::vector<std::byte> row(6);
  reader.read_features(49, 1, row.data());
  EXPECT_THAT(row, testing::ElementsAreArray(features_.end() - 6, features_.end()));
  EXPECT_THROW(reader.read_original_ids(49, 2, two.data()), InputError);
  EXPECT_THROW(reader.read_features(-1, 1, row.data()), InputError);
}

TEST_F(PartFile, ReadsEmptyParts) {
  const PartReader reader = PartReader::open(directory_, read_manifest(directory_), 1);
  EXPECT_EQ(reader.num_inner(), 0);
  EXPECT_EQ(reader.num_edges(), 0);
}

TEST_F(PartFile, HashesAreThoseOfTheBytesOnDisk) {
  PartRecord again = hash_part(directory_, record_.manifest, 0);
  EXPECT_EQ(again, record_.parts[0]);
  EXPECT_EQ(again.bytes, static_cast<Count>(fs::file_size(part_path(directory_, 0))));
}

TEST_F(PartFile, ManifestsThatNestWithoutEndAreRefused) {
  constexpr std::size_t kDeep = 1'000'000;
  const std::string text =
      "{\"format\": \"strata-partition\", \"version\": 1, \"xxh3\": \"0123456789abcdef\", \"x\": " +
      std::string(kDeep, '[') + std::string(kDeep, ']') + "}";
  try {
    parse_manifest(text, "manifest.json");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("manifest.json: nested more than 16 deep"));
  }
}

TEST_F(PartFile, ManifestsWhoseCountsAreNoneAreRefused) {
  const std::string good = format_manifest(record_);
  EXPECT_EQ(parse_manifest(good, "manifest.json").manifest.num_edges, record_.manifest.num_edges);
  const auto refusal_of = [&](const std::string& from, const std::string& to) -> std::string {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const std::size_t seal = text.rfind(",\n \"xxh3\"");  // its checksum is right again
    const std::string rest = text.substr(0, seal) + "\n}\n";
    try {
      parse_manifest(
          text.substr(0, seal) + ",\n \"xxh3\": \"" + hex64(hash_bytes(rest.data(), rest.size())) + "\"\n}\n",
          "manifest.json");
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal_of("\"random\"", "\"renamed\""), "accepted");
  const std::string edges = fmt::format("\"edges\": {}", record_.parts[0].num_edges);
  EXPECT_THAT(refusal_of(edges, "\"edges\": 9223372036854775807"), HasSubstr("edges"));
  EXPECT_THAT(refusal_of("    51\n", "    9223372036854775807\n"),
              HasSubstr("reaches beyond the file's end"));
  EXPECT_THAT(refusal_of("\"seed\": 0", "\"seed\": 1.5"), HasSubstr("\"build.seed\" is no whole number"));
  EXPECT_THAT(refusal_of("  50,\n", "  1e+300,\n"), HasSubstr("\"offsets\" is no list of counts"));
}

TEST_F(PartFile, ShowsOfForeignTextWhatCanBeShown) {
  std::string bytes = read_file(part_path(directory_, 0));
  const std::size_t id = bytes.find(record_.manifest.build_id);
  ASSERT_NE(id, std::string::npos);
  bytes[id] = '\x80';
  std::ofstream(part_path(directory_, 0), std::ios::binary) << bytes;
  try {
    PartReader::open(directory_, record_.manifest, 0, Verify::off);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("build_id \\x800000000deadbeef"));
  }
}

TEST_F(PartFile, RefusesPartsThatDoNotBelong) {
  const fs::path first = part_path(directory_, 0);
  Manifest other = record_.manifest;
  other.build_id = "1111111111111111";
  EXPECT_THROW(PartReader::open(directory_, other, 0), InputError);
  other = record_.manifest;
  other.feature_dtype = DType::f16;
  EXPECT_THROW(PartReader::open(directory_, other, 0), InputError);
  other = record_.manifest;
  other.feature_cols = 4;
  EXPECT_THROW(PartReader::open(directory_, other, 0), InputError);
  fs::copy_file(first, part_path(directory_, 1), fs::copy_options::overwrite_existing);
  EXPECT_THAT(refusal(1), HasSubstr("part-00001.h5 has"));
  EXPECT_THROW(PartReader::open(directory_, record_.manifest, 1), InputError);
  fs::remove(part_path(directory_, 1));
  EXPECT_THAT(refusal(), HasSubstr("part-00001.h5 is missing"));
}

TEST_F(PartFile, RefusesTruncatedAndForeignFiles) {
  const fs::path first = part_path(directory_, 0);
  fs::resize_file(first, fs::file_size(first) - 1);
  EXPECT_THAT(refusal(), HasSubstr("bytes, the manifest says"));
  EXPECT_THROW(PartReader::open(directory_, record_.manifest, 0), InputError);
  std::ofstream{first} << "no HDF5 at all";
  EXPECT_THROW(PartReader::open(directory_, record_.manifest, 0), InputError);
}

TEST_F(PartFile, RefusesEveryChangedByteOfTheManifest) {
  const std::string good = read_file(directory_ / kManifestFile);
  EXPECT_EQ(good, format_manifest(parse_manifest(good, "m")));
  for (std::size_t i = 0; i < good.size(); i += 3) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_THROW(parse_manifest(bad, "m"), InputError) << "byte " << i;
  }
  EXPECT_THROW(parse_manifest(good + " ", "m"), InputError);
}

TEST_F(PartFile, TellsForeignAndNewerManifestsApart) {
  const auto message = [&](const std::string& text) {
    std::ofstream{directory_ / kManifestFile} << text;
    return refusal();
  };
  EXPECT_THAT(message("{"), HasSubstr("not JSON"));
  EXPECT_THAT(message("[1]"), HasSubstr("not the manifest"));
  EXPECT_THAT(message(R"({"format":"strata-partition","version":4})"), HasSubstr("version 4"));
  fs::remove(directory_ / kManifestFile);
  EXPECT_THAT(refusal(), HasSubstr("not a partition directory"));
}

TEST_F(PartFile, RefusesToFinishAnUnfinishedPart) {
  fs::remove(part_path(directory_, 1));
  Manifest manifest = record_.manifest;
  manifest.book = PartitionBook{{0, 50, 60}};
  const PartWriter writer = PartWriter::create(directory_, manifest, {.part = 1, .num_edges = 4});
  EXPECT_THROW(writer.finish(), Error);
  EXPECT_THROW(writer.write_indices(3, std::vector<NodeId>{1, 2}), Error);
  EXPECT_THROW(PartWriter::create(directory_, manifest, {.part = 1, .num_edges = 4}), IoError);
}

TEST(PartitionBook, FindsPartsAndSkipsEmptyOnes) {
  const PartitionBook book{{0, 3, 3, 7}};
  EXPECT_EQ(book.part_of(2), 0);
  EXPECT_EQ(book.part_of(3), 2);
  EXPECT_EQ(book.local_of(5), 2);
  EXPECT_EQ(book.global_of(2, 2), 5);
  EXPECT_THROW(PartitionBook({1, 2}), InputError);
  EXPECT_THROW(PartitionBook({0, 2, 1}), InputError);
  EXPECT_THROW(PartitionBook(std::vector<NodeId>{}), InputError);
}

TEST(PartsOfMachines, SpreadsEvenlyAndRefusesTooManyMachines) {
  EXPECT_THAT(parts_of_machines(3, 2), testing::ElementsAre(0, 2, 3));
  EXPECT_THAT(parts_of_machines(8, 3), testing::ElementsAre(0, 3, 6, 8));
  EXPECT_THROW(parts_of_machines(2, 3), InputError);
  EXPECT_THROW(parts_of_machines(2, 0), InputError);
}

}  // namespace
}  // namespace strata::graph
