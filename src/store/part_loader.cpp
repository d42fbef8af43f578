#include "part_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "strata/util/error.hpp"

namespace strata::store {
namespace {

constexpr Count kChunk = Count{1} << 19;  // elements: a few MiB, which stay in cache while they are checked

template <typename Visit>
void in_chunks(Range range, Visit&& visit) {
  for (Count first = range.first; first < range.end(); first += kChunk) {
    visit(Range{first, std::min(kChunk, range.end() - first)});
  }
}

/// Position of the first value outside [0, end); `count` if there is none.
template <typename T>
Count find_outside(const T* values, Count count, Count end) {
  const auto bad = std::find_if(values, values + count, [end](T v) { return v < 0 || v >= end; });
  return bad - values;
}

std::vector<NodeId> global_ids(std::span<const Count> rows, NodeId first_of_part) {
  std::vector<NodeId> ids(rows.begin(), rows.end());
  for (NodeId& id : ids) id += first_of_part;
  return ids;
}

}  // namespace

PartLoader::PartLoader(const Source& source, Rank rank)
    : directory_(source.directory), manifest_(source.manifest), parts_(source.parts), rank_(rank) {
  const std::span<const NodeId> offsets = manifest_.book.offsets();
  first_node_ = offsets[static_cast<std::size_t>(parts_.first)];
  num_local_ = offsets[static_cast<std::size_t>(parts_.end())] - first_node_;
  edge_offsets_.push_back(0);
  for (Count part = parts_.first; part < parts_.end(); ++part) {
    hosted_.push_back({graph::PartReader::open(directory_, manifest_, static_cast<int>(part)), {}, {}});
    edge_offsets_.push_back(edge_offsets_.back() + hosted_.back().reader.num_edges());
  }
}

void PartLoader::damaged(int part, const std::string& what) const {
  throw InputError(
      fmt::format("{}: {}", graph::part_path(directory_, part).string(), what),
      fmt::format("The file is damaged; see `strata-partition verify {}`, and build the parts again.",
                  directory_.string()));
}

std::int64_t PartLoader::share_bytes(const LoadOptions& options) const {
  const std::int64_t row_bytes =
      manifest_.feature_cols * static_cast<std::int64_t>(size_of(manifest_.feature_dtype));
  const std::int64_t edge_bytes = options.edge_ids ? 16 : 8;
  const Count indptr_rows = options.in_degrees ? manifest_.book.num_nodes() : num_local_;
  const std::int64_t total = num_local_ * (row_bytes + (manifest_.has_labels ? 4 : 0)) +
                             local_edges() * edge_bytes + indptr_rows * 8 + manifest_.book.num_nodes() * 8;
  return total / rank_.size;
}

Range PartLoader::share_of_rows(int part) const {
  const std::span<const NodeId> offsets = manifest_.book.offsets();
  const auto p = static_cast<std::size_t>(part);
  return share_of({0, offsets[p + 1] - offsets[p]}, rank_.rank, rank_.size);
}

void PartLoader::read_structure(const GraphRegions& regions, ProgressBar& progress) const {
  for (int part = 0; part < manifest_.book.num_parts(); ++part) {
    const Count slot = part - parts_.first;
    if (slot >= 0 && slot < parts_.count) {
      const auto i = static_cast<std::size_t>(slot);
      read_part({part, hosted_[i].reader, true, edge_offsets_[i]}, regions, progress);
    } else {
      const graph::PartReader reader = graph::PartReader::open(directory_, manifest_, part);
      read_part({part, reader, false, 0}, regions, progress);
    }
  }
  if (rank_.rank == 0) regions.indptr.data()[num_local_] = local_edges();
}

void PartLoader::read_part(const Part& part, const GraphRegions& regions, ProgressBar& progress) const {
  read_original_ids(part, regions, progress);
  if (part.hosted || regions.sizes.in_degrees) read_indptr(part, regions, progress);
  if (!part.hosted) return;
  read_indices(part, regions, progress);
  if (regions.sizes.edge_ids) read_edge_ids(part, regions, progress);
  if (regions.sizes.labels) read_labels(part, regions, progress);
}

void PartLoader::read_indptr(const Part& part, const GraphRegions& regions, ProgressBar& progress) const {
  const NodeId first_of_part = manifest_.book.global_of(part.index, 0);
  std::vector<Count> buffer;
  in_chunks(share_of_rows(part.index), [&](Range rows) {
    buffer.resize(static_cast<std::size_t>(rows.count) + 1);
    part.reader.read_indptr(rows.first, rows.count + 1, buffer.data());
    if (rows.first == 0 && buffer.front() != 0) damaged(part.index, "indptr does not begin with 0");
    if (buffer.back() > part.reader.num_edges()) damaged(part.index, "indptr points past the last edge");
    for (Count i = 0; i < rows.count; ++i) {
      const Count degree = buffer[static_cast<std::size_t>(i) + 1] - buffer[static_cast<std::size_t>(i)];
      const NodeId node = first_of_part + rows.first + i;
      if (degree < 0 || degree > std::numeric_limits<std::int32_t>::max()) {
        damaged(part.index, fmt::format("indptr gives row {} {} edges", rows.first + i, degree));
      }
      if (regions.sizes.in_degrees) regions.in_degrees.data()[node] = static_cast<std::int32_t>(degree);
      if (part.hosted) {
        regions.indptr.data()[node - first_node_] = buffer[static_cast<std::size_t>(i)] + part.first_edge;
      }
    }
    progress.advance(rows.count * static_cast<Count>(sizeof(Count)));
  });
}

void PartLoader::read_indices(const Part& part, const GraphRegions& regions, ProgressBar& progress) const {
  regions.indices.visit([&](auto* indices) {
    in_chunks(share_of({0, part.reader.num_edges()}, rank_.rank, rank_.size), [&](Range edges) {
      auto* out = indices + part.first_edge + edges.first;
      part.reader.read_indices(edges.first, edges.count, out);
      const Count bad = find_outside(out, edges.count, manifest_.book.num_nodes());
      if (bad < edges.count) {
        damaged(part.index, fmt::format("indices[{}] is {}, but nodes are 0 to {}", edges.first + bad,
                                        out[bad], manifest_.book.num_nodes() - 1));
      }
      progress.advance(edges.count * static_cast<Count>(sizeof(NodeId)));
    });
  });
}

void PartLoader::read_edge_ids(const Part& part, const GraphRegions& regions, ProgressBar& progress) const {
  in_chunks(share_of({0, part.reader.num_edges()}, rank_.rank, rank_.size), [&](Range edges) {
    part.reader.read_edge_ids(edges.first, edges.count,
                              regions.edge_ids.data() + part.first_edge + edges.first);
    progress.advance(edges.count * static_cast<Count>(sizeof(EdgeId)));
  });
}

void PartLoader::read_original_ids(const Part& part, const GraphRegions& regions,
                                   ProgressBar& progress) const {
  const NodeId first_of_part = manifest_.book.global_of(part.index, 0);
  std::vector<NodeId> buffer;
  in_chunks(share_of_rows(part.index), [&](Range rows) {
    buffer.resize(static_cast<std::size_t>(rows.count));
    part.reader.read_original_ids(rows.first, rows.count, buffer.data());
    const Count bad = find_outside(buffer.data(), rows.count, manifest_.book.num_nodes());
    if (bad < rows.count) {
      damaged(part.index,
              fmt::format("row {} has the original id {}, but nodes are 0 to {}", rows.first + bad,
                          buffer[static_cast<std::size_t>(bad)], manifest_.book.num_nodes() - 1));
    }
    regions.original_ids.visit([&]<typename Id>(Id* ids) {
      std::ranges::transform(buffer, ids + first_of_part + rows.first,
                             [](NodeId id) { return static_cast<Id>(id); });
    });
    progress.advance(rows.count * static_cast<Count>(sizeof(NodeId)));
  });
}

void PartLoader::read_labels(const Part& part, const GraphRegions& regions, ProgressBar& progress) const {
  const Count row0 = manifest_.book.global_of(part.index, 0) - first_node_;
  in_chunks(share_of_rows(part.index), [&](Range rows) {
    std::int32_t* out = regions.labels.data() + row0 + rows.first;
    part.reader.read_labels(rows.first, rows.count, out);
    for (Count i = 0; i < rows.count; ++i) {
      if (out[i] >= -1 && out[i] < manifest_.num_classes) continue;
      damaged(part.index, fmt::format("row {} has label {}, but classes are 0 to {} (-1: none)",
                                      rows.first + i, out[i], manifest_.num_classes - 1));
    }
    progress.advance(rows.count * static_cast<Count>(sizeof(std::int32_t)));
  });
}

std::vector<std::int64_t> PartLoader::read_split_sizes() {
  std::vector<std::int64_t> sizes(2 * static_cast<std::size_t>(parts_.count));
  for (Count slot = 0; slot < parts_.count; ++slot) {
    const int part = static_cast<int>(parts_.first + slot);
    if (!reads_splits_of(part)) continue;
    const auto i = static_cast<std::size_t>(slot);
    Hosted& hosted = hosted_[i];
    const NodeId first_of_part = manifest_.book.global_of(part, 0);
    const auto read = [&](graph::PartReader::Split split) {
      std::vector<NodeId> ids = global_ids(hosted.reader.read_split(split).rows, first_of_part);
      std::ranges::sort(ids);
      return ids;
    };
    hosted.valid = read(graph::PartReader::Split::valid);
    hosted.test = read(graph::PartReader::Split::test);
    sizes[2 * i] = std::ssize(hosted.valid);
    sizes[2 * i + 1] = std::ssize(hosted.test);
  }
  return sizes;
}

void PartLoader::write_splits(const GraphRegions& regions, std::span<const std::int64_t> sizes) const {
  Count valid = 0, test = 0;
  for (std::size_t i = 0; i < hosted_.size(); ++i) {
    std::ranges::copy(hosted_[i].valid, regions.valid.data() + valid);
    std::ranges::copy(hosted_[i].test, regions.test.data() + test);
    valid += sizes[2 * i];
    test += sizes[2 * i + 1];
  }
  write_train(regions);
}

void PartLoader::write_train(const GraphRegions& regions) const {
  for (int part = 0; part < manifest_.book.num_parts(); ++part) {
    if (!reads_splits_of(part)) continue;
    const graph::PartReader reader = graph::PartReader::open(directory_, manifest_, part);
    const graph::PartData::SplitRows split = reader.read_split(graph::PartReader::Split::train);
    for (std::size_t i = 0; i < split.rows.size(); ++i) {
      if (split.ranks[i] < 0 || split.ranks[i] >= regions.train.size()) {
        damaged(part, fmt::format("a training node has rank {} of {}", split.ranks[i], regions.train.size()));
      }
      regions.train.data()[split.ranks[i]] = manifest_.book.global_of(part, split.rows[i]);
    }
  }
}

int PartLoader::part_of_row(Count row) const { return manifest_.book.part_of(first_node_ + row); }

void PartLoader::read_feature_rows(Count first, Count count, std::byte* out) const {
  const std::size_t row_bytes =
      static_cast<std::size_t>(manifest_.feature_cols) * size_of(manifest_.feature_dtype);
  for (Count row = first; row < first + count;) {
    const int part = part_of_row(row);
    const Count row0 = manifest_.book.global_of(part, 0) - first_node_;
    const graph::PartReader& reader = hosted_[static_cast<std::size_t>(part - parts_.first)].reader;
    const Count end = std::min(first + count, row0 + reader.num_inner());
    reader.read_features(row - row0, end - row, out + static_cast<std::size_t>(row - first) * row_bytes);
    row = end;
  }
}

std::string PartLoader::describe_row(Count row) const {
  const int part = part_of_row(row);
  return fmt::format("{}: row {}", graph::part_path(directory_, part).string(),
                     manifest_.book.local_of(first_node_ + row));
}

FeatureSource PartLoader::features() const {
  return {.read = [this](Count first, Count count, std::byte* out) { read_feature_rows(first, count, out); },
          .describe = [this](Count row) { return describe_row(row); }};
}

}  // namespace strata::store
