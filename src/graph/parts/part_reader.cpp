// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "generators/planted.hpp"
#include "parts/checked_file.hpp"
#include "parts/part_layout.hpp"
#include "parts/part_source.hpp"
#include "parts/positioned_file.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

/// A part that lies in a file.
class FilePart final : public PartSource {
 public:
  struct Contents {
    PartLayout layout;
    Count num_inner = 0, num_clusters = 0;
  };
  /// `record` has the hashes to check; null: bytes are not checked.
  FilePart(PositionedFile file, Contents contents, const PartRecord* record)
      : file_(std::move(file)),
        layout_(std::move(contents.layout)),
        num_inner_(contents.num_inner),
        num_clusters_(contents.num_clusters) {
    if (record == nullptr) return;
    check_places(file_, layout_, *record);
    checked_.emplace(file_, layout_, record->datasets.back().hash);
  }

  Count num_inner() const override { return num_inner_; }
  Count num_edges() const override { return layout_[Field::indices].elements(); }
  void read_indptr(Count first, Count count, Count* out, RecentBlocks* recent) const override {
    read(Field::indptr, first, count, out, recent);
  }
  void read_indices(Count first, Count count, NodeId* out, RecentBlocks* recent) const override {
    read(Field::indices, first, count, out, recent);
  }
  void read_edge_ids(Count first, Count count, EdgeId* out, RecentBlocks* recent) const override {
    read(Field::edge_ids, first, count, out, recent);
  }
  void read_weights(Count first, Count count, float* out, RecentBlocks* recent) const override {
    read(Field::weights, first, count, out, recent);
  }
  void read_original_ids(Count first, Count count, NodeId* out) const override {
    read(Field::original_ids, first, count, out);
  }
  void read_labels(Count first, Count count, std::int32_t* out) const override {
    const Count words = row_elements(layout_[Field::labels]);
    read(Field::labels, first * words, count * words, out);
  }
  void read_clusters(Count first, Count count, std::int32_t* out, RecentBlocks* recent) const override {
    read(Field::clusters, first, count, out, recent);
    const std::int32_t* const bad =
        std::find_if(out, out + count, [this](std::int32_t c) { return c < 0 || c >= num_clusters_; });
    if (bad == out + count) return;
    throw InputError(fmt::format("{}: row {} is in cluster {}, but clusters are 0 to {}",
                                 file_.path().string(), first + (bad - out), *bad, num_clusters_ - 1),
                     "Run strata-partition build again.");
  }
  void read_features(Count first_row, Count num_rows, void* out, RecentBlocks* recent) const override {
    const Count cols = row_elements(layout_[Field::features]);
    read(Field::features, first_row * cols, num_rows * cols, out, recent);
  }
  Count feature_block_rows() const override {
    return std::max<Count>(1, layout_[Field::features].block_rows);
  }
  PartData::SplitRows read_split(Split split) const override {
    return {read_all(fields_of(split).row), read_all(fields_of(split).rank)};
  }
  Count split_size(Split split) const override { return layout_[fields_of(split).row].elements(); }
  void read_split_rows(Split split, Count first, Count count, Count* out) const override {
    read(fields_of(split).row, first, count, out);
  }
  void read_split_ranks(Split split, Count first, Count count, Count* out) const override {
    read(fields_of(split).rank, first, count, out);
  }
  HeldEdges read_held_edges(Split split) const override {
    HeldEdges edges;
    if (split == Split::train) return edges;
    const std::vector<Count> rows = read_all(split == Split::valid ? Field::valid_edges : Field::test_edges);
    for (std::size_t i = 0; i < rows.size(); i += kHeldEdgeIds) {
      edges.sources.push_back(rows[i]);
      edges.destinations.push_back(rows[i + 1]);
      edges.edge_ids.push_back(rows[i + 2]);
    }
    return edges;
  }

 private:
  /// Reads `elements` elements of a field from element `first` on.
  void read(Field field, Count first, Count elements, void* out, RecentBlocks* recent = nullptr) const {
    const Extent& extent = layout_[field];
    if (first < 0 || elements < 0 || first > extent.elements() - elements) {
      throw InputError(fmt::format("{}: elements [{}, {}) of {} wanted, it has {}", file_.path().string(),
                                   first, first + elements, extent.name, extent.elements()));
    }
    const Count place = first * extent.element_bytes(), bytes = elements * extent.element_bytes();
    if (checked_) return checked_->read(field, place, bytes, out, recent);
    file_.read(out, bytes, extent.offset + place);
  }

  std::vector<Count> read_all(Field field) const {
    std::vector<Count> values(at(layout_[field].elements()));
    read(field, 0, std::ssize(values), values.data());
    return values;
  }

  PositionedFile file_;
  PartLayout layout_;
  Count num_inner_, num_clusters_;
  std::optional<CheckedFile> checked_;
};

/// The record of a part; null if the manifest has no block hashes.
const PartRecord* record_with_blocks(const Manifest& manifest, int part) {
  if (!manifest.part_records) return nullptr;
  const PartRecord& record = manifest.part_records->at(at(part));
  return record.has_block_hashes() ? &record : nullptr;
}

/// Parts stay open if a quarter of the files that this process may open suffices for all: training may read
/// each part through three readers, and MPI and NCCL open files, too.
PositionedFile::Mode mode_for(int num_parts) {
  constexpr rlim_t kShare = 4;
  rlimit limit{};
  const bool bounded = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const bool fit = !bounded || static_cast<rlim_t>(num_parts) <= limit.rlim_cur / kShare;
  return fit ? PositionedFile::Mode::read : PositionedFile::Mode::read_on_demand;
}

}  // namespace

PartReader::PartReader(std::unique_ptr<State> state) : state_{std::move(state)} {}
PartReader::PartReader(PartReader&&) noexcept = default;
PartReader& PartReader::operator=(PartReader&&) noexcept = default;
PartReader::~PartReader() = default;

PartReader PartReader::open(const PartsOrigin& parts, const Manifest& manifest, int part, Verify verify) {
  if (const auto* planted = std::get_if<PlantedSpec>(&parts)) {
    auto state = std::make_unique<State>();
    state->source = make_planted_part(*planted, part);
    return PartReader(std::move(state));
  }
  const auto path = part_path(std::get<std::filesystem::path>(parts), part);
  const PartRecord* record = verify == Verify::on ? record_with_blocks(manifest, part) : nullptr;
  PositionedFile file(path, mode_for(manifest.book.num_parts()));
  if (record != nullptr) check_outside(file, *record);
  auto state = std::make_unique<State>();
  state->source =
      std::make_unique<FilePart>(std::move(file),
                                 FilePart::Contents{open_layout(path, manifest, part),
                                                    inner_nodes(manifest, part), manifest.num_clusters},
                                 record);
  PartReader reader(std::move(state));
  Count first = 0, last = 0;
  reader.read_indptr(0, 1, &first);
  reader.read_indptr(reader.num_inner(), 1, &last);
  if (first != 0 || last != reader.num_edges()) {
    throw InputError(fmt::format("{}: indptr runs from {} to {}, wanted 0 to {}", path.string(), first, last,
                                 reader.num_edges()),
                     "Run strata-partition build again.");
  }
  return reader;
}

std::string name_of(const PartsOrigin& parts) {
  const auto* directory = std::get_if<std::filesystem::path>(&parts);
  return directory == nullptr ? "planted" : directory->string();
}

std::string name_of_part(const PartsOrigin& parts, int part) {
  const auto* directory = std::get_if<std::filesystem::path>(&parts);
  return directory == nullptr ? fmt::format("planted part {}", part) : part_path(*directory, part).string();
}

void refuse_damaged(const PartsOrigin& parts, int part, const std::string& what) {
  throw InputError(
      fmt::format("{}: {}", name_of_part(parts, part), what),
      fmt::format("The file is damaged; see `strata-partition verify {}`, and build the parts again.",
                  name_of(parts)));
}

Count PartReader::num_inner() const { return state_->source->num_inner(); }
Count PartReader::num_edges() const { return state_->source->num_edges(); }
void PartReader::read_indptr(Count first, Count count, Count* out, RecentBlocks* recent) const {
  state_->source->read_indptr(first, count, out, recent);
}
void PartReader::read_indices(Count first, Count count, NodeId* out, RecentBlocks* recent) const {
  state_->source->read_indices(first, count, out, recent);
}
void PartReader::read_edge_ids(Count first, Count count, EdgeId* out, RecentBlocks* recent) const {
  state_->source->read_edge_ids(first, count, out, recent);
}
void PartReader::read_weights(Count first, Count count, float* out, RecentBlocks* recent) const {
  state_->source->read_weights(first, count, out, recent);
}
void PartReader::read_original_ids(Count first, Count count, NodeId* out) const {
  state_->source->read_original_ids(first, count, out);
}
void PartReader::read_labels(Count first, Count count, std::int32_t* out) const {
  state_->source->read_labels(first, count, out);
}
void PartReader::read_clusters(Count first, Count count, std::int32_t* out, RecentBlocks* recent) const {
  state_->source->read_clusters(first, count, out, recent);
}

std::vector<std::int32_t> PartReader::read_clusters_of(std::span<const Count> rows) const {
  std::vector<std::int32_t> clusters(rows.size());
  std::vector<std::size_t> ascending(rows.size());
  std::iota(ascending.begin(), ascending.end(), std::size_t{0});
  std::ranges::sort(ascending, {}, [&](std::size_t i) { return rows[i]; });
  RecentBlocks recent;
  for (const std::size_t i : ascending) read_clusters(rows[i], 1, &clusters[i], &recent);
  return clusters;
}

void PartReader::read_features(Count first_row, Count num_rows, void* out, RecentBlocks* recent) const {
  state_->source->read_features(first_row, num_rows, out, recent);
}
Count PartReader::feature_block_rows() const { return state_->source->feature_block_rows(); }
PartData::SplitRows PartReader::read_split(Split split) const { return state_->source->read_split(split); }
Count PartReader::split_size(Split split) const { return state_->source->split_size(split); }
void PartReader::read_split_rows(Split split, Count first, Count count, Count* out) const {
  state_->source->read_split_rows(split, first, count, out);
}
void PartReader::read_split_ranks(Split split, Count first, Count count, Count* out) const {
  state_->source->read_split_ranks(split, first, count, out);
}
HeldEdges PartReader::read_held_edges(Split split) const { return state_->source->read_held_edges(split); }

}  // namespace strata::graph
