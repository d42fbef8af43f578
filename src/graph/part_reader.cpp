#include <fmt/format.h>

#include "part_layout.hpp"
#include "positioned_file.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {

struct PartReader::State {
  PositionedFile file;
  PartLayout layout;
  Count num_inner = 0;

  /// `elements` of a field from element `first` on.
  void read(Field field, Count first, Count elements, void* out) const {
    const Extent& extent = layout[field];
    if (first < 0 || elements < 0 || first > extent.elements() - elements) {
      throw InputError(fmt::format("{}: elements [{}, {}) of {} wanted, it has {}", file.path().string(),
                                   first, first + elements, extent.name, extent.elements()));
    }
    file.read(out, elements * extent.element_bytes(), extent.offset + first * extent.element_bytes());
  }

  std::vector<Count> read_all(Field field) const {
    std::vector<Count> values(static_cast<std::size_t>(layout[field].elements()));
    read(field, 0, std::ssize(values), values.data());
    return values;
  }
};

PartReader::PartReader(std::unique_ptr<State> state) : state_{std::move(state)} {}
PartReader::PartReader(PartReader&&) noexcept = default;
PartReader& PartReader::operator=(PartReader&&) noexcept = default;
PartReader::~PartReader() = default;

PartReader PartReader::open(const std::filesystem::path& directory, const Manifest& manifest, int part) {
  const auto path = part_path(directory, part);
  PartLayout layout = open_layout(path, manifest, part);
  PartReader reader{std::make_unique<State>(PositionedFile{path, PositionedFile::Mode::read},
                                            std::move(layout), inner_nodes(manifest, part))};
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

Count PartReader::num_inner() const { return state_->num_inner; }
Count PartReader::num_edges() const { return state_->layout[Field::indices].elements(); }

void PartReader::read_indptr(Count first, Count count, Count* out) const {
  state_->read(Field::indptr, first, count, out);
}

void PartReader::read_indices(Count first, Count count, NodeId* out) const {
  state_->read(Field::indices, first, count, out);
}

void PartReader::read_edge_ids(Count first, Count count, EdgeId* out) const {
  state_->read(Field::edge_ids, first, count, out);
}

void PartReader::read_weights(Count first, Count count, float* out) const {
  state_->read(Field::weights, first, count, out);
}

void PartReader::read_original_ids(Count first, Count count, NodeId* out) const {
  state_->read(Field::original_ids, first, count, out);
}

void PartReader::read_labels(Count first, Count count, std::int32_t* out) const {
  state_->read(Field::labels, first, count, out);
}

void PartReader::read_features(Count first_row, Count num_rows, void* out) const {
  const Extent& extent = state_->layout[Field::features];
  const Count cols = extent.absent() ? 0 : extent.shape[1];
  state_->read(Field::features, first_row * cols, num_rows * cols, out);
}

PartData::SplitRows PartReader::read_split(Split split) const {
  return {state_->read_all(fields_of(split).row), state_->read_all(fields_of(split).rank)};
}

Count PartReader::split_size(Split split) const { return state_->layout[fields_of(split).row].elements(); }

void PartReader::read_split_rows(Split split, Count first, Count count, Count* out) const {
  state_->read(fields_of(split).row, first, count, out);
}

}  // namespace strata::graph
