// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "parts/part_layout.hpp"
#include "parts/positioned_file.hpp"
#include "strata/graph/manifest_file.hpp"

namespace strata::graph {

/// Hashes all bytes of a part file that lie outside its datasets, as HDF5's own structure does.
class OutsideBytes {
 public:
  /// Only names, shapes, types and offsets of the extents count.
  explicit OutsideBytes(const std::vector<Extent>& extents);
  struct Gap {
    Count begin, end;
  };
  std::vector<Gap> gaps(Count begin, Count end) const;  ///< the outside of a piece of the file

 private:
  std::vector<Gap> datasets_;  // by place
};

/// Extents as the manifest lists them, without the help of the file.
std::vector<Extent> recorded_extents(const PartRecord& record);

/// Throws InputError unless the bytes outside the datasets are those that were written: HDF5 may then trust
/// what it finds.
void check_outside(const PositionedFile& file, const PartRecord& record);

/// Throws InputError unless the datasets lie where the manifest says.
void check_places(const PositionedFile& file, const PartLayout& layout, const PartRecord& record);

/// Reads datasets of a part file by whole blocks, and gives no byte of a block whose hash is not the one that
/// was written. Thread safe.
class CheckedFile {
 public:
  /// Keeps both; reads the hashes when they are first needed. REQUIRES: check_places().
  CheckedFile(const PositionedFile& file, const PartLayout& layout, std::uint64_t checksums_hash);

  /// `bytes` of a field from byte `first` on. REQUIRES: they lie within it.
  void read(Field field, Count first, Count bytes, void* out, RecentBlocks* recent) const;

 private:
  /// Bytes [first, end) of a dataset, some whole blocks.
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

/// The error of a dataset, or of what surrounds them, that is not what was written.
[[noreturn]] void refuse_changed(const std::filesystem::path& file, const std::string& what);

}  // namespace strata::graph
