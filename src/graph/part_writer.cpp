#include "strata/graph/part_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "part_layout.hpp"
#include "positioned_file.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/hash.hpp"

namespace strata::graph {
namespace {

/// Dataset records and the whole file's hash, in one pass over the file.
PartRecord hash_file(const PositionedFile& file, const PartLayout& layout) {
  constexpr Count kPiece = Count{1} << 20;
  const Count bytes = file.size();
  std::vector<char> piece(static_cast<std::size_t>(std::min(bytes, kPiece)));
  std::vector<Hasher> hashers(layout.extents.size());
  Hasher whole;
  for (Count begin = 0; begin < bytes; begin += kPiece) {
    const Count end = std::min(bytes, begin + kPiece);
    file.read(piece.data(), end - begin, begin);
    whole.update(piece.data(), static_cast<std::size_t>(end - begin));
    for (std::size_t i = 0; i < hashers.size(); ++i) {
      const Extent& extent = layout.extents[i];
      const Count from = std::max(begin, extent.offset), to = std::min(end, extent.offset + extent.bytes());
      if (from < to) hashers[i].update(piece.data() + (from - begin), static_cast<std::size_t>(to - from));
    }
  }
  PartRecord record{.file = file.path().filename().string(),
                    .bytes = bytes,
                    .hash = whole.digest(),
                    .num_edges = layout[Field::indices].elements(),
                    .datasets = {}};
  for (std::size_t i = 0; i < hashers.size(); ++i) {
    const Extent& extent = layout.extents[i];
    if (!extent.absent())
      record.datasets.push_back({extent.name, extent.dtype, extent.shape, hashers[i].digest()});
  }
  return record;
}

/// Refuses before HDF5 meets a full disk, which it reports late and cannot close a file on.
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

  /// `elements` of a field from element `first` on. Opened anew each time: there may be more parts than
  /// descriptors.
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

void PartWriter::write_features(Count first_row, std::span<const std::byte> rows) const {
  const Extent& extent = state_->layout[Field::features];
  state_->write(Field::features, first_row * row_elements(extent),
                static_cast<Count>(rows.size()) / extent.element_bytes(), rows.data());
}

void PartWriter::write_split(PartReader::Split split, const PartData::SplitRows& rows) const {
  const auto [row, rank] = fields_of(split);
  state_->write<Count>(row, 0, rows.rows);
  state_->write<Count>(rank, 0, rows.ranks);
}

void PartWriter::start_flush() const {
  PositionedFile{state_->path, PositionedFile::Mode::write}.start_flush();
}

PartRecord PartWriter::finish() const {
  Count expected = 0;
  for (const Extent& extent : state_->layout.extents) expected += extent.bytes();
  if (state_->bytes_written != expected) {
    throw Error(fmt::format("{}: {} of {} bytes were written", state_->path.string(),
                            state_->bytes_written.load(), expected));
  }
  PartRecord record = hash_file(PositionedFile{state_->path, PositionedFile::Mode::read}, state_->layout);
  sync_to_disk(state_->path);
  return record;
}

PartRecord write_part(const std::filesystem::path& directory, const Manifest& manifest, const PartData& data,
                      std::span<const std::byte> features) {
  const PartWriter writer = PartWriter::create(directory, manifest,
                                               {.part = data.part,
                                                .num_edges = static_cast<Count>(data.indices.size()),
                                                .num_train = static_cast<Count>(data.train.rows.size()),
                                                .num_valid = static_cast<Count>(data.valid.rows.size()),
                                                .num_test = static_cast<Count>(data.test.rows.size())});
  writer.write_indptr(0, data.indptr);
  writer.write_indices(0, data.indices);
  writer.write_edge_ids(0, data.edge_ids);
  if (manifest.has_edge_weights) writer.write_weights(0, data.weights);
  writer.write_original_ids(0, data.original_ids);
  if (manifest.has_labels) writer.write_labels(0, data.labels);
  if (manifest.feature_cols > 0) writer.write_features(0, features);
  writer.write_split(PartReader::Split::train, data.train);
  writer.write_split(PartReader::Split::valid, data.valid);
  writer.write_split(PartReader::Split::test, data.test);
  return writer.finish();
}

void write_manifest(const std::filesystem::path& directory, const PartitionRecord& record) {
  write_file_atomically(directory / kManifestFile, format_manifest(record));
}

PartRecord hash_part(const std::filesystem::path& directory, const Manifest& manifest, int part) {
  const auto path = part_path(directory, part);
  const PartLayout layout = open_layout(path, manifest, part);
  return hash_file(PositionedFile{path, PositionedFile::Mode::read}, layout);
}

}  // namespace strata::graph
