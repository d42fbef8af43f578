// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/dataset_path.hpp"
#include "readers/edge_weights.hpp"
#include "readers/node_files.hpp"
#include "readers/text/edge_buffer.hpp"
#include "readers/text/fields.hpp"
#include "readers/text/line_blocks.hpp"
#include "readers/typed_graph.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The files of one array; each holds a chunk of the rows.
struct Chunks {
  std::string format;
  std::string delimiter = " ";
  std::vector<fs::path> files;
};

class DglChunkedReader {
 public:
  DglChunkedReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : source_(source),
        folder_(source.place),
        file_(folder_ / "metadata.json"),
        options_(options),
        pool_(assembly.pool),
        assembly_(assembly) {}

  Graph read() {
    load();
    parts_.name = text_or(root_, "graph_name", fs::weakly_canonical(folder_).filename().string());
    const std::vector<std::string> types = types_of("node_type"), relations = types_of("edge_type");
    several_ = types.size() > 1 || relations.size() > 1;
    const std::vector<Count> nodes = counts_of_chunks("num_nodes_per_chunk", types.size()),
                             edges = counts_of_chunks("num_edges_per_chunk", relations.size());
    for (std::size_t t = 0; t < types.size(); ++t) read_nodes(types[t], nodes[t]);
    for (std::size_t r = 0; r < relations.size(); ++r) read_edges(relations[r], edges[r]);
    if (source_.reverse) add_reverses(parts_);
    assembly_.targets = choose_targets(parts_.nodes, labelled_, source_.target, file_.string());
    Graph graph = join_types(std::move(parts_), options_, assembly_);
    for (const std::size_t target : assembly_.targets) put_nodes(std::move(about_[target]), target, graph);
    return graph;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& remedy) const {
    throw InputError(fmt::format("{}: {}", file_.string(), what), remedy);
  }

  void load() {
    std::error_code code;
    if (!fs::is_regular_file(file_, code))
      throw InputError(fmt::format("{}: no such file", file_.string()),
                       "Give the folder of DGL's chunked graph format, which holds metadata.json.");
    constexpr std::uintmax_t kMostBytes = 64u << 20;
    if (fs::file_size(file_, code) > kMostBytes)
      refuse("more than 64 MiB", "It describes the files of a graph.");
    const std::string text = read_file(file_);
    refuse_compressed(text, file_.string());
    require_utf8(text, file_.string());
    // The depth is bounded, because the parser frees nested values by recursion.
    const auto depth = [](int level, Json::parse_event_t event, Json&) {
      constexpr int kMostDepth = 32;
      if (level > kMostDepth && event != Json::parse_event_t::object_end &&
          event != Json::parse_event_t::array_end)
        throw InputError("values are nested too deeply");
      return true;
    };
    try {
      root_ = Json::parse(text, depth);
    } catch (const Json::exception& error) {
      refuse(printable(error.what()), "Correct the file.");
    } catch (const InputError& error) {
      refuse(error.what(), "Correct the file.");
    }
    if (!root_.is_object()) refuse("not an object", "See DGL's chunked graph format.");
  }

  const Json& require(const Json& at, const char* field) const {
    if (!at.is_object() || !at.contains(field))
      refuse(fmt::format("no field '{}'", field), "See DGL's chunked graph format.");
    return at.at(field);
  }
  static std::string text_or(const Json& at, const char* field, const std::string& fallback) {
    return at.contains(field) && at.at(field).is_string() ? at.at(field).get<std::string>() : fallback;
  }

  std::vector<std::string> types_of(const char* field) const {
    const Json& types = require(root_, field);
    if (!types.is_array() || types.empty() ||
        !std::ranges::all_of(types, [](const Json& type) { return type.is_string(); }))
      refuse(fmt::format("'{}' is not a list of types", field), "See DGL's chunked graph format.");
    return types.get<std::vector<std::string>>();
  }

  /// The rows of all chunks of each type.
  std::vector<Count> counts_of_chunks(const char* field, std::size_t types) const {
    const Json& counts = require(root_, field);
    if (!counts.is_array() || counts.size() != types ||
        !std::ranges::all_of(counts, [](const Json& of_type) { return of_type.is_array(); }))
      refuse(fmt::format("'{}' is not a list of {}", field, counted(static_cast<Count>(types), "list")),
             "Write a list of the sizes of the chunks of each type.");
    std::vector<Count> sums;
    for (const Json& of_type : counts) {
      Count& sum = sums.emplace_back(0);
      for (const Json& count : of_type) {
        if (!count.is_number_unsigned() || count.get<std::uint64_t>() > (std::uint64_t{1} << 48))
          refuse(fmt::format("'{}' holds {}", field, printable(count.dump().substr(0, 40))),
                 "Write numbers of rows.");
        sum += count.get<Count>();
      }
    }
    return sums;
  }

  Chunks chunks_of(const Json& entry, const std::string& what) const {
    const Json& format = require(entry, "format");
    const Json& data = require(entry, "data");
    if (!data.is_array() || !std::ranges::all_of(data, [](const Json& path) { return path.is_string(); }))
      refuse(fmt::format("'data' of {} is not a list of files", what), "Write one path per chunk.");
    Chunks chunks{.format = text_or(format, "name", ""), .files = {}};
    if (chunks.format != "csv" && chunks.format != "numpy")
      refuse(fmt::format("the format of {} is '{}'", what, printable(chunks.format.substr(0, 40))),
             "Formats are csv and numpy; parquet is not read.");
    chunks.delimiter = text_or(format, "delimiter", " ");
    if (chunks.delimiter.size() != 1)
      refuse(fmt::format("the delimiter of {} is not one character", what), "Correct it.");
    for (const Json& path : data) chunks.files.push_back(checked(path.get<std::string>()));
    return chunks;
  }

  fs::path checked(const std::string& text) const {
    if (const auto path = path_in_dataset(folder_, text, options_.allow_outside_paths)) return *path;
    refuse(fmt::format("path '{}' leads out of the dataset's folder", printable(text)),
           "Move the file into the folder, or trust the file with --allow-outside-paths.");
  }

  void read_edges(const std::string& type, Count stated) {
    const Json& of_types = require(root_, "edges");
    const Chunks chunks = chunks_of(require(of_types, type.c_str()), "the edges");
    EdgeBuffer buffer(several_ ? fmt::format("{}: {}", file_.string(), printable(type)) : file_.string(),
                      assembly_.scratch);
    for (std::size_t i = 0; i < chunks.files.size(); ++i) {
      const double share = static_cast<double>(i + 1) / static_cast<double>(chunks.files.size());
      if (chunks.format == "csv")
        read_pairs(chunks.files[i], chunks.delimiter, buffer);
      else
        append_array(chunks.files[i], buffer, share);
    }
    if (buffer.size() != stated)
      refuse(fmt::format("{} edges in the files, but {} are stated", buffer.size(), stated),
             "Copy the files again.");
    TypedParts::Edges edges =
        edges_between(several_ ? parse_relation(type, ":", file_.string()) : EdgeType{}, std::move(buffer));
    read_weights(type, edges);
    parts_.edges.push_back(std::move(edges));
  }

  void read_pairs(const fs::path& path, const std::string& delimiter, EdgeBuffer& edges) {
    LineBlocks blocks(path, block_bytes_within(assembly_.scratch, pool_));
    const std::string name = path.string();
    parse_blocks<std::vector<NodeId>>(
        blocks, pool_,
        [&](const Block& block, std::vector<NodeId>& pairs) {
          Lines lines(block.text);
          Count number = block.line;
          for (std::string_view line; lines.next(line); ++number) {
            const Place place{name, number, line.data(),
                              block.offset + static_cast<std::size_t>(line.data() - block.text.data())};
            FieldsOfLine fields(line, delimiter, place);
            for (int i = 0; i < 2; ++i) {
              const auto field = fields.next();
              if (!field) place.refuse("not a source and a destination");
              pairs.push_back(number_of<NodeId>(*field, place, "id"));
            }
            if (fields.next()) place.refuse("more than a source and a destination");
          }
        },
        [&](std::vector<NodeId>& pairs) { edges.append(pairs, blocks.share_read()); });
  }

  /// Arrays of edges have the shape (E, 2).
  void append_array(const fs::path& path, EdgeBuffer& edges, double share) const {
    constexpr Count kPiece = Count{1} << 16;
    const NpyArray array = read_npy(path);
    if (array.shape.size() != 2 || array.shape[1] != 2 || array.fortran_order)
      throw InputError(fmt::format("{}: edges of shape {}", array.origin, array.shape_text()),
                       "DGL's chunks have the shape (E, 2): a source and a destination per row.");
    NpyArray piece = array;
    for (Count first = 0; first < array.size(); first += kPiece) {
      piece.data = array.data + first * array.item_bytes;
      piece.shape = {std::min(kPiece, array.size() - first)};
      edges.append(ids_of(piece), share);
      if (assembly_.scratch != nullptr) assembly_.scratch->trim();
    }
  }

  /// The only chunk of an array, or all of them one after the other.
  NpyArray array_of(const Chunks& chunks) const {
    if (chunks.format != "numpy" || chunks.files.empty())
      refuse("data of nodes and edges in another format than numpy", "Save each chunk with numpy.save.");
    std::vector<NpyArray> parts;
    for (const fs::path& file : chunks.files) parts.push_back(read_npy(file));
    if (parts.size() == 1) return parts[0];
    NpyArray whole = parts[0];
    std::size_t bytes = 0;
    Count rows = 0;
    for (const NpyArray& part : parts) {
      const bool alike = part.is(whole.kind, whole.item_bytes) && part.shape.size() == whole.shape.size() &&
                         !part.shape.empty() && !part.fortran_order &&
                         std::equal(part.shape.begin() + 1, part.shape.end(), whole.shape.begin() + 1);
      if (!alike)
        throw InputError(fmt::format("{}: another type or shape than {}", part.origin, whole.origin),
                         "Write all chunks of an array alike, in C order.");
      rows += part.shape[0];
      bytes += static_cast<std::size_t>(part.size()) * static_cast<std::size_t>(part.item_bytes);
    }
    whole.shape[0] = rows;
    if (assembly_.scratch != nullptr) {
      ScratchWriter<std::byte> file(*assembly_.scratch);
      for_each_piece(parts, [&](std::span<const std::byte> piece) {
        file.append(piece);
        assembly_.scratch->trim();
      });
      const ScratchArray<std::byte> stored = std::move(file).finish();
      whole.data = stored.data();
      whole.keep_alive = stored.keep_alive();
      return whole;
    }
    const FeatureMemory memory = allocate_features(static_cast<Count>(bytes), 1, DType::u8);
    std::byte* at = memory.bytes;
    for_each_piece(parts, [&](std::span<const std::byte> piece) {
      std::memcpy(at, piece.data(), piece.size());
      at += piece.size();
    });
    whole.data = memory.bytes;
    whole.keep_alive = memory.table.keep_alive;
    return whole;
  }

  /// Calls take(bytes) for the contents of the arrays, one after the other.
  template <typename Take>
  static void for_each_piece(const std::vector<NpyArray>& parts, Take&& take) {
    constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
    for (const NpyArray& part : parts) {
      const std::size_t size =
          static_cast<std::size_t>(part.size()) * static_cast<std::size_t>(part.item_bytes);
      for (std::size_t first = 0; first < size; first += kPieceBytes)
        take(std::span(part.data + first, std::min(kPieceBytes, size - first)));
    }
  }

  /// Calls take(name, array) for the fields of a type; a field that it refuses is named.
  template <typename Take>
  void for_each_field(const char* field, const std::string& type, Take&& take) {
    if (!root_.contains(field) || !root_.at(field).is_object() || !root_.at(field).contains(type)) return;
    const Json& fields = root_.at(field).at(type);
    if (!fields.is_object()) refuse(fmt::format("'{}' is not an object of fields", field), "Correct it.");
    for (const auto& [name, entry] : fields.items())
      if (!take(name, entry)) spdlog::warn("{}: {} '{}' is not read", file_.string(), field, printable(name));
  }

  void read_weights(const std::string& type, TypedParts::Edges& edges) {
    for_each_field("edge_data", type, [&](const std::string& name, const Json& entry) {
      if (name != "weight") return false;
      const NpyArray array = array_of(chunks_of(entry, name));
      give_weights(edges, edge_weights_of(array, assembly_.scratch), array.origin);
      return true;
    });
  }

  void read_nodes(const std::string& type, Count count) {
    Graph& nodes = about_.emplace_back();
    nodes.structure.num_nodes = count;
    read_node_data(type, nodes);
    if (!nodes.labels.empty() || !nodes.splits.train.empty() || !nodes.splits.valid.empty() ||
        !nodes.splits.test.empty())
      labelled_.push_back(parts_.nodes.size());
    parts_.nodes.push_back({.type = type, .count = count, .features = nodes.features});
  }

  void read_node_data(const std::string& type, Graph& nodes) {
    for_each_field("node_data", type, [&](const std::string& name, const Json& entry) {
      if (name == "feat") {
        nodes.features =
            features_of(array_of(chunks_of(entry, name)), nodes.num_nodes(), pool_, assembly_.scratch);
      } else if (name == "label" || name == "labels") {
        take_labels(labels_of(array_of(chunks_of(entry, name))), nodes);
      } else if (name == "train_mask" || name == "val_mask" || name == "test_mask") {
        std::vector<NodeId>& split = name == "train_mask" ? nodes.splits.train
                                     : name == "val_mask" ? nodes.splits.valid
                                                          : nodes.splits.test;
        split = nodes_of_mask(array_of(chunks_of(entry, name)), nodes.num_nodes());
      } else {
        return false;
      }
      return true;
    });
  }

  void take_labels(NodeLabels labels, Graph& nodes) const {
    if (labels.rows != nodes.num_nodes())
      refuse(fmt::format("{} labels for {} nodes", labels.rows, nodes.num_nodes()),
             "Write one label per node.");
    nodes.labels = std::move(labels.values);
    nodes.multi_label = labels.set_of > 0;
    nodes.num_classes = labels.set_of;
  }

  const DatasetSource& source_;
  fs::path folder_, file_;
  const ReadOptions& options_;
  ThreadPool& pool_;
  Assembly& assembly_;
  Json root_;
  bool several_ = false;
  TypedParts parts_;
  std::vector<Graph> about_;           ///< features, labels and splits of each type
  std::vector<std::size_t> labelled_;  ///< types with labels or splits
};

}  // namespace

Graph read_dgl_chunked(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return DglChunkedReader(source, options, assembly).read();
}

}  // namespace strata::graph
