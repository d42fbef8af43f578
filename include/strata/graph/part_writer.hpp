// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "strata/graph/manifest_file.hpp"
#include "strata/graph/part_file.hpp"

namespace strata::graph {

/// The sizes that, with the manifest, fix the layout of one part file.
struct PartShape {
  int part = 0;
  Count num_edges = 0;
  Count num_train = 0, num_valid = 0, num_test = 0;  ///< split members among its inner nodes
};

/// One part file that is being written. It keeps no file open between calls.
///
/// HDF5 lays the file out once. Its room on disk is then reserved, so that a full disk shows at once, and
/// plain writes put the data into their places. Several threads may therefore call `write_*` at once, for
/// disjoint ranges in any order. All calls throw IoError naming the file.
class PartWriter {
 public:
  /// Creates part_path(directory, shape.part). `manifest` must be complete, except for what finish() reports.
  static PartWriter create(const std::filesystem::path& directory, const Manifest& manifest,
                           const PartShape& shape);
  PartWriter(PartWriter&&) noexcept;
  PartWriter& operator=(PartWriter&&) noexcept;
  ~PartWriter();

  void write_indptr(Count first, std::span<const Count> values) const;
  void write_indices(Count first, std::span<const NodeId> values) const;
  void write_edge_ids(Count first, std::span<const EdgeId> values) const;
  void write_weights(Count first, std::span<const float> values) const;
  void write_original_ids(Count first, std::span<const NodeId> values) const;
  void write_labels(Count first, std::span<const std::int32_t> values) const;
  void write_clusters(Count first, std::span<const std::int32_t> values) const;
  /// Writes whole rows of the manifest's dtype.
  void write_features(Count first_row, std::span<const std::byte> rows) const;
  void write_split(Split split, const PartData::SplitRows& rows) const;

  /// Starts writing the file's pages to disk without waiting for it.
  void start_flush() const;

  /// Waits until the file is on disk and hashes it. The caller sets `halo_nodes` and `cut_edges` of the
  /// result.
  ///
  /// Throws Error if not every element of every dataset was written.
  PartRecord finish() const;

 private:
  struct State;
  explicit PartWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Writes a whole part from memory: `features` holds its rows, hottest first, in the manifest's dtype.
PartRecord write_part(const std::filesystem::path& directory, const Manifest& manifest, const PartData& data,
                      std::span<const std::byte> features);

/// Writes DIR/manifest.json atomically. Call it last: a directory without it does not open.
void write_manifest(const std::filesystem::path& directory, const PartitionRecord& record);

/// Recomputes what finish() reported, from the bytes on disk. read(), if given, is called with the number of
/// bytes that were read since its last call. Throws IoError or InputError.
PartRecord hash_part(const std::filesystem::path& directory, const Manifest& manifest, int part,
                     const std::function<void(Count)>& read = {});

}  // namespace strata::graph
