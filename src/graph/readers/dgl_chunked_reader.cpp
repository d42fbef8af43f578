// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
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
      : folder_(source.place),
        file_(folder_ / "metadata.json"),
        options_(options),
        pool_(assembly.pool),
        assembly_(assembly) {}

  Graph read() {
    load();
    graph_.name = text_or(root_, "graph_name", fs::weakly_canonical(folder_).filename().string());
    const std::string node_type = only_type("node_type"), edge_type = only_type("edge_type");
    num_nodes_ = count_of_chunks("num_nodes_per_chunk");
    read_edges(edge_type);
    read_node_data(node_type);
    return std::move(graph_);
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

  std::string only_type(const char* field) const {
    const Json& types = require(root_, field);
    if (!types.is_array() || types.size() != 1 || !types[0].is_string())
      refuse(fmt::format("'{}' does not name one type", field),
             "Only graphs of one node type and one edge type are supported.");
    return types[0].get<std::string>();
  }

  Count count_of_chunks(const char* field) const {
    const Json& counts = require(root_, field);
    if (!counts.is_array() || counts.size() != 1 || !counts[0].is_array())
      refuse(fmt::format("'{}' is not a list of one list", field),
             "Write the sizes of the chunks of the only type.");
    Count sum = 0;
    for (const Json& count : counts[0]) {
      if (!count.is_number_unsigned() || count.get<std::uint64_t>() > (std::uint64_t{1} << 48))
        refuse(fmt::format("'{}' holds {}", field, printable(count.dump().substr(0, 40))),
               "Write numbers of rows.");
      sum += count.get<Count>();
    }
    return sum;
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

  void read_edges(const std::string& type) {
    const Json& of_types = require(root_, "edges");
    const Chunks chunks = chunks_of(require(of_types, type.c_str()), "the edges");
    EdgeBuffer edges(file_.string(), assembly_.scratch);
    for (std::size_t i = 0; i < chunks.files.size(); ++i) {
      const double share = static_cast<double>(i + 1) / static_cast<double>(chunks.files.size());
      if (chunks.format == "csv")
        read_pairs(chunks.files[i], chunks.delimiter, edges);
      else
        append_array(chunks.files[i], edges, share);
    }
    const Count stated = count_of_chunks("num_edges_per_chunk");
    if (edges.size() != stated)
      refuse(fmt::format("{} edges in the files, but {} are stated", edges.size(), stated),
             "Copy the files again.");
    EdgeList list = edges.list();
    const std::optional<EdgeWeights> weights = read_weights(type, list);
    build_structure(graph_, num_nodes_, list, options_,
                    options_.direction == ReadOptions::Direction::undirected, assembly_);
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

  /// The owner of the weights that the edges then have.
  std::optional<EdgeWeights> read_weights(const std::string& type, EdgeList& edges) {
    std::optional<EdgeWeights> weights;
    for_each_field("edge_data", type, [&](const std::string& name, const Json& entry) {
      if (name != "weight") return false;
      const NpyArray array = array_of(chunks_of(entry, name));
      weights.emplace(edge_weights_of(array, assembly_.scratch));
      weights->give_to(edges, array.origin);
      return true;
    });
    return weights;
  }

  void read_node_data(const std::string& type) {
    for_each_field("node_data", type, [&](const std::string& name, const Json& entry) {
      if (name == "feat") {
        graph_.features = features_of(array_of(chunks_of(entry, name)), num_nodes_, pool_, assembly_.scratch);
      } else if (name == "label" || name == "labels") {
        take_labels(labels_of(array_of(chunks_of(entry, name))));
      } else if (name == "train_mask" || name == "val_mask" || name == "test_mask") {
        std::vector<NodeId>& split = name == "train_mask" ? graph_.splits.train
                                     : name == "val_mask" ? graph_.splits.valid
                                                          : graph_.splits.test;
        split = nodes_of_mask(array_of(chunks_of(entry, name)), num_nodes_);
      } else {
        return false;
      }
      return true;
    });
  }

  void take_labels(NodeLabels labels) {
    if (labels.rows != num_nodes_)
      refuse(fmt::format("{} labels for {} nodes", labels.rows, num_nodes_), "Write one label per node.");
    graph_.labels = std::move(labels.values);
    graph_.multi_label = labels.set_of > 0;
    graph_.num_classes = labels.set_of;
  }

  fs::path folder_, file_;
  const ReadOptions& options_;
  ThreadPool& pool_;
  Assembly& assembly_;
  Json root_;
  Count num_nodes_ = 0;
  Graph graph_;
};

}  // namespace

Graph read_dgl_chunked(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return DglChunkedReader(source, options, assembly).read();
}

}  // namespace strata::graph
