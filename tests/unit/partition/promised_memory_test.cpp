// SPDX-License-Identifier: Apache-2.0
// What the program takes beside what it promised to take.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "run_program.hpp"
#include "strata/util/files.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::run_measured;
using test::run_shell;
using test::Usage;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

std::string npy_header(const std::string& type, Count rows, Count cols) {
  std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + std::to_string(rows) +
                     ", " + std::to_string(cols) + "), }";
  text.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text + "\n";
}

/// Writes random edges as npy:DIR, of which every fourth pair is in a community of 1000 consecutive nodes.
void write_edges(const fs::path& folder, Count nodes, Count edges) {
  fs::create_directory(folder);
  std::ofstream file{folder / "edge_index.npy", std::ios::binary};
  file << npy_header("<i8", 2, edges);
  std::vector<std::int64_t> piece;
  for (const bool destinations : {false, true})
    for (Count first = 0; first < edges; first += 1 << 16) {
      piece.clear();
      for (Count e = first; e < std::min(first + (1 << 16), edges); ++e) {
        const auto u =
            static_cast<Count>(mix64(static_cast<std::uint64_t>(e)) % static_cast<std::uint64_t>(nodes));
        const auto v =
            static_cast<Count>(mix64(static_cast<std::uint64_t>(e) + 1) % static_cast<std::uint64_t>(nodes));
        piece.push_back(!destinations ? u : e % 4 == 0 ? v : u / 1000 * 1000 + v % 1000);
      }
      file.write(reinterpret_cast<const char*>(piece.data()), std::ssize(piece) * 8);
    }
}

/// The same random weighted edges, of which three quarters are within communities of 1000 nodes: as a folder
/// that npy, ogb and graphbolt read, as a list, and as a compressed matrix of SciPy.
void write_formats(const fs::path& folder, Count nodes, Count edges) {
  const fs::path script = folder / "formats.py";
  std::ofstream{script} << R"(
import pathlib, sys
import numpy as np
folder, nodes, edges = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
random = np.random.default_rng(1)
source, target = random.integers(nodes, size=(2, edges))
near = random.random(edges) < 0.75
target[near] = source[near] // 1000 * 1000 + target[near] % 1000
weight = random.integers(1, 64, edges)
raw = folder / 'set/raw'
raw.mkdir(parents=True)
np.save(folder / 'set/edge_index.npy', np.stack([source, target]).astype(np.uint32))
np.save(folder / 'set/edge_weight.npy', weight.astype(np.float64))
with open(raw / 'edge.csv', 'w') as pairs, open(raw / 'edge-feat.csv', 'w') as weights, open(folder / 'edges.csv', 'w') as rows:
    for u, v, w in zip(source.tolist(), target.tolist(), weight.tolist()):
        pairs.write(f'{u},{v}\n')
        weights.write(f'{w}\n')
        rows.write(f'{u},{v},{w}\n')
(raw / 'num-node-list.csv').write_text(f'{nodes}\n')
(folder / 'set/metadata.yaml').write_text(f'''graph:
  nodes: [{{num: {nodes}}}]
  edges: [{{format: csv, path: raw/edge.csv}}]
  feature_data: [{{domain: edge, name: weight, format: numpy, path: edge_weight.npy}}]
''')
order = np.argsort(target, kind='stable')
np.savez_compressed(folder / 'matrix.npz', format=np.array(b'csc'), shape=np.array([nodes, nodes]), data=weight[order],
                    indices=source[order].astype(np.int32), indptr=np.searchsorted(target[order], np.arange(nodes + 1)))
)";
  const Outcome written =
      run_shell(std::string(STRATA_PYTHON) + " " + script.string() + " " + folder.string() + " " +
                std::to_string(nodes) + " " + std::to_string(edges));
  ASSERT_EQ(written.exit_code, 0) << written.output;
}

using PromisedMemory = test::ProgramTest;

// A part's structure would take 100 MB.
TEST_F(PromisedMemory, VerifiesLargePartsInLittleMemory) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  const std::string input = "synthetic:kind=rmat,nodes=20000,degree=200,classes=2,features=1,seed=1";
  const Outcome built = run("build --parts 1 --input " + input + " --output " + out());
  ASSERT_EQ(built.exit_code, 0) << built.output;
  const Usage usage = run_measured({"verify", "--threads", "1", out()});
  EXPECT_EQ(usage.exit_code, 0);
  EXPECT_GT(fs::file_size(out() + "/part-00000.h5"), 40'000'000u);
  EXPECT_LT(usage.peak_bytes, 32 << 20);
}

// The edges are three times the memory, as they lie in the file; in memory their lists would take ten times
// as much.
TEST_F(PromisedMemory, KeepsTheMemoryThatItWasPromised) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  write_edges(folder_ / "edges", 100'000, 20'000'000);
  constexpr Count kCols = 256;  // of zeros: 102 MB
  std::ofstream{folder_ / "edges/x.npy", std::ios::binary} << npy_header("<f4", 100'000, kCols);
  fs::resize_file(folder_ / "edges/x.npy", 128 + 100'000 * kCols * 4);
  const std::string input = "npy:" + (folder_ / "edges").string();
  const Usage usage = run_measured(
      {"build", "--input", input, "--parts", "8", "--memory", "96MiB", "--output", out(), "--threads", "16"});
  EXPECT_EQ(usage.exit_code, 0);
  EXPECT_LT(usage.peak_bytes, 96 << 20);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 2) << "a temporary file is left";
  EXPECT_EQ(run("verify " + out()).exit_code, 0);
  const Outcome refused = run("build --parts 8 --memory 64MiB --input " + input + " --output " + out() + "2");
  EXPECT_EQ(refused.exit_code, 3) << refused.output;
  EXPECT_THAT(refused.output, AllOf(HasSubstr("bytes each"), HasSubstr("Give --memory")));
  const Outcome elsewhere = run("info --memory 96MiB --scratch /proc " + input);  // where no file can be made
  EXPECT_EQ(elsewhere.exit_code, 1) << elsewhere.output;
  EXPECT_THAT(elsewhere.output, AllOf(HasSubstr("/proc: temporary files"), HasSubstr("Give --scratch")));
}

// A matrix of 0 and 1 as text: as numbers it would take 160 MB, and four bytes per number 80 MB.
TEST_F(PromisedMemory, ReadsLabelsPieceByPiece) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  constexpr Count kNodes = 200'000, kClasses = 100;
  fs::create_directories(folder_ / "set/raw");
  std::ofstream{folder_ / "set/raw/edge.csv"} << "0,1\n1,2\n";
  std::ofstream{folder_ / "set/raw/num-node-list.csv"} << kNodes << "\n";
  std::string row = "1";
  for (Count c = 1; c < kClasses; ++c) row += c % 3 == 0 ? ",1" : ",0";
  std::ofstream labels{folder_ / "set/raw/node-label.csv"};
  for (Count v = 0; v < kNodes; ++v) labels << row << "\n";
  labels.close();
  const std::string list =
      "csv:" + (folder_ / "set/raw/edge.csv").string() + ",nodes=" + std::to_string(kNodes);
  for (const std::vector<std::string>& input :
       {std::vector<std::string>{"ogb:" + (folder_ / "set").string()},
        std::vector<std::string>{list, "--labels", (folder_ / "set/raw/node-label.csv").string()}}) {
    std::vector<std::string> words{"info", "--memory", "96MiB", "--threads", "2"};
    words.insert(words.end(), input.begin(), input.end());
    const Usage usage = run_measured(words);
    EXPECT_EQ(usage.exit_code, 0) << input[0];
    EXPECT_LT(usage.peak_bytes, 96 << 20) << input[0];
  }
}

// Small graphs, of which METIS takes more than the lists are. Every edge is listed once.
// Codebooks are trained on rows that lie far from each other, in a table of twice the memory.
TEST_F(PromisedMemory, KeepsThePromiseWhileCodebooksAreTrained) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  constexpr Count kNodes = 200'000, kCols = 256;
  write_edges(folder_ / "edges", kNodes, 100'000);
  std::ofstream{folder_ / "edges/x.npy", std::ios::binary} << npy_header("<f4", kNodes, kCols);
  fs::resize_file(folder_ / "edges/x.npy", 128 + kNodes * kCols * 4);
  const Usage usage =
      run_measured({"build", "--input", "npy:" + (folder_ / "edges").string(), "--parts", "2", "--memory",
                    "96MiB", "--features", "vq", "--method", "random", "--output", out()});
  EXPECT_EQ(usage.exit_code, 0);
  EXPECT_LT(usage.peak_bytes, 96 << 20);
}

TEST_F(PromisedMemory, WarnsOfTemporaryFilesThatLieInMemory) {
  const std::string info = "info --memory 72MiB synthetic:kind=rmat,nodes=20000,degree=50 --scratch ";
  EXPECT_THAT(run(info + "/dev/shm").output, HasSubstr("/dev/shm lies in memory (tmpfs)"));
}

TEST_F(PromisedMemory, CountsWhatMetisTakes) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  write_edges(folder_ / "edges", 100'000, 1'000'000);
  const auto expect_kept = [&](const std::string& method, int mebibytes, int exit_code) {
    const Usage usage = run_measured({"build", "--input", "npy:" + (folder_ / "edges").string(), "--parts",
                                      "4", "--direction", "undirected", "--method", method, "--memory",
                                      std::to_string(mebibytes) + "MiB", "--output", out(), "--force",
                                      "--threads", "2", "--log-level", "error"});
    EXPECT_EQ(usage.exit_code, exit_code) << method << " in " << mebibytes;
    EXPECT_LT(usage.peak_bytes, std::int64_t{mebibytes} << 20) << method;
  };
  expect_kept("auto", 110, 0);
  expect_kept("auto", 165, 0);
  expect_kept("metis", 110, 3);
  expect_kept("metis", 165, 0);
}

// The lists would take twice the memory, and the features nearly as much as it.
TEST_F(PromisedMemory, KeepsThePromiseWithPartsAndInEveryCommand) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  write_edges(folder_ / "edges", 100'000, 3'000'000);
  constexpr Count kCols = 200;
  std::ofstream{folder_ / "edges/x.npy", std::ios::binary} << npy_header("<f4", 100'000, kCols);
  fs::resize_file(folder_ / "edges/x.npy", 128 + 100'000 * kCols * 4);
  const std::string input = "npy:" + (folder_ / "edges").string();
  const auto path = [&](const std::string& name) { return (folder_ / name).string(); };
  const auto digest = [&](const std::string& parts) {
    const std::string text = run("info --json " + path(parts)).output;
    return text.substr(text.find("graph_digest"), 40);
  };
  const auto keeps = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--memory", "88MiB", "--threads", "2"});
    const Usage usage = run_measured(words);
    EXPECT_EQ(usage.exit_code, 0) << words[0];
    EXPECT_LT(usage.peak_bytes, 88 << 20) << words[0];
  };
  keeps({"build", "--input", input, "--parts", "4", "--clusters", "3", "--output", path("four")});
  EXPECT_EQ(run("verify " + path("four")).exit_code, 0);
  const auto expect_new_parts = [&](const std::string& method, const std::string& parts) {
    keeps({"repartition", path("four"), "--method", method, "--parts", parts, "--output", path(method)});
    EXPECT_EQ(run("verify " + path(method)).exit_code, 0);
    EXPECT_EQ(digest(method), digest("four")) << method;
  };
  expect_new_parts("auto", "3");
  expect_new_parts("merge", "2");
  expect_new_parts("split", "8");
  keeps({"convert", path("four"), "npy:" + path("written")});
  EXPECT_EQ(run("convert " + path("four") + " npy:" + path("in-memory")).exit_code, 0);
  for (const char* const name : {"edge_index.npy", "x.npy"})
    EXPECT_EQ(read_file(folder_ / "written" / name), read_file(folder_ / "in-memory" / name)) << name;
  keeps({"info", input, "--normalize-features"});
  keeps({"info", "synthetic:kind=rmat,nodes=100000,edges=4000000,features=200"});
  EXPECT_EQ(run("info --memory 88MiB --log-level warn " + input + " 2>/dev/null").output,
            run("info --log-level warn " + input + " 2>/dev/null").output);
  for (const std::string& command : {"info " + input, "convert " + input + " npy:" + path("none"),
                                     "repartition " + path("four") + " --parts 2 --output " + path("none")}) {
    const Outcome refused = run(command + " --memory 64MiB");
    EXPECT_EQ(refused.exit_code, 3) << refused.output;
    EXPECT_THAT(refused.output, AllOf(HasSubstr("64.0 MiB may be used"), HasSubstr("Give --memory")));
    EXPECT_FALSE(fs::exists(folder_ / "none"));
  }
}

// Every input takes more than the promise if it is read as a whole: its ids, weights or inflated arrays do.
TEST_F(PromisedMemory, KeepsThePromiseWithWeightsTablesAndArchives) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  write_formats(folder_.path(), 100'000, 2'500'000);
  const auto path = [&](const std::string& name) { return (folder_ / name).string(); };
  const auto digest = [&](const std::string& parts) {
    const std::string text = run("info --json " + path(parts)).output;
    return text.substr(text.find("graph_digest"), 40);
  };
  for (const std::string& input :
       {"npy:" + path("set"), "npy:" + path("matrix.npz"), "csv:" + path("edges.csv") + ",weight=2",
        "ogb:" + path("set") + ",weight=0", "graphbolt:" + path("set")}) {
    const auto build = [&](const std::string& output, const std::vector<std::string>& how) {
      std::vector<std::string> words{
          "build",    "--input",     input,  "--output",  path(output), "--force", "--direction",
          "directed", "--log-level", "warn", "--threads", "2",          "--parts", "4"};
      words.insert(words.end(), how.begin(), how.end());
      return run_measured(words);
    };
    const Usage promised = build("promised", {"--memory", "80MiB"}),
                whole = build("whole", {"--method", "range"});
    EXPECT_EQ(promised.exit_code, 0) << input;
    EXPECT_LT(promised.peak_bytes, 80 << 20) << input;
    EXPECT_EQ(whole.exit_code, 0) << input;
    EXPECT_GT(whole.peak_bytes, 80 << 20) << input << " needs no promise";
    EXPECT_EQ(digest("promised"), digest("whole")) << input;
    EXPECT_EQ(run("verify " + path("promised")).exit_code, 0) << input;
    EXPECT_THAT(run("info " + path("promised")).output, ContainsRegex("edge weights +f32")) << input;
  }
}

// Each node has one edge, or none, so that nodes take more than edges: the number of them counts, wherever it
// comes from. In memory these inputs would take 1.3 to 2.8 times what is promised.
TEST_F(PromisedMemory, CountsNodesThatAreMoreThanEdges) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  constexpr Count kEdges = 300'000;
  std::ofstream list{folder_ / "pairs.csv"};
  std::vector<std::int64_t> ids;
  for (const Count end : {0, 1})
    for (Count e = 0; e < kEdges; ++e) ids.push_back(2 * e + end);
  for (Count e = 0; e < kEdges; ++e) list << 2 * e << ',' << 2 * e + 1 << '\n';
  list.close();
  const auto write_pairs = [&](const std::string& name, Count edges) {
    fs::create_directory(folder_ / name);
    std::ofstream file{folder_ / name / "edge_index.npy", std::ios::binary};
    file << npy_header("<i8", 2, edges);
    for (const Count first : {Count{0}, kEdges})
      file.write(reinterpret_cast<const char*>(ids.data() + first), edges * 8);
  };
  write_pairs("pairs", kEdges);
  write_pairs("few", 1000);
  constexpr std::int64_t kNodes[] = {600'000};
  std::ofstream{folder_ / "few/num_nodes.npy", std::ios::binary}
      << npy_header("<i8", 1, 1) << std::string(reinterpret_cast<const char*>(kNodes), 8);
  const auto path = [&](const std::string& name) { return (folder_ / name).string(); };
  for (const std::string& input : {"csv:" + path("pairs.csv"), "npy:" + path("pairs"), "npy:" + path("few"),
                                   "csv:" + path("pairs.csv") + ",nodes=600000"}) {
    const Outcome refused = run("build --force --direction directed --parts 2 --memory 64MiB --input " +
                                input + " --output " + out());
    EXPECT_EQ(refused.exit_code, 3) << refused.output;
    EXPECT_THAT(refused.output, AllOf(HasSubstr("600,000 nodes"), HasSubstr("Give --memory 105.2 MiB")));
    std::vector<std::string> words{"build", "--direction", "directed", "--parts", "2",        "--threads",
                                   "2",     "--input",     input,      "--force", "--output", out()};
    const auto peak = [&](const std::string& memory, int exit_code) {
      std::vector<std::string> all = words;
      all.insert(all.end(), {"--log-level", "warn", "--memory", memory});
      const Usage usage = run_measured(all);
      EXPECT_EQ(usage.exit_code, exit_code) << input;
      return usage.peak_bytes;
    };
    EXPECT_LT(peak("64MiB", 3), 64 << 20) << input;
    EXPECT_LT(peak("106MiB", 0), 106 << 20) << input;
  }
}

// The features alone are larger than the promise, with a header of NumPy and without.
TEST_F(PromisedMemory, CountsTheFeaturesOfIgb) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  constexpr Count kNodes = 30'000, kCols = 1024;
  fs::create_directories(folder_ / "igb/processed/paper");
  const fs::path features = folder_ / "igb/processed/paper/node_feat.npy";
  write_edges(folder_ / "igb/processed/paper__cites__paper", kNodes, 100'000);
  std::ofstream{folder_ / "igb/processed/paper/node_label_19.npy", std::ios::binary}
      << std::string(kNodes * 4, '\0');
  for (const bool header : {false, true}) {
    std::ofstream{features, std::ios::binary} << (header ? npy_header("<f4", kNodes, kCols) : "");
    fs::resize_file(features, (header ? 128 : 0) + kNodes * kCols * 4);
    for (std::vector<std::string> words :
         std::vector<std::vector<std::string>>{{"info", "igb:" + (folder_ / "igb").string()},
                                               {"build", "--input", "igb:" + (folder_ / "igb").string(),
                                                "--parts", "2", "--force", "--output", out()}}) {
      words.insert(words.end(), {"--memory", "96MiB", "--threads", "2", "--log-level", "warn"});
      const Usage usage = run_measured(words);
      EXPECT_EQ(usage.exit_code, 0) << words[0];
      EXPECT_LT(usage.peak_bytes, 96 << 20) << words[0];
    }
  }
}

// Few names fit beside the edges; where all are different, they do not.
TEST_F(PromisedMemory, CountsTheNamesOfNodes) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  const std::string file = (folder_ / "names.csv").string(), input = "csv:" + file + ",ids=string";
  const auto write = [&](Count edges, std::uint64_t names) {
    std::ofstream out{file};
    const auto name = [&](Count i) {
      return "a-name-of-a-node-" + std::to_string(mix64(static_cast<std::uint64_t>(i)) % names);
    };
    for (Count e = 0; e < edges; ++e) out << name(2 * e) << ',' << name(2 * e + 1) << '\n';
  };
  const std::vector<std::string> words{"build",       "--input",  input,      "--parts",     "2",
                                       "--direction", "directed", "--memory", "88MiB",       "--threads",
                                       "2",           "--output", out(),      "--log-level", "warn"};
  write(1'000'000, 20'000);
  const Usage usage = run_measured(words);
  EXPECT_EQ(usage.exit_code, 0);
  EXPECT_LT(usage.peak_bytes, 88 << 20);
  fs::remove_all(out());
  fs::remove(out() + ".ids.txt");
  write(400'000, std::uint64_t{1} << 62);
  const Usage refused = run_measured(words);
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_LT(refused.peak_bytes, 88 << 20);
}

}  // namespace
}  // namespace strata::partition
