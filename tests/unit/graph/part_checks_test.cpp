// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <random>

#include "strata/graph/manifest_file.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr Count kInner = 30000, kCols = 20;
constexpr auto kSplits = {Split::train, Split::valid, Split::test};

/// One part whose datasets take several blocks each.
class PartChecks : public testing::Test {
 protected:
  PartChecks() {
    std::mt19937_64 random{11};
    PartData data;
    data.indptr = {0};
    for (Count v = 0; v < kInner; ++v) {
      for (auto k = random() % 6; k > 0; --k) {
        data.indices.push_back(static_cast<NodeId>(random() % kInner));
        data.edge_ids.push_back(static_cast<EdgeId>(random() >> 20));
        data.weights.push_back(static_cast<float>(random() % 1000) / 8);
      }
      data.indptr.push_back(std::ssize(data.indices));
      data.original_ids.push_back(kInner - 1 - v);
      data.labels.push_back(static_cast<std::int32_t>(random() % 4) - 1);
      auto& split = v % 3 == 0 ? data.train : v % 3 == 1 ? data.valid : data.test;
      split.rows.push_back(v);
      split.ranks.push_back(v / 3);
    }
    std::vector<float> features(at(kInner * kCols));
    for (float& value : features) value = static_cast<float>(random() % 1000);
    record_.manifest = {.name = "random",
                        .build_id = "00000000deadbeef",
                        .book = PartitionBook{{0, kInner}},
                        .num_edges = std::ssize(data.indices),
                        .has_edge_weights = true,
                        .feature_cols = kCols,
                        .num_classes = 3,
                        .has_labels = true,
                        .num_train = kInner / 3,
                        .num_valid = kInner / 3,
                        .num_test = kInner / 3};
    record_.parts = {write_part(folder_.path(), record_.manifest, data, std::as_bytes(std::span(features)))};
    write_manifest(folder_.path(), record_);
  }

  PartReader open(Verify verify = Verify::on) const {
    return PartReader::open(folder_.path(), read_manifest(folder_.path()), 0, verify);
  }
  fs::path part() const { return part_path(folder_.path(), 0); }

  void flip(Count byte, int bit) const {
    std::fstream file(part(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(byte);
    const char good = static_cast<char>(file.get());
    file.seekp(byte);
    file.put(static_cast<char>(good ^ (1 << bit)));
  }

  test::TemporaryFolder folder_;
  PartitionRecord record_;
};

std::vector<std::byte> bytes_of(Count bytes, const std::function<void(void*)>& read) {
  std::vector<std::byte> all(at(bytes));
  read(all.data());
  return all;
}

/// A range of a dataset that has an entry a row or, if `edges`, one an edge.
struct Range {
  Count first, count;
};

/// All of a range of rows, as bytes.
std::vector<std::byte> rows_of(const PartReader& reader, Range rows, RecentBlocks* recent) {
  std::vector<std::byte> all;
  const auto add = [&](Count bytes, const std::function<void(void*)>& read) {
    const auto more = bytes_of(bytes, read);
    all.insert(all.end(), more.begin(), more.end());
  };
  const auto [first, count] = rows;
  add((count + 1) * 8,
      [&](void* out) { reader.read_indptr(first, count + 1, static_cast<Count*>(out), recent); });
  std::vector<Count> indptr(at(count) + 1);
  std::memcpy(indptr.data(), all.data(), all.size());
  const Count edge = indptr.front(), edges = indptr.back() - edge;
  add(edges * 8, [&](void* out) { reader.read_indices(edge, edges, static_cast<NodeId*>(out), recent); });
  add(edges * 8, [&](void* out) { reader.read_edge_ids(edge, edges, static_cast<EdgeId*>(out), recent); });
  add(edges * 4, [&](void* out) { reader.read_weights(edge, edges, static_cast<float*>(out), recent); });
  add(count * 8, [&](void* out) { reader.read_original_ids(first, count, static_cast<NodeId*>(out)); });
  add(count * 4, [&](void* out) { reader.read_labels(first, count, static_cast<std::int32_t*>(out)); });
  add(count * kCols * 4, [&](void* out) { reader.read_features(first, count, out, recent); });
  return all;
}

void read_all(const PartReader& reader) {
  rows_of(reader, {0, kInner}, nullptr);
  for (const auto split : kSplits) reader.read_split(split);
}

TEST_F(PartChecks, ReadTheSameBytesFromAnywhere) {
  const PartReader checked = open(), plain = open(Verify::off);
  std::mt19937 random{5};
  RecentBlocks recent;
  for (int i = 0; i < 300; ++i) {
    const Count count = i % 2 == 0 ? random() % 20 : random() % 20000;
    const Range rows{static_cast<Count>(random()) % (kInner - count), count};
    ASSERT_EQ(rows_of(checked, rows, i % 3 == 0 ? nullptr : &recent), rows_of(plain, rows, nullptr)) << i;
  }
  for (const auto split : kSplits) {
    EXPECT_EQ(checked.read_split(split).rows, plain.read_split(split).rows);
    EXPECT_EQ(checked.read_split(split).ranks, plain.read_split(split).ranks);
  }
}

TEST_F(PartChecks, RefuseEveryFlippedBitAndNameItsDataset) {
  std::mt19937_64 random{6};
  constexpr int kPerDataset = 24;
  for (const DatasetRecord& dataset : record_.parts[0].datasets) {
    const Count bytes =
        dataset.shape[0] * (dataset.name.ends_with("feat") ? kCols * 4 : size_of(parse_dtype(dataset.dtype)));
    for (int i = 0; i < kPerDataset; ++i) {
      const Count place = dataset.offset + static_cast<Count>(random() % static_cast<std::uint64_t>(bytes));
      const int bit = static_cast<int>(random() % 8);
      flip(place, bit);
      try {
        read_all(open());
        ADD_FAILURE() << dataset.name << ", byte " << place << " was read";
      } catch (const InputError& error) {
        EXPECT_THAT(error.what(), HasSubstr("part-00000.h5: dataset " + dataset.name));
      }
      flip(place, bit);
    }
  }
  read_all(open());
}

TEST_F(PartChecks, RefuseEveryFlippedBitOutsideTheDatasetsBeforeHdf5Reads) {
  std::vector<bool> inside(at(record_.parts[0].bytes));
  for (const DatasetRecord& d : record_.parts[0].datasets) {
    const Count bytes = d.shape[0] * (d.name.ends_with("feat") ? kCols * 4 : size_of(parse_dtype(d.dtype)));
    std::fill_n(inside.begin() + d.offset, bytes, true);
  }
  int flipped = 0;
  for (Count place = 0; place < record_.parts[0].bytes; ++place) {
    if (inside[at(place)] || place % 41 != 0) continue;
    flip(place, static_cast<int>(place / 41 % 8));
    EXPECT_THAT([&] { open(); }, testing::ThrowsMessage<InputError>(HasSubstr("outside the datasets")))
        << place;
    flip(place, static_cast<int>(place / 41 % 8));
    ++flipped;
  }
  EXPECT_GT(flipped, 100);
  read_all(open());
}

TEST_F(PartChecks, SeeOnlyWhatIsRead) {
  const DatasetRecord& features = record_.parts[0].datasets[6];
  ASSERT_EQ(features.name, "/nodes/node/feat");
  flip(features.offset + (features.block_rows * 3 + 1) * kCols * 4, 0);
  const PartReader reader = open();
  RecentBlocks recent;
  std::vector<float> rows(at(features.block_rows * kCols));
  reader.read_features(features.block_rows * 2, features.block_rows, rows.data());
  reader.read_features(features.block_rows * 3 - 1, 1, rows.data(), &recent);
  for (int i = 0; i < 2; ++i) {  // a block that was refused is not remembered
    EXPECT_THROW(reader.read_features(features.block_rows * 3 + 5, 1, rows.data(), &recent), InputError);
  }
  open(Verify::off).read_features(features.block_rows * 3 + 5, 1, rows.data());
}

TEST_F(PartChecks, RefuseAPartOfAnotherBuildWithTheSameShape) {
  PartitionRecord other = record_;
  other.parts[0].datasets[0].offset += 8;
  write_manifest(folder_.path(), other);
  EXPECT_THAT([&] { open(); }, testing::ThrowsMessage<InputError>(HasSubstr("part-00000.h5: ")));
}

TEST_F(PartChecks, HaveNoneInOlderBuilds) {
  {
    const hid_t file = H5Fopen(part().c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(H5Ldelete(file, "/checksums", H5P_DEFAULT), 0);
    H5Fclose(file);
  }
  record_.parts[0] = hash_part(folder_.path(), record_.manifest, 0);
  write_manifest(folder_.path(), record_);
  EXPECT_THAT(read_file(folder_ / "manifest.json"), testing::Not(HasSubstr("block")));
  const Manifest manifest = read_manifest(folder_.path());
  EXPECT_FALSE(manifest.has_block_hashes());
  EXPECT_EQ(hash_part(folder_.path(), manifest, 0), record_.parts[0]);
  read_all(open());
  flip(record_.parts[0].bytes / 2, 3);
  read_all(open());
}

}  // namespace
}  // namespace strata::graph
