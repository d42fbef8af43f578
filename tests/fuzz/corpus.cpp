// SPDX-License-Identifier: Apache-2.0
// usage: fuzz_corpus DIR: writes DIR/TARGET/NAME, sound files of all kinds for the fuzzers to begin with.
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "sound_files.hpp"
#include "strata/graph/manifest_file.hpp"
#include "support/dataset_files.hpp"

using namespace strata::fuzz;
using strata::test::npy_bytes;
using strata::test::read_bytes;
using strata::test::write_gzip;
using strata::test::write_text;
using strata::test::ZipMember;
using strata::test::ZipWriter;

namespace {

namespace fs = std::filesystem;

struct NamedBytes {
  const char* name;
  std::string bytes;
};

std::vector<NamedBytes> arrays() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::string second = npy_bytes<std::int16_t>("<i2", "(2, 2)", {1, 2, 3, 4}, true);
  second[6] = 2;
  second.insert(10, 2, '\0');  // a length of four bytes
  return {{"edges", npy_bytes<std::int64_t>("<i8", "(2, 3)", {0, 1, 3, 1, 2, 2})},
          {"pairs", npy_bytes<std::int32_t>("<i4", "(3, 2)", {0, 1, 1, 2, 3, 2})},
          {"narrow_edges", npy_bytes<std::uint8_t>("|u1", "(2, 3)", {0, 1, 3, 1, 2, 2}, true)},
          {"ids", npy_bytes<std::uint64_t>("<u8", "(3,)", {0, 5, 63})},
          {"labels", npy_bytes<float>("<f4", "(3, 1)", {0, 2, kNan})},
          {"sets", npy_bytes<std::uint8_t>("|b1", "(2, 3)", {0, 1, 1, 0, 0, 0})},
          {"features", npy_bytes<double>("<f8", "(2, 2)", {1, 2, 3, 1e300})},
          {"half", npy_bytes<std::uint16_t>("<f2", "(2, 2)", {0x3c00, 0xc000, 0x3800, 0})},
          {"scalar", npy_bytes<std::int64_t>("<i8", "()", {4})},
          {"empty", npy_bytes<std::int64_t>("<i8", "(0,)", {})},
          {"version2", second}};
}

void write_arrays(const fs::path& folder) {
  for (const NamedBytes& array : arrays()) write_text(folder / array.name, array.bytes);
}

void write_archives(const fs::path& folder) {
  for (const bool deflated : {false, true}) {
    for (const bool zip64 : {false, true}) {
      ZipWriter zip;
      for (const NamedBytes& array : arrays())
        zip.add({.name = std::string(array.name) + ".npy",
                 .contents = array.bytes,
                 .deflated = deflated,
                 .zip64 = zip64});
      const std::string name = std::string(deflated ? "deflated" : "stored") + (zip64 ? "64" : "");
      write_text(folder / name, zip.finish(zip64));
      ZipWriter small;
      small.add({.name = "x.npy", .contents = arrays()[0].bytes, .deflated = deflated, .zip64 = zip64});
      write_text(folder / ("small_" + name), small.finish(zip64));
    }
  }
}

void write_tables(const fs::path& folder) {
  const std::vector<NamedBytes> tables = {{"edges", "0,1\n1,2\n3,2\n"},
                                          {"header", "src,dst\r\n0,1\r\n1,2\r\n"},
                                          {"mark",
                                           "\xEF\xBB\xBF"
                                           "0,1\n1,2\n"},
                                          {"floats", "1,0.5\n-2,nan\n+inf,1e-3\n"},
                                          {"labels", "0\n2\n\n1\n"},
                                          {"ids", "id;label;text\r2;\"1\";\"a;\"\"b\"\r0;NA;\r1;0;c\r"},
                                          {"index", ",x,train_mask\n1,\"0.5\",1\n0,2,0\n\n"},
                                          {"large", "99999999999999999999,1\n"},
                                          {"latin1", "1,\xe9\n"},
                                          {"sets", "0,1,0\n1,1,1\nnan,nan,nan\n"}};
  for (const NamedBytes& table : tables) {
    for (const char choice : {'\0', '\1', '\2', '\x26', '\x33', '\x3b'}) {
      const std::string name = table.name + std::to_string(choice);
      write_text(folder / name, choice + table.bytes);
      write_gzip(folder / (name + ".gz"), table.bytes);
      write_text(folder / (name + ".gz"), choice + read_bytes(folder / (name + ".gz")));
    }
  }
}

void write_metadata(const fs::path& folder) {
  const std::string all = kGraphboltMetadata;
  write_text(folder / "all", all);
  write_text(folder / "mark", "\xEF\xBB\xBF" + all);
  write_text(
      folder / "flow",
      R"({graph: {nodes: [{num: 4}], edges: [{format: csv, path: "../edges.csv"}]}, tasks: [{name: a, extra: 1}]})");
  write_text(folder / "anchors", "a: &a [1, 2]\nb: *a\ngraph: {nodes: [&n {num: 0x4}], edges: [*n]}\n");
  write_text(folder / "documents", "---\n" + all + "...\n---\nsecond: !!str |\n  text\n");
}

void write_igb_files(const fs::path& sound, const fs::path& folder) {
  write_igb(sound);
  for (std::size_t i = 0; i < kIgbFiles.size(); ++i)
    write_text(folder / std::to_string(i), static_cast<char>(i) + read_bytes(sound / kIgbFiles[i]));
  constexpr std::size_t kRowBytes = 1024 * sizeof(float);  // the large sets have no header
  write_text(folder / "bare_features", '\0' + std::string(3 * kRowBytes, '\x3f'));
  write_text(folder / "bare_labels", '\1' + std::string(3 * sizeof(float), '\0'));
}

void write_dgl_edges(const fs::path& folder) {
  write_text(folder / "numpy", '\0' + npy_bytes<std::int64_t>("<i8", "(2, 2)", {0, 1, 3, 2}));
  write_text(folder / "narrow", '\0' + npy_bytes<std::uint16_t>("<u2", "(2, 2)", {0, 1, 3, 2}));
  write_text(folder / "blanks",
             "\x01"
             "0 1\n3 2\n");
  write_text(folder / "commas",
             "\x02"
             "0,\"1\"\r\n3,2\r\n");
}

void write_text_graphs(const fs::path& folder) {
  const std::vector<NamedBytes> graphs = {
      {"metis", std::string(1, '\0') + "% c\n4 3\n2 3\n1 3\n1 2\n\n"},
      {"metis_weights", std::string(1, '\0') + "3 2 111 2\n1 4 4 2 5\n1 4 4 1 5 3 7\n1 4 4 2 7\n"},
      {"metis_node_weights", std::string(1, '\0') + "3 1 11 2\n1 4 2 5\n1 4 1 5\n1 4\n\n"},
      {"mtx", "\x01%%MatrixMarket matrix coordinate pattern symmetric\n% c\n3 3 2\n2 1\n3 2\n"},
      {"mtx_real", "\x02%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 0.5\n3 2 -2\n"},
      {"csv",
       "\x03"
       "from,to\n0,1\n2,\"1\"\n"},
      {"sparse",
       "\x04"
       "7 -3 0.5\n-3 12 1e3\n"},
      {"string",
       "\x05"
       "Ann,\"Bob, C\"\r\nBob,Ann\n"},
      {"columns",
       "\x06"
       "1;2;a;b\n1;2;b;c\n"},
      {"snap", "\x07# Undirected graph\n# Nodes: 3 Edges: 2\n0\t1\n1  2\n"},
      {"konect", "\x03% asym positive\n% 2 3 3\n0 1 5\r1 2 1\r"},
      {"names", "\x03# eid dst src\n0 1 2\n1 2 0\n"}};
  for (const NamedBytes& graph : graphs) {
    write_text(folder / graph.name, graph.bytes);
    write_gzip(folder / "packed", graph.bytes.substr(1));
    write_text(folder / (std::string(graph.name) + ".gz"),
               graph.bytes.substr(0, 1) + read_bytes(folder / "packed"));
  }
  fs::remove(folder / "packed");
}

void write_triple_texts(const fs::path& sound, const fs::path& folder) {
  const std::string lines = "# a\n<a> <p> <b> .\n_:c\t<p> \"d \\\"e\\\"\"@en . # f\n<b> <q> \"1\"^^<t>.\n\n";
  for (const char choice : {'\0', '\1'}) write_text(folder / ("nt" + std::to_string(choice)), choice + lines);
  write_text(folder / "names",
             "\x02"
             "Ann\tlikes\tBob\nBob\tworks at\tA B\n");
  write_text(folder / "table",
             "\x03"
             "id\tlabel\na\tred\n");
  write_triples(sound);
  for (std::size_t i = 0; i < kTripleFiles.size(); ++i)
    write_text(folder / kTripleFiles[i], static_cast<char>(4 + i) + read_bytes(sound / kTripleFiles[i]));
}

void write_sources(const fs::path& folder) {
  const char* const texts[] = {"parts",
                               "ogb:a/b,split=time,weight=2",
                               "graphbolt:x,task=y",
                               "npy:d,nodes=5",
                               "metis:f.graph.gz",
                               "csv:f.csv,ids=string,source=1,target=2,weight=3,separator=bar,header=yes",
                               "synthetic:kind=grid,nodes=64,width=8,weights=uniform",
                               "synthetic:products,nodes=1000",
                               "planted:parts=4,within=0.5,nodes=100",
                               "igb:tiny,classes=2983",
                               "mtx:m.mtx,values=ignore",
                               "nt:g.nt,literals,reverse,train=a.tsv,id=person,label=group",
                               "npy:d,target=paper,reverse",
                               "synthetic:igbh,scale=0.1,cols=8,dtype=f32,seed=2"};
  for (std::size_t i = 0; i < std::size(texts); ++i) write_text(folder / std::to_string(i), texts[i]);
}

void write_configurations(const fs::path& folder) {
  write_text(folder / "flat",
             "model = \"sage\"\nfanouts = [15, 10, 5]\nepochs = 20\nlr = 0.003\nresume = true\n");
  write_text(folder / "tables",
             "# groups\n[model]\nhidden = 256\ndropout = 0.5\n[training]\nlr = 3e-3\nweight-decay = 0.0\n"
             "optimizer = 'adamw'\nprecision = \"bf16\"\n");
  write_text(folder / "odd",
             "hidden = 0x10\nlr = inf\nseed = 1_000\nname = \"\\u00e9\"\nwhen = 1979-05-27T07:32:00Z\n"
             "fanouts = [[1], {a = 2}]\n[[model]]\n");
}

std::string tensors(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
         std::string(data_bytes, '\1');
}

void write_tensors(const fs::path& folder) {
  write_text(
      folder / "two",
      tensors(R"({"__metadata__":{"epoch":"3"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
              R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]}})",
              30));
  write_text(folder / "empty", tensors(R"({"n":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}}    )", 0));
  write_text(folder / "scalar", tensors(R"({"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})", 8));
}

void write_manifests(const fs::path& partition, const fs::path& folder) {
  strata::graph::PartitionRecord record = strata::graph::read_partition_record(partition);
  write_text(folder / "one_part", strata::graph::format_manifest(record));
  record.parts.push_back(record.parts[0]);
  record.parts[1].file = "part-00001.h5";
  record.constraints[0].weights = {4, 4};
  record.manifest.book = strata::graph::PartitionBook{{0, 4, 8}};
  record.manifest.num_edges *= 2;
  record.manifest.multi_label = true;
  write_text(folder / "two_parts", strata::graph::format_manifest(record));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_corpus DIR\n");
    return 2;
  }
  const fs::path root = argv[1];
  write_arrays(root / "npy");
  write_archives(root / "npz");
  write_tables(root / "csv");
  write_metadata(root / "yaml");
  write_text(root / "dgl" / "all", kDglMetadata);
  write_dgl_edges(root / "dgl_edges");
  write_igb_files(root / "sound_igb", root / "igb");
  write_text_graphs(root / "text_graph");
  fs::create_directories(root / "sound_triples");
  write_triple_texts(root / "sound_triples", root / "triples");
  write_sources(root / "source");
  write_configurations(root / "toml");
  write_tensors(root / "safetensors");
  const fs::path partition = root / "partition";
  fs::remove_all(partition);
  fs::create_directories(partition);
  write_partition(partition);
  write_manifests(partition, root / "manifest");
  write_text(root / "part" / "small", read_bytes(partition / "part-00000.h5"));
}
