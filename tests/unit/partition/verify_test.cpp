// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>

#include "random_graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/partition/build.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/files.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

namespace fs = std::filesystem;
using graph::PartData;
using testing::HasSubstr;

void write(const fs::path& path, const std::string& bytes) { std::ofstream{path, std::ios::binary} << bytes; }

/// A partition of a small random graph.
class Verify : public testing::Test {
 protected:
  Verify() {
    StopFlag stop;
    build(test::random_graph({.num_nodes = 40, .num_edges = 120, .feature_cols = 2}),
          {.output = directory_, .assign = {.num_parts = 2}, .num_threads = 1}, stop);
  }
  std::string found() const {
    const auto problems = verify(directory_, 1);
    return problems.empty() ? "" : verify_text(directory_, problems);
  }
  test::TemporaryFolder folder_;
  fs::path directory_ = folder_ / "out";
};

TEST_F(Verify, FindsEveryChangedByteAndNamesItsDataset) {
  ASSERT_EQ(found(), "");
  constexpr std::size_t kStride = 53;  // coprime to the width of every type
  std::string all_found;
  for (const char* name : {"part-00000.h5", "part-00001.h5", "manifest.json"}) {
    const std::string good = read_file(directory_ / name);
    for (std::size_t i = 0; i < good.size(); i += kStride) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x10);
      write(directory_ / name, bad);
      const std::string problems = found();
      EXPECT_THAT(problems, HasSubstr(name)) << "byte " << i;
      all_found += problems;
    }
    write(directory_ / name, good);
  }
  EXPECT_EQ(found(), "");
  for (const graph::PartRecord& part : graph::read_partition_record(directory_).parts) {
    for (const graph::DatasetRecord& dataset : part.datasets) {
      if (dataset.shape[0] * 4 < static_cast<Count>(kStride)) continue;  // may lie between two changed bytes
      EXPECT_THAT(all_found, HasSubstr(part.file + ": " + dataset.name + ": was changed"));
    }
  }
}

TEST_F(Verify, FindsMissingAndExtraBytesAndFiles) {
  const fs::path part = directory_ / "part-00001.h5";
  const std::string good = read_file(part);
  write(part, good.substr(0, good.size() - 1));
  EXPECT_THAT(found(), HasSubstr("part-00001.h5: has"));
  write(part, good + '\0');
  EXPECT_THAT(found(), HasSubstr("part-00001.h5: has"));
  write(part, "");
  EXPECT_THAT(found(), HasSubstr("part-00001.h5: has 0 bytes"));
  fs::remove(part);
  EXPECT_THAT(found(), HasSubstr("part-00001.h5: is missing"));
  write(part, good);
  write(directory_ / "notes.txt", "");
  EXPECT_THAT(found(), HasSubstr("notes.txt: is not part"));
  fs::remove(directory_ / "notes.txt");
  fs::remove(directory_ / "manifest.json");
  EXPECT_THAT(found(), HasSubstr("no manifest.json"));
  EXPECT_THROW(verify(folder_ / "none", 1), InputError);
}

TEST_F(Verify, FindsSwappedParts) {
  fs::rename(directory_ / "part-00000.h5", directory_ / "x");
  fs::rename(directory_ / "part-00001.h5", directory_ / "part-00000.h5");
  fs::rename(directory_ / "x", directory_ / "part-00001.h5");
  EXPECT_THAT(found(), HasSubstr("part-00000.h5"));
}

TEST_F(Verify, GivesJson) {
  EXPECT_THAT(verify_json(directory_, {}), HasSubstr("\"ok\": true"));
  EXPECT_THAT(verify_json(directory_, {{"part-00000.h5", "/x", "y"}}), HasSubstr("\"ok\": false"));
}

/// Two parts written by hand, whose hashes are right whatever is in them.
///
///     original ids of part 0: {1, 0}, of part 1: {2}; edges 1->0, 2->0, 1->2 (undirected would need the
///     reverse)
struct Forgery {
  PartData parts[2];
  std::vector<float> features[2] = {{1, 2, 3, 4}, {5, 6}};
  graph::PartitionRecord record;

  Forgery() {
    parts[0].indptr = {0, 0, 2};
    parts[0].indices = {0, 2};
    parts[0].edge_ids = {0, 1};
    parts[0].original_ids = {1, 0};
    parts[0].labels = {0, 1};
    parts[0].train = {{1}, {0}};
    parts[0].test = {{0}, {0}};
    parts[1].part = 1;
    parts[1].indptr = {0, 1};
    parts[1].indices = {0};
    parts[1].edge_ids = {2};
    parts[1].original_ids = {2};
    parts[1].labels = {-1};
    parts[1].train = {{0}, {1}};
    record.manifest.name = "forged";
    record.manifest.build_id = "00000000000000ff";
    record.manifest.book = graph::PartitionBook{{0, 2, 3}};
    record.manifest.num_edges = 3;
    record.manifest.feature_cols = 2;
    record.manifest.num_classes = 2;
    record.manifest.has_labels = true;
    record.manifest.num_train = 2;
    record.manifest.num_test = 1;
    record.constraints = {{"nodes", true, 0.03, {2, 1}}};
  }

  std::string problems() {
    const test::TemporaryFolder folder;
    for (int p = 0; p < 2; ++p) {
      const auto& rows = features[p];
      record.parts.push_back(
          graph::write_part(folder.path(), record.manifest, parts[p], std::as_bytes(std::span{rows})));
      record.parts.back().halo_nodes = halo_nodes;
      record.parts.back().cut_edges = 1;
    }
    graph::write_manifest(folder.path(), record);
    const auto problems = verify(folder.path(), 1);
    return problems.empty() ? "none" : verify_text(folder.path(), problems);
  }

  Count halo_nodes = 1;
};

std::string problems_after(const std::function<void(Forgery&)>& change) {
  Forgery forgery;
  change(forgery);
  return forgery.problems();
}

TEST(VerifyInvariants, AcceptsWhatIsRight) {
  EXPECT_EQ(problems_after([](Forgery&) {}), "none");
  EXPECT_EQ(problems_after([](Forgery& f) { f.record.manifest.multi_label = true, f.parts[1].labels = {4}; }),
            "none");
}

TEST(VerifyInvariants, FindsEachBrokenOne) {
  const auto expect = [](const std::function<void(Forgery&)>& change, const std::string& message) {
    EXPECT_THAT(problems_after(change), HasSubstr(message));
  };
  expect([](Forgery& f) { f.parts[0].indptr = {0, 3, 2}; }, "indptr: does not rise");
  expect([](Forgery& f) { f.parts[0].indptr = {1, 1, 2}; }, "indptr runs from 1");
  expect([](Forgery& f) { f.parts[0].indices = {0, 3}; }, "indices: 3 at 1 is out of range");
  expect([](Forgery& f) { f.parts[0].indices = {0, -1}; }, "indices: -1 at 1 is out of range");
  expect([](Forgery& f) { f.parts[0].indices = {2, 0}; }, "not in the order of original ids");
  expect([](Forgery& f) { f.parts[0].edge_ids = {0, -5}; }, "edge_id: holds a negative id");
  expect(
      [](Forgery& f) {
        f.record.manifest.has_edge_weights = true;
        f.parts[0].weights = {0, 1};
        f.parts[1].weights = {-1};
      },
      "part-00001.h5: /edges/node__to__node/weight: -1 at 0 is negative or not finite");
  expect([](Forgery& f) { f.parts[1].original_ids = {1}; },
         "original_id: 1 of row 0 is out of range or occurs twice");
  expect([](Forgery& f) { f.parts[1].original_ids = {3}; }, "original_id: 3 of row 0 is out of range");
  expect([](Forgery& f) { f.parts[1].labels = {2}; }, "label: 2 of row 0");
  expect([](Forgery& f) { f.parts[1].labels = {-2}; }, "label: -2 of row 0");
  for (const std::int32_t set : {8, 5}) {  // bit 3 of two classes; class 0 although it has no label
    expect([set](Forgery& f) { f.record.manifest.multi_label = true, f.parts[1].labels = {set}; },
           "part-00001.h5: /nodes/node/label: row 0 is no set of 2 classes");
  }
  expect(
      [](Forgery& f) {
        f.record.manifest.num_clusters = 2;
        f.parts[0].clusters = {0, 2};
        f.parts[1].clusters = {0};
      },
      "part-00000.h5: row 1 is in cluster 2, but clusters are 0 to 1");
  expect([](Forgery& f) { f.features[0][3] = std::nanf(""); }, "feat: row 1, column 1 is not finite");
  expect([](Forgery& f) { f.features[1][0] = INFINITY; }, "feat: row 0, column 0 is not finite");
  expect([](Forgery& f) { f.parts[0].train.rows = {2}; }, "split/train: holds a row");
  expect([](Forgery& f) { f.parts[0].train.ranks = {1}; }, "split/train: holds a row");
  expect([](Forgery& f) { f.parts[0].train.ranks = {1}, f.parts[1].train.ranks = {0}; },
         "order of the original ids");
  expect([](Forgery& f) { f.parts[0].test.rows = {1}; }, "a node of another split");
  expect([](Forgery& f) { f.record.manifest.num_train = 3; }, "order of the original ids");
  expect([](Forgery& f) { f.halo_nodes = 2; }, "halo nodes");
  expect([](Forgery& f) { f.record.manifest.undirected = true; }, "lacks its reverse");
  expect([](Forgery& f) { f.record.constraints[0].weights = {1, 2}; }, "constraint \"nodes\"");
  expect(
      [](Forgery& f) {  // node 1 becomes colder than node 0
        f.parts[0].indices = {1, 2};
        f.parts[1].indices = {1};
      },
      "hotter than the row before");
}

}  // namespace
}  // namespace strata::partition
