// SPDX-License-Identifier: Apache-2.0
#include "evaluation/logits_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::train {
namespace {

namespace fs = std::filesystem;

/// A file that gets its name when it is complete.
class Output {
 public:
  explicit Output(const std::string& path)
      : path_(path), temporary_(make_temporary_beside(path)), file_(std::fopen(temporary_.c_str(), "wb")) {
    if (file_ == nullptr) fail("open");
  }
  ~Output() {
    if (file_ != nullptr) std::fclose(file_);
    std::error_code ignored;
    fs::remove(temporary_, ignored);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail("write");
  }
  void close() {
    std::FILE* const file = std::exchange(file_, nullptr);
    if (std::fclose(file) != 0) fail("write");
    sync_to_disk(temporary_);
    fs::rename(temporary_, path_);
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw IoError(fmt::format("cannot {} {}: {}", what, path_, std::strerror(errno)), file_remedy(errno));
  }

  std::string path_;
  fs::path temporary_;
  std::FILE* file_;
};

std::string csv_row(NodeId node, const float* logits, Count cols) {
  std::string row = std::to_string(node);
  for (Count c = 0; c < cols; ++c) row += fmt::format(",{}", logits[c]);
  return row + '\n';
}

template <typename Id>
std::vector<NodeId> ids_of(const graph::NpyArray& array) {
  const auto* ids = reinterpret_cast<const Id*>(array.data);
  return {ids, ids + array.size()};
}

}  // namespace

bool is_csv(const std::string& path) { return path.ends_with(".csv"); }

std::string path_of_all_logits(const std::string& path, bool selects) {
  return selects || is_csv(path) ? path + ".all" : path;
}

void finish_logits(const std::string& all, const std::string& path,
                   const std::optional<std::vector<NodeId>>& nodes, const char* column) {
  if (all == path) return;
  {
    const graph::NpyArray logits = graph::read_npy(all);
    const Count cols = logits.shape[1], rows = nodes ? std::ssize(*nodes) : logits.shape[0];
    const auto* values = reinterpret_cast<const float*>(logits.data);
    const bool text = is_csv(path);
    Output output(path);
    if (text) {
      std::string header = "node";
      for (Count c = 0; c < cols; ++c) header += fmt::format(",{}{}", column, c);
      output.write(header + '\n');
    } else {
      output.write(graph::npy_header(DType::f32, {rows, cols}));
    }
    for (Count i = 0; i < rows; ++i) {
      const NodeId node = nodes ? (*nodes)[at(i)] : i;
      const float* row = values + node * cols;
      if (text)
        output.write(csv_row(node, row, cols));
      else
        output.write({reinterpret_cast<const char*>(row), at(cols) * sizeof(float)});
    }
    output.close();
  }
  fs::remove(all);
}

std::vector<NodeId> read_node_ids(const char* option, const std::string& path, Count num_nodes) {
  const graph::NpyArray array = graph::read_npy(path);
  const auto refuse = [&](const std::string& what, const char* remedy) {
    throw InputError(fmt::format("{} {}: {}", option, path, what), remedy);
  };
  if (array.shape.size() != 1)
    refuse(fmt::format("the array has the shape {}", array.shape_text()),
           "Give a list of ids, of shape (N,).");
  std::vector<NodeId> ids;
  if (array.is('b', 1)) {
    if (array.shape[0] != num_nodes)
      refuse(fmt::format("the mask has {} entries, and the graph {} nodes", array.shape[0], num_nodes),
             "Give an entry per node, or ids.");
    for (NodeId node = 0; node < num_nodes; ++node)
      if (array.data[node] != std::byte{0}) ids.push_back(node);
  } else if (array.is('i', 8) || array.is('u', 8))
    ids = ids_of<std::int64_t>(array);
  else if (array.is('i', 4))
    ids = ids_of<std::int32_t>(array);
  else if (array.is('u', 4))
    ids = ids_of<std::uint32_t>(array);
  else
    refuse(fmt::format("the numbers are {}", array.type_name()),
           "Give ids as int64 or int32, or a mask as bool.");
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= num_nodes)
      refuse(fmt::format("entry {} is {}, but nodes are 0 to {}", i, ids[i], num_nodes - 1),
             "Ids are those of the input from which the parts were built.");
  return ids;
}

}  // namespace strata::train
