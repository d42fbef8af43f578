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

  /// The largest id + 1, or what was stated. Throws InputError if that is too small, or if ids would make a
  /// graph of nearly only missing nodes, with the remedy for that.
  Count count_nodes(std::optional<Count> stated, const char* remedy) const;

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

/// The edges of a CSV file of two columns. `expected` says how many rows there are, if that is known.
EdgeBuffer read_csv_edges(const std::filesystem::path& path, CsvExpectation expected, ThreadPool& pool,
                          ScratchStore* scratch);

}  // namespace strata::graph
