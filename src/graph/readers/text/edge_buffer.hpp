// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "build_csc.hpp"
#include "readers/csv.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// Edges as they are read: pairs of 32 bits per id while all ids fit, then of 64. An owner.
class EdgeBuffer {
 public:
  /// With `scratch`, which must outlive the buffer, the edges lie in scratch files.
  explicit EdgeBuffer(std::string origin, ScratchStore* scratch = nullptr);

  /// Appends (source, destination) pairs. `share_read` is how much of the input they and all before them are;
  /// memory for the rest is reserved by it. Throws OutOfMemory in time.
  void append(std::span<const NodeId> pairs, double share_read);

  Count size() const { return num_ids_ / 2; }
  NodeId largest() const { return largest_; }  ///< -1 if there is no edge
  EdgeList list();                             ///< nothing can be appended then

  /// The largest id + 1, or what the source states. Throws InputError if that is too small, or if ids would
  /// make a graph of nearly only missing nodes, with the remedy for that.
  Count count_nodes(const DatasetSource& source, const char* remedy) const;

  /// Replaces every id by map[id].
  void renumber(std::span<const NodeId> map, ThreadPool& pool);

 private:
  void make_room(std::size_t more, double share_read);
  void widen();
  void close_files();

  std::string origin_;
  std::vector<std::int32_t> narrow_ids_;
  std::vector<std::int64_t> wide_ids_;
  ScratchStore* scratch_;
  std::optional<ScratchWriter<std::int32_t>> narrow_file_;
  std::optional<ScratchWriter<std::int64_t>> wide_file_;
  ScratchArray<std::int32_t> narrow_stored_;
  ScratchArray<std::int64_t> wide_stored_;
  Count num_ids_ = 0;
  bool wide_ = false;
  NodeId largest_ = -1;
};

/// The number of nodes of a list with ids up to `largest`, where the source states one: by nodes=, or by the
/// rows of a file. Throws InputError if that is too small; `origin` has the edges.
Count agree_on_nodes(const DatasetSource& source, NodeId largest, const std::string& origin);

/// The edges of a table of two columns, or of the two that names say. `expected` says how many rows there
/// are, if that is known.
EdgeBuffer read_csv_edges(const std::filesystem::path& path, CsvExpectation expected, ThreadPool& pool,
                          ScratchStore* scratch);

}  // namespace strata::graph
