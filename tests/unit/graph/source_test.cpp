// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/source.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "strata/graph/part_file.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/files.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

using test::expect_error;
using test::write_text;

TEST(Source, TellsTheKindsApart) {
  EXPECT_TRUE(Source().empty());
  const Source parts("some/parts");
  ASSERT_TRUE(parts.parts());
  EXPECT_EQ(std::get<std::filesystem::path>(*parts.parts()), "some/parts");
  EXPECT_FALSE(parts.is_generated());
  const Source planted("planted:parts=3,nodes=300,degree=4");
  ASSERT_TRUE(planted.parts());
  EXPECT_EQ(std::get<PlantedSpec>(*planted.parts()).parts, 3);
  EXPECT_TRUE(planted.is_generated());
  const Source synthetic("synthetic:nodes=70");
  ASSERT_NE(synthetic.synthetic(), nullptr);
  EXPECT_EQ(synthetic.synthetic()->nodes, 70);
  EXPECT_FALSE(synthetic.parts());
  const Source dataset("ogb:a/b,split=time,weight=2");
  ASSERT_NE(dataset.dataset(), nullptr);
  EXPECT_EQ(dataset.dataset()->place, "a/b");
  EXPECT_EQ(dataset.dataset()->choice, "time");
  EXPECT_EQ(dataset.dataset()->weight_column, 2);
  EXPECT_EQ(dataset.text(), "ogb:a/b,split=time,weight=2");
}

TEST(Source, TakesTextBehindAFolderOnlyIfItIsAKey) {
  EXPECT_EQ(Source("ogb:a,b,split=time").dataset()->place, "a,b");
  expect_error([] { Source("graphbolt:a,taks=x"); }, {"unknown key 'taks'", "Did you mean 'task'?"});
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "odd,key=1");
  EXPECT_EQ(Source("ogb:" + (folder / "odd,key=1").string()).dataset()->place, folder / "odd,key=1");
}

TEST(Source, NamesTablesAndTheirColumns) {
  const Source source(
      "parquet:a,source=from,weight=w,features=age+income of a year,node-table=people,nodes=5");
  const DatasetSource& dataset = *source.dataset();
  EXPECT_EQ(dataset.place, "a");
  EXPECT_EQ(dataset.nodes, 5);
  EXPECT_EQ(dataset.tables.source, "from");
  EXPECT_EQ(dataset.tables.weight, "w");
  EXPECT_EQ(dataset.tables.edges, "edges");
  EXPECT_EQ(dataset.tables.nodes, "people");
  EXPECT_EQ(dataset.tables.features, (std::vector<std::string>{"age", "income of a year"}));
}

TEST(Source, KnowsTheHomeFolder) {
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  setenv("HOME", "/of/me", 1);
  EXPECT_EQ(Source("npy:~/g,nodes=5").dataset()->place, "/of/me/g");
  EXPECT_EQ(std::get<std::filesystem::path>(*Source("~/parts").parts()), "/of/me/parts");
  EXPECT_EQ(Source("npy:~g/x").dataset()->place, "~g/x");
  EXPECT_EQ(Source("npy:a/~/x").dataset()->place, "a/~/x");
  EXPECT_EQ(expand_home_in_word("--output=~/p"), "--output=/of/me/p");
  EXPECT_EQ(expand_home_in_word("train=~"), "train=/of/me");
  EXPECT_EQ(expand_home_in_word("a~/b"), "a~/b");
  setenv("HOME", home.c_str(), 1);
}

TEST(Source, NamesColumnsOfListsOfEdges) {
  const DatasetSource source = *Source("csv:a,source=from,target=3,weight=Weight,time=0,since=2").dataset();
  EXPECT_EQ(source.tables.source, "from");
  EXPECT_EQ(source.destination_column, 3);
  EXPECT_EQ(source.tables.weight, "Weight");
  EXPECT_FALSE(source.weight_column);
  EXPECT_EQ(source.time_column, 0);
  expect_error([] { Source("csv:a,weight="); }, {"weight= names nothing"});
}

TEST(Source, RefusesWhatItDoesNotKnow) {
  expect_error([] { Source("obg:/tmp"); }, {"obg:/tmp", "Did you mean 'ogb:'?"});
  expect_error([] { Source("Synthetic:nodes=5"); }, {"Did you mean 'synthetic:'?"});
  expect_error([] { Source("graphblot:x"); }, {"Did you mean 'graphbolt:'?"});
  expect_error([] { Source("zzzzzz:x"); }, {"'zzzzzz:' is not known", "npy:DIR", "ogb:DIR[,split=NAME]"});
  expect_error([] { Source("ogb:"); }, {"ogb: names nothing"});
  expect_error([] { Source("pyg:data.pt"); }, {"'pyg:' is not read", "from_pyg.py", "npy:DIR"});
  expect_error([] { Source("parquet:x,features=a++b"); }, {"features=a++b: a name is empty"});
  expect_error([] { Source("parquet:x,id="); }, {"id= names nothing"});
  expect_error([] { Source("parquet:x,wieght=w"); }, {"unknown key 'wieght'", "Did you mean 'weight'?"});
  expect_error([] { Source("npy:x,nodes=many"); }, {"nodes=many is not a number of nodes"});
  expect_error([] { Source("parts\xff"); }, {"is not UTF-8"});
  expect_error([] { Source("synthetic:nods=5"); }, {"nods"});
}

TEST(Source, NamesACopyOfAGraphInMemoryByWhatItIs) {
  const Source parts("memory:Data(x=[3, 2]);/dev/shm/a"), arrays("memory:Data(x=[3, 2]);npy:/dev/shm/b");
  EXPECT_EQ(std::get<std::filesystem::path>(*parts.parts()), "/dev/shm/a");
  EXPECT_EQ(arrays.dataset()->place, "/dev/shm/b");
  for (const Source& source : {parts, arrays}) {
    EXPECT_EQ(source.text(), "memory:Data(x=[3, 2])");
    EXPECT_TRUE(source.is_in_memory());
    EXPECT_FALSE(source.is_generated());
  }
  const Source gone(parts.text());  // as a run's configuration names it
  EXPECT_EQ(gone.text(), parts.text());
  expect_error([&] { gone.parts(); }, {"memory:Data(x=[3, 2]) lay in the memory of a program", "resume=RUN"});
  EXPECT_FALSE(Source("parts").is_in_memory());
}

TEST(Source, IsAFolderIfThereIsOneOfItsName) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "run:1");
  EXPECT_TRUE(Source((folder / "run:1").string()).parts());
}

TEST(ReadGraph, SaysWhatAFolderWithoutPrefixMayBe) {
  const test::TemporaryFolder folder;
  expect_error([&] { read_graph(folder.path().string()); }, {"what kind of graph", "ogb:DIR", "synthetic:"});
  expect_error([] { read_graph(""); }, {"what kind of graph", "ogb:DIR"});
  write_text(folder / "a/metadata.yaml", "");
  write_text(folder / "b/raw/edge.csv", "");
  write_text(folder / "c/edge_index.npy", "");
  write_text(folder / "d/manifest.json", "");
  expect_error([&] { read_graph((folder / "a").string()); }, {"Did you mean graphbolt:"});
  expect_error([&] { read_graph((folder / "b").string()); }, {"Did you mean ogb:"});
  expect_error([&] { read_graph((folder / "c").string()); }, {"Did you mean npy:"});
  expect_error([&] { read_graph((folder / "d").string()); }, {"manifest.json"});
}

/// Parts that are made, and the same graph again: by the formulas, original ids are global ids.
TEST(ReadGraph, PutsPartsTogether) {
  const char* const text =
      "planted:nodes=900,degree=6,parts=3,features=2,classes=4,train=90,valid=30,test=20,seed=2";
  const Graph graph = read_graph(text);
  const PartsOrigin origin = *Source(text).parts();
  const Manifest manifest = read_manifest(origin);
  EXPECT_EQ(graph.num_nodes(), 900);
  EXPECT_EQ(graph.structure.num_edges(), manifest.num_edges);
  EXPECT_EQ(graph.splits.train.size(), 90u);
  const PartReader part = PartReader::open(origin, manifest, 1);
  std::vector<Count> indptr(2);
  part.read_indptr(5, 2, indptr.data());
  std::vector<NodeId> list(at(indptr[1] - indptr[0]));
  part.read_indices(indptr[0], std::ssize(list), list.data());
  std::ranges::sort(list);
  const auto& [nodes, begins, indices, edge_ids, weights, sublists] = graph.structure;
  EXPECT_EQ(list, std::vector<NodeId>(indices.begin() + begins[305], indices.begin() + begins[306]));
  float row[2] = {};
  part.read_features(5, 1, row);
  const auto* const stored = reinterpret_cast<const float*>(graph.features.data) + 305 * 2;
  EXPECT_EQ(std::vector<float>(row, row + 2), std::vector<float>(stored, stored + 2));
  std::int32_t label = -1;
  part.read_labels(5, 1, &label);
  EXPECT_EQ(graph.labels[305], label);
}

}  // namespace
}  // namespace strata::graph
