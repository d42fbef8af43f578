#include "part_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "checked_ids.hpp"
#include "strata/util/error.hpp"

namespace strata::store {
namespace {

constexpr Count kTask = Count{1} << 19;   // elements that a thread takes at once
constexpr Count kChunk = Count{1} << 13;  // elements read at once: they stay in L2 while they are checked

template <typename T>
using Chunk = std::array<T, static_cast<std::size_t>(kChunk)>;  // on the stack: no page faults
using Ids = Chunk<NodeId>;

template <typename T>
std::span<T> first_of(Chunk<T>& chunk, Count count) {
  return std::span(chunk).first(static_cast<std::size_t>(count));
}

/// Writes checked ids into `out` from element `first` on. The position of the first bad one, or ids.size().
Count fill_checked(const HostIds& out, Count first, std::span<const NodeId> ids, NodeId end) {
  Ids staging;
  Count bad = 0;
  out.fill(first, first_of(staging, std::ssize(ids)),
           [&](auto* target) { bad = copy_checked(ids, end, target); });
  return bad;
}

constexpr std::array kLocalSplits{graph::PartReader::Split::valid, graph::PartReader::Split::test};

/// Calls visit(slot, range within it) for the parts of a range that slots of the given offsets hold, cut into
/// chunks.
template <typename Visit>
void in_chunks(std::span<const Count> offsets, Range range, Visit&& visit) {
  auto slot = std::ranges::upper_bound(offsets, range.first) - offsets.begin() - 1;
  for (Count first = range.first; first < range.end();) {
    const Count begin = offsets[static_cast<std::size_t>(slot)],
                end = offsets[static_cast<std::size_t>(slot) + 1];
    const Count count = std::min({kChunk, range.end() - first, end - first});
    if (count > 0) visit(static_cast<int>(slot), Range{first - begin, count});
    first += count;
    if (first == end) ++slot;
  }
}

}  // namespace

PartLoader::PartLoader(const Source& source, Rank rank, ThreadPool& pool)
    : directory_(source.directory),
      manifest_(source.manifest),
      parts_(source.parts),
      rank_(rank),
      pool_(pool),
      others_(static_cast<std::size_t>(manifest_.book.num_parts())) {
  const std::span<const NodeId> offsets = manifest_.book.offsets();
  first_node_ = offsets[static_cast<std::size_t>(parts_.first)];
  num_local_ = offsets[static_cast<std::size_t>(parts_.end())] - first_node_;
  edge_offsets_.push_back(0);
  for (Count part = parts_.first; part < parts_.end(); ++part) {
    hosted_.push_back({graph::PartReader::open(directory_, manifest_, static_cast<int>(part)), {}});
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
  const std::int64_t edge_bytes = 8 + (options.edge_ids ? 8 : 0) + (options.edge_weights ? 4 : 0);
  const Count indptr_rows = options.in_degrees ? manifest_.book.num_nodes() : num_local_;
  const std::int64_t total = num_local_ * (row_bytes + (manifest_.has_labels ? 4 : 0)) +
                             local_edges() * edge_bytes + indptr_rows * 8 + manifest_.book.num_nodes() * 8;
  return total / rank_.size;
}

const graph::PartReader& PartLoader::reader_of(int part) const {
  return hosts(part) ? hosted_[static_cast<std::size_t>(part - parts_.first)].reader
                     : *others_[static_cast<std::size_t>(part)];
}

void PartLoader::open_others(Range nodes) {
  const std::span<const NodeId> offsets = manifest_.book.offsets();
  for (std::size_t p = 0; p < others_.size(); ++p) {
    const int part = static_cast<int>(p);
    const bool reached = std::max(offsets[p], nodes.first) < std::min(offsets[p + 1], nodes.end());
    if (reached && !hosts(part) && !others_[p])
      others_[p] = graph::PartReader::open(directory_, manifest_, part);
  }
}

/// Calls visit(part, rows of it) from all threads, for chunks of a range of global ids.
template <typename Visit>
void PartLoader::visit_nodes(Range nodes, Visit&& visit) const {
  pool_.parallel_for(nodes.count, kTask, [&](Count begin, Count end) {
    in_chunks(manifest_.book.offsets(), {nodes.first + begin, end - begin}, visit);
  });
}

/// Calls visit(part, edges of it) from all threads, for chunks of this rank's share of the machine's edges.
template <typename Visit>
void PartLoader::visit_edges(Visit&& visit) const {
  const Range edges = own({0, local_edges()});
  pool_.parallel_for(edges.count, kTask, [&](Count begin, Count end) {
    in_chunks(edge_offsets_, {edges.first + begin, end - begin}, [&](int slot, Range chunk) {
      visit(static_cast<int>(parts_.first) + slot, chunk, edge_offsets_[static_cast<std::size_t>(slot)]);
    });
  });
}

void PartLoader::read_structure(const GraphRegions& regions, ProgressBar& progress) {
  const NodeId num_nodes = manifest_.book.num_nodes(), end_node = first_node_ + num_local_;
  const Range all = own({0, num_nodes}), before = own({0, first_node_}),
              after = own({end_node, num_nodes - end_node});
  open_others(all);
  read_original_ids(all, regions, progress);
  read_indptr(own({first_node_, num_local_}), regions, progress);
  if (regions.sizes.in_degrees) {
    for (const Range others : {before, after}) {
      open_others(others);
      read_indptr(others, regions, progress);
    }
  }
  if (rank_.rank == 0) regions.indptr.data()[num_local_] = local_edges();
  read_indices(regions, progress);
  if (regions.sizes.edge_ids) read_edge_ids(regions, progress);
  if (regions.sizes.weights) read_weights(regions, progress);
  if (regions.sizes.labels) read_labels(regions, progress);
}

void PartLoader::read_indptr(Range nodes, const GraphRegions& regions, ProgressBar& progress) const {
  visit_nodes(nodes, [&](int part, Range rows) {
    const graph::PartReader& reader = reader_of(part);
    std::array<Count, static_cast<std::size_t>(kChunk) + 1> values;
    const std::span indptr(values.data(), static_cast<std::size_t>(rows.count) + 1);
    reader.read_indptr(rows.first, rows.count + 1, indptr.data());
    if (rows.first == 0 && indptr.front() != 0) damaged(part, "indptr does not begin with 0");
    if (indptr.back() > reader.num_edges()) damaged(part, "indptr points past the last edge");
    const NodeId first = manifest_.book.global_of(part, rows.first);
    Chunk<std::int32_t> degrees;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows.count); ++i) {
      const Count degree = indptr[i + 1] - indptr[i];
      if (degree < 0 || degree > std::numeric_limits<std::int32_t>::max())
        damaged(part,
                fmt::format("indptr gives row {} {} edges", rows.first + static_cast<Count>(i), degree));
      degrees[i] = static_cast<std::int32_t>(degree);
    }
    if (regions.sizes.in_degrees) {
      Chunk<std::int32_t> staging;
      regions.in_degrees.fill(first, first_of(staging, rows.count), [&](std::int32_t* out) {
        std::ranges::copy(first_of(degrees, rows.count), out);
      });
    }
    if (hosts(part)) {
      const Count first_edge = edge_offsets_[static_cast<std::size_t>(part - parts_.first)];
      Ids staging;
      regions.indptr.fill(first - first_node_, first_of(staging, rows.count), [&](Count* out) {
        std::ranges::transform(indptr.first(static_cast<std::size_t>(rows.count)), out,
                               [first_edge](Count edge) { return edge + first_edge; });
      });
    }
    progress.advance(rows.count * static_cast<Count>(sizeof(Count)));
  });
}

void PartLoader::read_indices(const GraphRegions& regions, ProgressBar& progress) const {
  visit_edges([&](int part, Range edges, Count first_edge) {
    Ids values;
    reader_of(part).read_indices(edges.first, edges.count, values.data());
    const Count bad = fill_checked(regions.indices, first_edge + edges.first, first_of(values, edges.count),
                                   manifest_.book.num_nodes());
    if (bad < edges.count) {
      damaged(part, fmt::format("indices[{}] is {}, but nodes are 0 to {}", edges.first + bad,
                                values[static_cast<std::size_t>(bad)], manifest_.book.num_nodes() - 1));
    }
    progress.advance(edges.count * static_cast<Count>(sizeof(NodeId)));
  });
}

void PartLoader::read_edge_ids(const GraphRegions& regions, ProgressBar& progress) const {
  visit_edges([&](int part, Range edges, Count first_edge) {
    Chunk<EdgeId> staging;
    regions.edge_ids.fill(first_edge + edges.first, first_of(staging, edges.count),
                          [&](EdgeId* out) { reader_of(part).read_edge_ids(edges.first, edges.count, out); });
    progress.advance(edges.count * static_cast<Count>(sizeof(EdgeId)));
  });
}

void PartLoader::read_weights(const GraphRegions& regions, ProgressBar& progress) const {
  visit_edges([&](int part, Range edges, Count first_edge) {
    const std::span weights(regions.weights.data() + first_edge + edges.first,
                            static_cast<std::size_t>(edges.count));
    reader_of(part).read_weights(edges.first, edges.count, weights.data());
    const auto bad = std::ranges::find_if_not(weights, graph::is_edge_weight);
    if (bad != weights.end()) {
      damaged(part, fmt::format("weight[{}] is {}, which is negative or not finite",
                                edges.first + (bad - weights.begin()), *bad));
    }
    progress.advance(edges.count * static_cast<Count>(sizeof(float)));
  });
}

void PartLoader::read_original_ids(Range nodes, const GraphRegions& regions, ProgressBar& progress) const {
  visit_nodes(nodes, [&](int part, Range rows) {
    Ids values;
    reader_of(part).read_original_ids(rows.first, rows.count, values.data());
    const Count bad = fill_checked(regions.original_ids, manifest_.book.global_of(part, rows.first),
                                   first_of(values, rows.count), manifest_.book.num_nodes());
    if (bad < rows.count) {
      damaged(part, fmt::format("row {} has the original id {}, but nodes are 0 to {}", rows.first + bad,
                                values[static_cast<std::size_t>(bad)], manifest_.book.num_nodes() - 1));
    }
    progress.advance(rows.count * static_cast<Count>(sizeof(NodeId)));
  });
}

void PartLoader::read_labels(const GraphRegions& regions, ProgressBar& progress) const {
  visit_nodes(own({first_node_, num_local_}), [&](int part, Range rows) {
    Chunk<std::int32_t> staging;
    const Count target = manifest_.book.global_of(part, rows.first) - first_node_;
    regions.labels.fill(target, first_of(staging, rows.count), [&](std::int32_t* labels) {
      reader_of(part).read_labels(rows.first, rows.count, labels);
      for (Count i = 0; i < rows.count; ++i) {
        if (labels[i] >= -1 && labels[i] < manifest_.num_classes) continue;
        damaged(part, fmt::format("row {} has label {}, but classes are 0 to {} (-1: none)", rows.first + i,
                                  labels[i], manifest_.num_classes - 1));
      }
    });
    progress.advance(rows.count * static_cast<Count>(sizeof(std::int32_t)));
  });
}

std::vector<std::int64_t> PartLoader::read_split_sizes() {
  std::vector<std::int64_t> sizes(kLocalSplits.size() * hosted_.size());
  pool_.parallel_for(std::ssize(sizes), 1, [&](Count begin, Count end) {
    for (auto t = static_cast<std::size_t>(begin); t < static_cast<std::size_t>(end); ++t) {
      const std::size_t slot = t / kLocalSplits.size(), split = t % kLocalSplits.size();
      const int part = static_cast<int>(parts_.first) + static_cast<int>(slot);
      if (!reads_splits_of(part)) continue;
      hosted_[slot].splits[split] = mark_rows(part, kLocalSplits[split]);
      sizes[t] = hosted_[slot].reader.split_size(kLocalSplits[split]);
    }
  });
  return sizes;
}

/// Which rows of a part a split names. The file has them in the order of original ids, memory ascending:
/// marks need no sorting and little room until the regions are there.
std::vector<bool> PartLoader::mark_rows(int part, graph::PartReader::Split split) const {
  const graph::PartReader& reader = reader_of(part);
  const Count num_rows = reader.num_inner(), size = reader.split_size(split);
  std::vector<bool> marked(static_cast<std::size_t>(num_rows));
  Ids rows;
  for (Count first = 0; first < size; first += kChunk) {
    const Count count = std::min(kChunk, size - first);
    reader.read_split_rows(split, first, count, rows.data());
    for (const Count row : std::span(rows.data(), static_cast<std::size_t>(count))) {
      if (row < 0 || row >= num_rows || marked[static_cast<std::size_t>(row)])
        damaged(part, fmt::format("a split names row {} of {}, or names it twice", row, num_rows));
      marked[static_cast<std::size_t>(row)] = true;
    }
  }
  return marked;
}

void PartLoader::write_marked(int part, const std::vector<bool>& marked, NodeId* out) const {
  const NodeId first = manifest_.book.global_of(part, 0);
  for (std::size_t row = 0; row < marked.size(); ++row)
    if (marked[row]) *out++ = first + static_cast<NodeId>(row);
}

void PartLoader::write_splits(const GraphRegions& regions, std::span<const std::int64_t> sizes) const {
  std::array<NodeId*, kLocalSplits.size()> next{regions.valid.data(), regions.test.data()};
  std::vector<NodeId*> places;
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    places.push_back(next[t % next.size()]);
    next[t % next.size()] += sizes[t];
  }
  pool_.parallel_for(std::ssize(places), 1, [&](Count begin, Count end) {
    for (auto t = static_cast<std::size_t>(begin); t < static_cast<std::size_t>(end); ++t) {
      const std::size_t slot = t / next.size();
      write_marked(static_cast<int>(parts_.first) + static_cast<int>(slot),
                   hosted_[slot].splits[t % next.size()], places[t]);
    }
  });
  pool_.parallel_for(manifest_.book.num_parts(), 1, [&](Count begin, Count end) {
    for (Count part = begin; part < end; ++part)
      if (reads_splits_of(static_cast<int>(part))) write_train(static_cast<int>(part), regions);
  });
}

void PartLoader::write_train(int part, const GraphRegions& regions) const {
  std::optional<graph::PartReader> opened;
  const bool open = hosts(part) || others_[static_cast<std::size_t>(part)];
  if (!open) opened = graph::PartReader::open(directory_, manifest_, part);
  const graph::PartReader& reader = open ? reader_of(part) : *opened;
  const graph::PartData::SplitRows split = reader.read_split(graph::PartReader::Split::train);
  for (std::size_t i = 0; i < split.rows.size(); ++i) {
    if (split.ranks[i] < 0 || split.ranks[i] >= regions.train.size()) {
      damaged(part, fmt::format("a training node has rank {} of {}", split.ranks[i], regions.train.size()));
    }
    regions.train.data()[split.ranks[i]] = manifest_.book.global_of(part, split.rows[i]);
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
