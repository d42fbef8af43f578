// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "parts/part_layout.hpp"
#include "parts/positioned_file.hpp"
#include "strata/graph/manifest_file.hpp"

namespace strata::graph {

/// The bytes of a part file that lie outside its datasets, such as HDF5's own structure.
class OutsideBytes {
 public:
  /// Uses only names, shapes, types and offsets of the extents.
  explicit OutsideBytes(const std::vector<Extent>& extents);
  struct Gap {
    Count begin, end;
  };
  std::vector<Gap> gaps(Count begin, Count end) const;  ///< what lies outside, in a piece of the file

 private:
  std::vector<Gap> datasets_;  // in order of their offsets
};

/// The extents as the manifest lists them; the file is not read.
std::vector<Extent> recorded_extents(const PartRecord& record);

/// Throws InputError unless the bytes outside the datasets are those that were written, so that HDF5 can
/// trust them.
void check_outside(const PositionedFile& file, const PartRecord& record);

/// Throws InputError unless the datasets lie where the manifest says.
void check_places(const PositionedFile& file, const PartLayout& layout, const PartRecord& record);

/// Reads datasets of a part file by whole blocks, and returns no byte of a block whose hash differs from the
/// one that was written. Thread safe.
class CheckedFile {
 public:
  /// Keeps references to `file` and `layout`; reads the hashes when they are first needed. REQUIRES:
  /// check_places().
  CheckedFile(const PositionedFile& file, const PartLayout& layout, std::uint64_t checksums_hash);

  /// Reads `bytes` bytes of a field from byte `first` on. REQUIRES: they lie within the field.
  void read(Field field, Count first, Count bytes, void* out, RecentBlocks* recent) const;

 private:
  /// Bytes [first, end) of a dataset; they are whole blocks.
  struct Run {
    Field field;
    Count first, end;
  };
  void read_blocks(const Run& run, std::byte* out) const;
  RecentBlocks::Block& fetch(Field field, Count block, RecentBlocks& recent) const;
  const std::vector<std::uint64_t>& hashes() const;

  const PositionedFile& file_;
  const PartLayout& layout_;
  std::uint64_t checksums_hash_;
  mutable std::once_flag read_hashes_;
  mutable std::vector<std::uint64_t> hashes_;
};

/// Throws the InputError for a dataset, or bytes around datasets, that differ from what was written.
[[noreturn]] void refuse_changed(const std::filesystem::path& file, const std::string& what);

}  // namespace strata::graph
