// SPDX-License-Identifier: Apache-2.0
#include "parts/checked_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::graph {

OutsideBytes::OutsideBytes(const std::vector<Extent>& extents) {
  for (const Extent& extent : extents)
    if (extent.bytes() > 0) datasets_.push_back({extent.offset, extent.offset + extent.bytes()});
  std::ranges::sort(datasets_, {}, &Gap::begin);
}

std::vector<OutsideBytes::Gap> OutsideBytes::gaps(Count begin, Count end) const {
  std::vector<Gap> gaps;
  for (const Gap& dataset : datasets_) {
    if (dataset.end <= begin) continue;
    if (dataset.begin >= end) break;
    if (dataset.begin > begin) gaps.push_back({begin, dataset.begin});
    begin = dataset.end;
  }
  if (begin < end) gaps.push_back({begin, end});
  return gaps;
}

std::vector<Extent> recorded_extents(const PartRecord& record) {
  std::vector<Extent> extents;
  for (const DatasetRecord& d : record.datasets)
    extents.push_back({d.name, d.dtype, d.shape, d.offset, d.block_rows});
  return extents;
}

void refuse_changed(const std::filesystem::path& file, const std::string& what) {
  throw InputError(
      fmt::format("{}: {} changed since the parts were built", file.string(), what),
      fmt::format(
          "The file is damaged: copy it again, or build the parts again. `strata-partition verify {}` lists "
          "all that is wrong.",
          file.parent_path().string()));
}

void check_outside(const PositionedFile& file, const PartRecord& record) {
  if (const Count bytes = file.size(); bytes != record.bytes)
    refuse_changed(file.path(), fmt::format("its size is {} bytes, not {}: it was", bytes, record.bytes));
  constexpr Count kPiece = Count{1} << 20;
  std::vector<std::byte> piece;
  Hasher hasher;
  for (const auto& [begin, end] : OutsideBytes(recorded_extents(record)).gaps(0, record.bytes)) {
    for (Count at = begin; at < end; at += kPiece) {
      piece.resize(static_cast<std::size_t>(std::min(kPiece, end - at)));
      file.read(piece.data(), std::ssize(piece), at);
      hasher.update(piece.data(), piece.size());
    }
  }
  if (hasher.digest() != record.outside_hash)
    refuse_changed(file.path(), "bytes outside the datasets (HDF5's own structure) were");
}

void check_places(const PositionedFile& file, const PartLayout& layout, const PartRecord& record) {
  std::size_t next = 0;
  for (const Extent& extent : layout.extents) {
    if (extent.absent()) continue;
    const bool listed = next < record.datasets.size();
    const DatasetRecord found{extent.name,   extent.dtype,
                              extent.shape,  listed ? record.datasets[next].hash : 0,
                              extent.offset, extent.block_rows};
    if (!listed || found != record.datasets[next])
      refuse_changed(file.path(), fmt::format("the place or shape of dataset {} was", extent.name));
    ++next;
  }
}

CheckedFile::CheckedFile(const PositionedFile& file, const PartLayout& layout, std::uint64_t checksums_hash)
    : file_(file), layout_(layout), checksums_hash_(checksums_hash) {}

const std::vector<std::uint64_t>& CheckedFile::hashes() const {
  std::call_once(read_hashes_, [this] {
    const Extent& extent = layout_[Field::checksums];
    std::vector<std::uint64_t> hashes(static_cast<std::size_t>(extent.elements()));
    file_.read(hashes.data(), extent.bytes(), extent.offset);
    if (hash_bytes(hashes.data(), hashes.size() * sizeof(std::uint64_t)) != checksums_hash_)
      refuse_changed(file_.path(), fmt::format("dataset {} was", extent.name));
    hashes_ = std::move(hashes);
  });
  return hashes_;
}

void CheckedFile::read_blocks(const Run& run, std::byte* out) const {
  const Extent& extent = layout_[run.field];
  file_.read(out, run.end - run.first, extent.offset + run.first);
  const Count size = extent.block_bytes();
  const std::uint64_t* const expected = hashes().data() + layout_.blocks_before(run.field);
  for (Count at = run.first; at < run.end; at += size) {
    const Count bytes = std::min(size, run.end - at);
    if (hash_bytes(out + (at - run.first), static_cast<std::size_t>(bytes)) == expected[at / size]) continue;
    const Count row = at / extent.row_bytes();
    refuse_changed(file_.path(), fmt::format("dataset {}: something in rows {} to {} was", extent.name, row,
                                             row + bytes / extent.row_bytes() - 1));
  }
}

RecentBlocks::Block& CheckedFile::fetch(Field field, Count block, RecentBlocks& recent) const {
  recent.by_field_.resize(static_cast<std::size_t>(Field::count));
  RecentBlocks::Block& known = recent.by_field_[static_cast<std::size_t>(field)];
  if (known.file == this && known.number == block) return known;
  known.file = nullptr;
  const Extent& extent = layout_[field];
  const Run run{field, block * extent.block_bytes(),
                std::min((block + 1) * extent.block_bytes(), extent.bytes())};
  known.bytes.resize(static_cast<std::size_t>(run.end - run.first));
  read_blocks(run, known.bytes.data());
  known.file = this;
  known.number = block;
  return known;
}

void CheckedFile::read(Field field, Count first, Count bytes, void* out, RecentBlocks* recent) const {
  RecentBlocks own;
  RecentBlocks& memory = recent == nullptr ? own : *recent;
  const Extent& extent = layout_[field];
  const Count size = extent.block_bytes(), end = first + bytes;
  auto* to = static_cast<std::byte*>(out);
  for (Count at = first; at < end;) {
    const Count block = at / size, whole_end = end == extent.bytes() ? end : end / size * size;
    const bool known = !memory.by_field_.empty() &&
                       memory.by_field_[static_cast<std::size_t>(field)].file == this &&
                       memory.by_field_[static_cast<std::size_t>(field)].number == block;
    Count next = whole_end;
    if (at % size == 0 && at < whole_end && !known) {
      read_blocks({field, at, whole_end}, to);
    } else {
      const RecentBlocks::Block& found = fetch(field, block, memory);
      next = std::min(end, (block + 1) * size);
      std::memcpy(to, found.bytes.data() + (at - block * size), static_cast<std::size_t>(next - at));
    }
    to += next - at;
    at = next;
  }
}

}  // namespace strata::graph
