// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "parts/checked_file.hpp"
#include "parts/part_layout.hpp"
#include "parts/positioned_file.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::graph {
namespace {

/// All hashes of a part file, computed in passes over consecutive pieces.
class FileHashes {
 public:
  FileHashes(const PositionedFile& file, const PartLayout& layout)
      : file_(file), layout_(layout), outside_(layout.extents), datasets_(layout.extents.size()) {}

  void pass(Count begin, Count end, const std::function<void(Count)>& read = {}) {
    constexpr Count kPiece = Count{1} << 20;
    std::vector<char> piece(static_cast<std::size_t>(std::clamp<Count>(end - begin, 0, kPiece)));
    for (; begin < end; begin += kPiece) {
      const Count last = std::min(end, begin + kPiece);
      file_.read(piece.data(), last - begin, begin);
      add({piece.data(), begin, last});
      if (read) read(last - begin);
    }
  }

  /// Hashes of all blocks so far, dataset by dataset.
  std::vector<Count> blocks() const {
    std::vector<Count> all;
    for (const Dataset& dataset : datasets_)
      all.insert(all.end(), dataset.blocks.begin(), dataset.blocks.end());
    return all;
  }

  /// The record of the file, after the whole file was passed.
  PartRecord record() const {
    PartRecord record{.file = file_.path().filename().string(),
                      .bytes = file_.size(),
                      .hash = whole_.digest(),
                      .outside_hash = outside_hash_.digest(),
                      .num_edges = layout_[Field::indices].elements(),
                      .datasets = {}};
    for (std::size_t i = 0; i < datasets_.size(); ++i) {
      const Extent& e = layout_.extents[i];
      if (e.absent()) continue;
      const bool has_blocks = !layout_[Field::checksums].absent();
      record.datasets.push_back({e.name, e.dtype, e.shape, datasets_[i].all.digest(),
                                 has_blocks ? e.offset : 0, has_blocks ? e.block_rows : 0});
    }
    if (layout_[Field::checksums].absent()) record.outside_hash = 0;
    return record;
  }

 private:
  struct Dataset {
    Hasher all, block;
    std::vector<Count> blocks;
  };
  struct Piece {
    const char* bytes;
    Count begin, end;
    const char* at(Count place) const { return bytes + (place - begin); }
  };

  void add(const Piece& piece) {
    whole_.update(piece.bytes, static_cast<std::size_t>(piece.end - piece.begin));
    for (const auto& [begin, end] : outside_.gaps(piece.begin, piece.end))
      outside_hash_.update(piece.at(begin), static_cast<std::size_t>(end - begin));
    for (std::size_t i = 0; i < datasets_.size(); ++i) add_to(datasets_[i], layout_.extents[i], piece);
  }

  static void add_to(Dataset& dataset, const Extent& extent, const Piece& piece) {
    const Count begin = extent.offset, end = begin + extent.bytes();
    for (Count at = std::max(begin, piece.begin); at < std::min(end, piece.end);) {
      const Count size = extent.block_rows > 0 ? extent.block_bytes() : end - begin;
      const Count block_end = std::min(end, begin + ((at - begin) / size + 1) * size);
      const Count next = std::min(block_end, piece.end);
      dataset.all.update(piece.at(at), static_cast<std::size_t>(next - at));
      dataset.block.update(piece.at(at), static_cast<std::size_t>(next - at));
      at = next;
      if (at < block_end || extent.block_rows == 0) continue;
      dataset.blocks.push_back(static_cast<Count>(dataset.block.digest()));
      dataset.block.reset();
    }
  }

  const PositionedFile& file_;
  const PartLayout& layout_;
  OutsideBytes outside_;
  std::vector<Dataset> datasets_;  // by Field
  Hasher whole_, outside_hash_;
};

/// Throws IoError if the disk has no room. HDF5 reports a full disk late, and then cannot close the file.
void check_room(const std::filesystem::path& directory, const PartLayout& layout) {
  constexpr Count kMetadataBytes = 64 << 10;
  Count wanted = kMetadataBytes;
  for (const Extent& extent : layout.extents) wanted += extent.bytes();
  if (const Count room = free_disk_bytes(directory); room < wanted) {
    throw IoError(fmt::format("{}: No space left on device: a part file takes {} bytes, {} are free",
                              directory.string(), wanted, room),
                  "The disk is full: free some space or choose another folder.");
  }
}

}  // namespace

struct PartWriter::State {
  std::filesystem::path path;
  PartLayout layout;
  mutable std::atomic<Count> bytes_written{0};

  State(std::filesystem::path file, PartLayout extents) : path{std::move(file)}, layout{std::move(extents)} {}

  /// Writes `elements` elements of a field from element `first` on. The file is opened anew each time,
  /// because there may be more parts than descriptors.
  void write(Field field, Count first, Count elements, const void* data) const {
    const Extent& extent = layout[field];
    if (first < 0 || first > extent.elements() - elements) {
      throw Error(fmt::format("{}: [{}, {}) of {} is beyond its {} elements", path.string(), first,
                              first + elements, extent.name, extent.elements()));
    }
    if (elements == 0) return;
    const Count bytes = elements * extent.element_bytes();
    PositionedFile{path, PositionedFile::Mode::write}.write(data, bytes,
                                                            extent.offset + first * extent.element_bytes());
    bytes_written += bytes;
  }
  template <typename T>
  void write(Field field, Count first, std::span<const T> values) const {
    write(field, first, static_cast<Count>(values.size()), values.data());
  }
};

PartWriter::PartWriter(std::unique_ptr<State> state) : state_{std::move(state)} {}
PartWriter::PartWriter(PartWriter&&) noexcept = default;
PartWriter& PartWriter::operator=(PartWriter&&) noexcept = default;
PartWriter::~PartWriter() = default;

PartWriter PartWriter::create(const std::filesystem::path& directory, const Manifest& manifest,
                              const PartShape& shape) {
  const auto path = part_path(directory, shape.part);
  PartLayout layout{manifest, shape};
  check_room(directory, layout);
  create_file(path, manifest, shape.part, layout);
  const PositionedFile file{path, PositionedFile::Mode::write};
  file.reserve(file.size());
  return PartWriter{std::make_unique<State>(path, std::move(layout))};
}

void PartWriter::write_indptr(Count first, std::span<const Count> values) const {
  state_->write(Field::indptr, first, values);
}
void PartWriter::write_indices(Count first, std::span<const NodeId> values) const {
  state_->write(Field::indices, first, values);
}
void PartWriter::write_edge_ids(Count first, std::span<const EdgeId> values) const {
  state_->write(Field::edge_ids, first, values);
}
void PartWriter::write_weights(Count first, std::span<const float> values) const {
  state_->write(Field::weights, first, values);
}
void PartWriter::write_original_ids(Count first, std::span<const NodeId> values) const {
  state_->write(Field::original_ids, first, values);
}
void PartWriter::write_labels(Count first, std::span<const std::int32_t> values) const {
  state_->write(Field::labels, first * row_elements(state_->layout[Field::labels]), values);
}
void PartWriter::write_clusters(Count first, std::span<const std::int32_t> values) const {
  state_->write(Field::clusters, first, values);
}

void PartWriter::write_features(Count first_row, std::span<const std::byte> rows) const {
  const Extent& extent = state_->layout[Field::features];
  state_->write(Field::features, first_row * row_elements(extent),
                static_cast<Count>(rows.size()) / extent.element_bytes(), rows.data());
}

void PartWriter::write_split(Split split, const PartData::SplitRows& rows) const {
  const auto [row, rank] = fields_of(split);
  state_->write<Count>(row, 0, rows.rows);
  state_->write<Count>(rank, 0, rows.ranks);
}

void PartWriter::write_held_edges(const EdgeSplits& edges) const {
  const auto write = [&](Field field, const HeldEdges& held) {
    std::vector<Count> rows;
    for (std::size_t i = 0; i < held.edge_ids.size(); ++i)
      rows.insert(rows.end(), {held.sources[i], held.destinations[i], held.edge_ids[i]});
    state_->write<Count>(field, 0, rows);
  };
  write(Field::valid_edges, edges.valid);
  write(Field::test_edges, edges.test);
}

void PartWriter::start_flush() const {
  PositionedFile{state_->path, PositionedFile::Mode::write}.start_flush();
}

PartRecord PartWriter::finish() const {
  Count expected = 0;
  for (const Extent& extent : state_->layout.extents) expected += extent.bytes();
  const Extent& checksums = state_->layout[Field::checksums];
  expected -= checksums.bytes();
  if (state_->bytes_written != expected) {
    throw Error(fmt::format("{}: {} of {} bytes were written", state_->path.string(),
                            state_->bytes_written.load(), expected));
  }
  const PositionedFile file{state_->path, PositionedFile::Mode::read};
  FileHashes hashes{file, state_->layout};
  hashes.pass(0, checksums.offset);
  const std::vector<Count> blocks = hashes.blocks();
  if (std::ssize(blocks) != checksums.elements())
    throw Error(
        fmt::format("{}: HDF5 placed {} before other datasets", state_->path.string(), checksums.name));
  PositionedFile{state_->path, PositionedFile::Mode::write}.write(blocks.data(), checksums.bytes(),
                                                                  checksums.offset);
  hashes.pass(checksums.offset, file.size());
  sync_to_disk(state_->path);
  return hashes.record();
}

PartRecord write_part(const std::filesystem::path& directory, const Manifest& manifest, const PartData& data,
                      std::span<const std::byte> features) {
  const PartWriter writer = PartWriter::create(directory, manifest,
                                               {.part = data.part,
                                                .num_edges = static_cast<Count>(data.indices.size()),
                                                .num_train = static_cast<Count>(data.train.rows.size()),
                                                .num_valid = static_cast<Count>(data.valid.rows.size()),
                                                .num_test = static_cast<Count>(data.test.rows.size()),
                                                .num_valid_edges = data.edge_splits.valid.size(),
                                                .num_test_edges = data.edge_splits.test.size()});
  writer.write_indptr(0, data.indptr);
  writer.write_indices(0, data.indices);
  writer.write_edge_ids(0, data.edge_ids);
  if (manifest.has_edge_weights) writer.write_weights(0, data.weights);
  writer.write_original_ids(0, data.original_ids);
  if (manifest.has_labels) writer.write_labels(0, data.labels);
  if (manifest.num_clusters > 0) writer.write_clusters(0, data.clusters);
  if (manifest.feature_cols > 0) writer.write_features(0, features);
  writer.write_split(Split::train, data.train);
  writer.write_split(Split::valid, data.valid);
  writer.write_split(Split::test, data.test);
  writer.write_held_edges(data.edge_splits);
  return writer.finish();
}

void write_manifest(const std::filesystem::path& directory, const PartitionRecord& record) {
  write_file_atomically(directory / kManifestFile, format_manifest(record));
}

PartRecord hash_part(const std::filesystem::path& directory, const Manifest& manifest, int part,
                     const std::function<void(Count)>& read) {
  const auto path = part_path(directory, part);
  const PartLayout layout = open_layout(path, manifest, part);
  const PositionedFile file{path, PositionedFile::Mode::read};
  FileHashes hashes{file, layout};
  hashes.pass(0, file.size(), read);
  const Extent& checksums = layout[Field::checksums];
  std::vector<Count> blocks(static_cast<std::size_t>(checksums.elements()));
  file.read(blocks.data(), checksums.bytes(), checksums.offset);
  PartRecord record = hashes.record();
  const bool fit = checksums.absent() || blocks == hashes.blocks();
  // Later changes show in the datasets' own hashes.
  if (!fit && manifest.part_records &&
      record.datasets == manifest.part_records->at(static_cast<std::size_t>(part)).datasets) {
    throw InputError(fmt::format("{}: {} never was that of the other datasets", path.string(), kChecksums),
                     "Run strata-partition build again.");
  }
  return record;
}

}  // namespace strata::graph
