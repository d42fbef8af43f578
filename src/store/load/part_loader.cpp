// SPDX-License-Identifier: Apache-2.0
#include "load/part_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "load/checked_ids.hpp"
#include "strata/util/error.hpp"

namespace strata::store {
namespace {

constexpr Count kTask = Count{1} << 19;          // elements per task of a thread
constexpr Count kChunk = graph::kMostBlockRows;  // elements per read, which stay in L2 while they are checked

template <typename T>
using Chunk = std::array<T, at(kChunk)>;  // on the stack: no page faults
using Ids = Chunk<NodeId>;

template <typename T>
std::span<T> first_of(Chunk<T>& chunk, Count count) {
  return std::span(chunk).first(at(count));
}

/// Writes checked ids to `out` from element `first` on. Returns the position of the first bad id, or
/// ids.size().
Count fill_checked(const HostIds& out, Count first, std::span<const NodeId> ids, NodeId end) {
  Ids staging;
  Count bad = 0;
  out.fill(first, first_of(staging, std::ssize(ids)),
           [&](auto* target) { bad = copy_checked(ids, end, target); });
  return bad;
}

constexpr std::array kLocalSplits{graph::Split::valid, graph::Split::test};

/// The begin of the block of elements that contains `place`; parts have the given offsets.
Count start_of_block(std::span<const Count> offsets, Count place) {
  const Count begin = *(std::ranges::upper_bound(offsets, place) - 1);
  return begin + (place - begin) / kChunk * kChunk;
}

/// The task [begin, end) of `whole`, moved to begin and end with blocks, except at the ends of `whole`. So no
/// two tasks read the same block.
Range whole_blocks(std::span<const Count> offsets, Range whole, Count begin, Count end) {
  const Count first =
      begin == 0 ? whole.first : std::max(whole.first, start_of_block(offsets, whole.first + begin));
  const Count last =
      end == whole.count ? whole.end() : std::max(whole.first, start_of_block(offsets, whole.first + end));
  return {first, last - first};
}

/// Calls visit(part, range within it) for a range over parts of the given offsets, cut into chunks that end
/// with blocks.
template <typename Visit>
void in_chunks(std::span<const Count> offsets, Range range, Visit&& visit) {
  if (range.count <= 0) return;
  auto part = std::ranges::upper_bound(offsets, range.first) - offsets.begin() - 1;
  for (Count first = range.first; first < range.end();) {
    const Count begin = offsets[at(part)], end = offsets[at(part) + 1];
    const Count count = std::min({kChunk - (first - begin) % kChunk, range.end() - first, end - first});
    if (count > 0) visit(static_cast<int>(part), Range{first - begin, count});
    first += count;
    if (first == end) ++part;
  }
}

}  // namespace

PartLoader::PartLoader(const Source& source, Rank rank, ThreadPool& pool)
    : origin_(source.origin),
      manifest_(source.manifest),
      parts_(source.parts),
      lists_(source.all_lists ? Range{0, source.manifest.book.num_parts()} : source.parts),
      verify_(source.verify),
      rank_(rank),
      pool_(pool),
      others_(at(manifest_.book.num_parts())) {
  const std::span<const NodeId> offsets = manifest_.book.offsets();
  first_node_ = offsets[at(parts_.first)];
  num_local_ = offsets[at(parts_.end())] - first_node_;
  list_nodes_.first = offsets[at(lists_.first)];
  list_nodes_.count = offsets[at(lists_.end())] - list_nodes_.first;
  edge_offsets_.push_back(0);
  for (Count part = lists_.first; part < lists_.end(); ++part) {
    hosted_.push_back({open_part(static_cast<int>(part)), {}});
    edge_offsets_.push_back(edge_offsets_.back() + hosted_.back().reader.num_edges());
  }
}

graph::PartReader PartLoader::open_part(int part) const {
  return graph::PartReader::open(origin_, manifest_, part, verify_);
}

void PartLoader::damaged(int part, const std::string& what) const {
  graph::refuse_damaged(origin_, part, what);
}

std::int64_t PartLoader::share_bytes(const LoadOptions& options) const {
  const std::int64_t row_bytes = manifest_.feature_row_bytes();
  const std::int64_t edge_bytes = 8 + (options.edge_ids ? 8 : 0) + (options.edge_weights ? 4 : 0);
  const Count indptr_rows = options.in_degrees ? manifest_.book.num_nodes() : list_nodes_.count;
  const std::int64_t total =
      num_local_ * (row_bytes + (manifest_.has_labels ? 4 * manifest_.label_words() : 0)) +
      local_edges() * edge_bytes + indptr_rows * 8 + manifest_.book.num_nodes() * 8;
  return total / rank_.size;
}

const graph::PartReader& PartLoader::reader_of(int part) const {
  return has_lists(part) ? hosted_[at(part - lists_.first)].reader : *others_[at(part)];
}

void PartLoader::open_others(Range nodes) {
  const std::span<const NodeId> offsets = manifest_.book.offsets();
  for (std::size_t p = 0; p < others_.size(); ++p) {
    const int part = static_cast<int>(p);
    const bool reached = std::max(offsets[p], nodes.first) < std::min(offsets[p + 1], nodes.end());
    if (reached && !has_lists(part) && !others_[p]) others_[p] = open_part(part);
  }
}

/// Calls visit(part, rows of it, the thread's recent blocks) from all threads, for chunks of a range of
/// global ids.
template <typename Visit>
void PartLoader::visit_nodes(Range nodes, Visit&& visit) const {
  const std::span<const NodeId> offsets = manifest_.book.offsets();
  pool_.parallel_for(nodes.count, kTask, [&](Count begin, Count end) {
    graph::RecentBlocks recent;
    in_chunks(offsets, whole_blocks(offsets, nodes, begin, end),
              [&](int part, Range rows) { visit(part, rows, recent); });
  });
}

/// Calls visit(part, edges of it, where the part's edges begin, the thread's recent blocks) from all threads,
/// for chunks of this rank's share of the machine's edges.
template <typename Visit>
void PartLoader::visit_edges(Visit&& visit) const {
  const Range edges = own({0, local_edges()});
  pool_.parallel_for(edges.count, kTask, [&](Count begin, Count end) {
    graph::RecentBlocks recent;
    in_chunks(edge_offsets_, whole_blocks(edge_offsets_, edges, begin, end), [&](int part, Range chunk) {
      visit(static_cast<int>(lists_.first) + part, chunk, edge_offsets_[at(part)], recent);
    });
  });
}

void PartLoader::read_structure(const GraphRegions& regions, ProgressBar& progress) {
  const NodeId num_nodes = manifest_.book.num_nodes(), end_list = list_nodes_.end();
  const Range all = own({0, num_nodes}), before = own({0, list_nodes_.first}),
              after = own({end_list, num_nodes - end_list});
  open_others(all);
  read_original_ids(all, regions, progress);
  read_indptr(own(list_nodes_), regions, progress);
  if (regions.sizes.in_degrees) {
    for (const Range others : {before, after}) {
      open_others(others);
      read_indptr(others, regions, progress);
    }
  }
  if (rank_.rank == 0) regions.indptr.data()[list_nodes_.count] = local_edges();
  read_all_edges({.indices = &regions.indices}, sizeof(NodeId), progress);
  if (regions.sizes.edge_ids) read_all_edges({.edge_ids = &regions.edge_ids}, sizeof(EdgeId), progress);
  if (regions.sizes.weights) read_all_edges({.weights = &regions.weights}, sizeof(float), progress);
  if (regions.sizes.label_words > 0) read_labels(regions, progress);
}

void PartLoader::check_indptr(int part, Range rows, std::span<const Count> indptr) const {
  if (rows.first == 0 && indptr.front() != 0) damaged(part, "indptr does not begin with 0");
  if (indptr.front() < 0 || indptr.back() > reader_of(part).num_edges())
    damaged(part, "indptr points past the last edge");
  for (std::size_t i = 0; i < at(rows.count); ++i) {
    const Count degree = indptr[i + 1] - indptr[i];
    if (degree < 0 || degree > std::numeric_limits<std::int32_t>::max())
      damaged(part, fmt::format("indptr gives row {} {} edges", rows.first + static_cast<Count>(i), degree));
  }
}

void PartLoader::read_indptr(Range nodes, const GraphRegions& regions, ProgressBar& progress) const {
  visit_nodes(nodes, [&](int part, Range rows, graph::RecentBlocks& recent) {
    const graph::PartReader& reader = reader_of(part);
    std::array<Count, at(kChunk) + 1> values;
    const std::span indptr(values.data(), at(rows.count) + 1);
    reader.read_indptr(rows.first, rows.count + 1, indptr.data(), &recent);
    check_indptr(part, rows, indptr);
    const NodeId first = manifest_.book.global_of(part, rows.first);
    Chunk<std::int32_t> degrees;
    for (std::size_t i = 0; i < at(rows.count); ++i)
      degrees[i] = static_cast<std::int32_t>(indptr[i + 1] - indptr[i]);
    if (regions.sizes.in_degrees) {
      Chunk<std::int32_t> staging;
      regions.in_degrees.fill(first, first_of(staging, rows.count), [&](std::int32_t* out) {
        std::ranges::copy(first_of(degrees, rows.count), out);
      });
    }
    if (has_lists(part)) {
      const Count first_edge = edge_offsets_[at(part - lists_.first)];
      Ids staging;
      regions.indptr.fill(first - list_nodes_.first, first_of(staging, rows.count), [&](Count* out) {
        std::ranges::transform(indptr.first(at(rows.count)), out,
                               [first_edge](Count edge) { return edge + first_edge; });
      });
    }
    progress.advance(rows.count * static_cast<Count>(sizeof(Count)));
  });
}

void PartLoader::scan_lists(Range lists, graph::SublistScan& scan) const {
  graph::RecentBlocks recent;
  in_chunks(manifest_.book.offsets(), {list_nodes_.first + lists.first, lists.count},
            [&](int part, Range rows) { scan_rows(part, rows, scan, recent); });
}

void PartLoader::scan_lists(std::span<const NodeId> nodes, graph::SublistScan& scan) const {
  graph::RecentBlocks recent;
  for (const NodeId node : nodes)
    scan_rows(manifest_.book.part_of(node), {manifest_.book.local_of(node), 1}, scan, recent);
}

void PartLoader::scan_rows(int part, Range rows, graph::SublistScan& scan,
                           graph::RecentBlocks& recent) const {
  const graph::PartReader& reader = reader_of(part);
  std::array<Count, at(kChunk) + 1> values;
  const std::span indptr(values.data(), at(rows.count) + 1);
  reader.read_indptr(rows.first, rows.count + 1, indptr.data(), &recent);
  check_indptr(part, rows, indptr);
  Chunk<EdgeId> ids;
  Range held{indptr.front(), 0};
  for (std::size_t i = 0; i < at(rows.count); ++i) {
    scan.begin_list();
    for (Count edge = indptr[i]; edge < indptr[i + 1];) {
      if (edge == held.end()) {
        held = {edge, std::min(kChunk - edge % kChunk, indptr.back() - edge)};
        reader.read_edge_ids(held.first, held.count, ids.data(), &recent);
      }
      const Count count = std::min(indptr[i + 1], held.end()) - edge;
      if (!scan.add(std::span(ids).subspan(at(edge - held.first), at(count))))
        damaged(part, fmt::format("the list of row {} has an edge of no relation, or is not in their order",
                                  rows.first + static_cast<Count>(i)));
      edge += count;
    }
  }
}

void PartLoader::read_edges(int part, Range edges, const Lists& out, Count place,
                            graph::RecentBlocks& recent) const {
  const graph::PartReader& reader = reader_of(part);
  if (out.indices != nullptr) {
    Ids values;
    reader.read_indices(edges.first, edges.count, values.data(), &recent);
    const Count bad =
        fill_checked(*out.indices, place, first_of(values, edges.count), manifest_.book.num_nodes());
    if (bad < edges.count) {
      damaged(part, fmt::format("indices[{}] is {}, but nodes are 0 to {}", edges.first + bad,
                                values[at(bad)], manifest_.book.num_nodes() - 1));
    }
  }
  if (out.edge_ids != nullptr) {
    Chunk<EdgeId> staging;
    out.edge_ids->fill(place, first_of(staging, edges.count),
                       [&](EdgeId* ids) { reader.read_edge_ids(edges.first, edges.count, ids, &recent); });
  }
  if (out.weights != nullptr) {
    Chunk<float> staging;
    out.weights->fill(place, first_of(staging, edges.count), [&](float* data) {
      const std::span weights(data, at(edges.count));
      reader.read_weights(edges.first, edges.count, data, &recent);
      const auto bad = std::ranges::find_if_not(weights, graph::is_edge_weight);
      if (bad == weights.end()) return;
      damaged(part, fmt::format("weight[{}] is {}, which is negative or not finite",
                                edges.first + (bad - weights.begin()), *bad));
    });
  }
}

void PartLoader::read_all_edges(const Lists& out, std::size_t edge_bytes, ProgressBar& progress) const {
  visit_edges([&](int part, Range edges, Count first_edge, graph::RecentBlocks& recent) {
    read_edges(part, edges, out, first_edge + edges.first, recent);
    progress.advance(edges.count * static_cast<Count>(edge_bytes));
  });
}

void PartLoader::read_original_ids(Range nodes, const GraphRegions& regions, ProgressBar& progress) const {
  visit_nodes(nodes, [&](int part, Range rows, graph::RecentBlocks&) {
    Ids values;
    reader_of(part).read_original_ids(rows.first, rows.count, values.data());
    const Count bad = fill_checked(regions.original_ids, manifest_.book.global_of(part, rows.first),
                                   first_of(values, rows.count), manifest_.book.num_nodes());
    if (bad < rows.count) {
      damaged(part, fmt::format("row {} has the original id {}, but nodes are 0 to {}", rows.first + bad,
                                values[at(bad)], manifest_.book.num_nodes() - 1));
    }
    progress.advance(rows.count * static_cast<Count>(sizeof(NodeId)));
  });
}

void PartLoader::check_labels(int part, Range rows, const std::int32_t* labels) const {
  const LabelShape shape = manifest_.label_shape();
  for (Count i = 0; i < rows.count; ++i) {
    const std::int32_t* label = labels + i * shape.words();
    if (shape.allows(label)) continue;
    const Count row = rows.first + i;
    if (shape.targets > 0) damaged(part, fmt::format("a target of row {} is not finite", row));
    if (shape.sets)
      damaged(part, fmt::format("the label of row {} is no set of {} classes", row, shape.classes));
    damaged(part, fmt::format("row {} has label {}, but classes are 0 to {} (-1: none)", row, *label,
                              shape.classes - 1));
  }
}

void PartLoader::read_labels(const GraphRegions& regions, ProgressBar& progress) const {
  const Count words = regions.sizes.label_words;
  visit_nodes(own({first_node_, num_local_}), [&](int part, Range rows, graph::RecentBlocks&) {
    std::vector<std::int32_t> staging(at(rows.count * words));
    const Count target = manifest_.book.global_of(part, rows.first) - first_node_;
    regions.labels.fill(target * words, std::span(staging), [&](std::int32_t* labels) {
      reader_of(part).read_labels(rows.first, rows.count, labels);
      check_labels(part, rows, labels);
    });
    progress.advance(rows.count * words * static_cast<Count>(sizeof(std::int32_t)));
  });
}

std::vector<std::int64_t> PartLoader::read_split_sizes() {
  std::vector<std::int64_t> sizes(kLocalSplits.size() * at(parts_.count));
  pool_.parallel_for(std::ssize(sizes), 1, [&](Count begin, Count end) {
    for (auto t = at(begin); t < at(end); ++t) {
      const std::size_t split = t % kLocalSplits.size();
      const int part = static_cast<int>(parts_.first) + static_cast<int>(t / kLocalSplits.size());
      if (!reads_splits_of(part)) continue;
      hosted(part).splits[split] = mark_rows(part, kLocalSplits[split]);
      sizes[t] = hosted(part).reader.split_size(kLocalSplits[split]);
    }
  });
  return sizes;
}

/// Marks the rows of a part that a split names. The file has them in the order of original ids, memory needs
/// them ascending. Marks need no sorting, and little room until the regions are there.
std::vector<bool> PartLoader::mark_rows(int part, graph::Split split) const {
  const graph::PartReader& reader = reader_of(part);
  const Count size = reader.split_size(split);
  std::vector<bool> marked(at(reader.num_inner()));
  Ids rows;
  for (Count first = 0; first < size; first += kChunk) {
    const Count count = std::min(kChunk, size - first);
    reader.read_split_rows(split, first, count, rows.data());
    for (const Count row : std::span(rows.data(), at(count))) mark_row(part, row, marked);
  }
  return marked;
}

void PartLoader::mark_row(int part, Count row, std::vector<bool>& marked) const {
  const Count num_rows = std::ssize(marked);
  if (row < 0 || row >= num_rows || marked[at(row)])
    damaged(part, fmt::format("a split names row {} of {}, or names it twice", row, num_rows));
  marked[at(row)] = true;
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
    for (auto t = at(begin); t < at(end); ++t) {
      const int part = static_cast<int>(parts_.first) + static_cast<int>(t / next.size());
      write_marked(part, hosted(part).splits[t % next.size()], places[t]);
    }
  });
  pool_.parallel_for(manifest_.book.num_parts(), 1, [&](Count begin, Count end) {
    for (Count part = begin; part < end; ++part)
      if (reads_splits_of(static_cast<int>(part))) write_train(static_cast<int>(part), regions);
  });
}

void PartLoader::write_train(int part, const GraphRegions& regions) const {
  std::optional<graph::PartReader> opened;
  const bool open = has_lists(part) || others_[at(part)];
  if (!open) opened = open_part(part);
  const graph::PartReader& reader = open ? reader_of(part) : *opened;
  const graph::PartData::SplitRows split = reader.read_split(graph::Split::train);
  std::vector<bool> marked(at(reader.num_inner()));
  for (std::size_t i = 0; i < split.rows.size(); ++i) {
    if (split.ranks[i] < 0 || split.ranks[i] >= regions.train.size()) {
      damaged(part, fmt::format("a training node has rank {} of {}", split.ranks[i], regions.train.size()));
    }
    mark_row(part, split.rows[i], marked);
    regions.train.data()[split.ranks[i]] = manifest_.book.global_of(part, split.rows[i]);
  }
  if (!regions.sizes.train_clusters || part < parts_.first || part >= parts_.end()) return;
  const std::vector<std::int32_t> clusters = reader.read_clusters_of(split.rows);
  const auto before = static_cast<std::int32_t>(part * manifest_.num_clusters);
  for (std::size_t i = 0; i < clusters.size(); ++i)
    regions.train_clusters.data()[split.ranks[i]] = before + clusters[i];
}

NodeId PartLoader::node_of_row(Count row) const {
  return row < num_local_ ? first_node_ + row : added_rows_[at(row - num_local_)];
}

int PartLoader::part_of_row(Count row) const { return manifest_.book.part_of(node_of_row(row)); }

void PartLoader::read_feature_rows(Count first, Count count, std::byte* out) const {
  const auto row_bytes = at(manifest_.feature_row_bytes());
  graph::RecentBlocks recent;
  for (Count row = first; row < first + count;) {
    const int part = part_of_row(row);
    const graph::PartReader& reader = reader_of(part);
    const Count local = manifest_.book.local_of(node_of_row(row));
    Count end = row + 1;  // end of a run of rows in the file
    if (row < num_local_) {
      end = std::min({first + count, num_local_, row - local + reader.num_inner()});
    } else {
      while (end < first + count && node_of_row(end) == node_of_row(end - 1) + 1 && part_of_row(end) == part)
        ++end;
    }
    reader.read_features(local, end - row, out + at(row - first) * row_bytes, &recent);
    row = end;
  }
}

/// The first row of the file's block that contains `row`. A row of another machine's node is a block of its
/// own.
Count PartLoader::block_start(Count row) const {
  if (row >= num_local_) return row;
  const Count local = manifest_.book.local_of(node_of_row(row));
  return row - local % reader_of(part_of_row(row)).feature_block_rows();
}

std::string PartLoader::describe_row(Count row) const {
  const int part = part_of_row(row);
  return fmt::format("{}: row {}", graph::name_of_part(origin_, part),
                     manifest_.book.local_of(node_of_row(row)));
}

void PartLoader::add_feature_rows(std::span<const NodeId> nodes) {
  open_others({0, manifest_.book.num_nodes()});
  added_rows_ = nodes;
}

void PartLoader::visit_indptr(Range nodes, const std::function<void(NodeId, std::span<const Count>)>& visit) {
  open_others(nodes);
  visit_nodes(nodes, [&](int part, Range rows, graph::RecentBlocks& recent) {
    std::array<Count, at(kChunk) + 1> indptr;
    const std::span read = std::span(indptr).first(at(rows.count) + 1);
    reader_of(part).read_indptr(rows.first, rows.count + 1, indptr.data(), &recent);
    check_indptr(part, rows, read);
    visit(manifest_.book.global_of(part, rows.first), read);
  });
}

void PartLoader::read_lists(std::span<const NodeId> nodes, const Count* offsets, const Lists& out) {
  // ascending, so that a block is read once for all nodes of a task in it
  constexpr Count kNodesPerTask = 1024;
  open_others({0, manifest_.book.num_nodes()});
  pool_.parallel_for(std::ssize(nodes), kNodesPerTask, [&](Count begin, Count end) {
    graph::RecentBlocks recent;
    for (Count i = begin; i < end; ++i)
      read_list(nodes[at(i)], {offsets[i], offsets[i + 1] - offsets[i]}, out, recent);
  });
}

void PartLoader::read_list(NodeId node, Range place, const Lists& out, graph::RecentBlocks& recent) const {
  const int part = manifest_.book.part_of(node);
  const Count row = manifest_.book.local_of(node);
  std::array<Count, 2> list;
  reader_of(part).read_indptr(row, 2, list.data(), &recent);
  if (list[1] - list[0] != place.count)
    damaged(part, fmt::format("the list of row {} changed while it was read", row));
  for (Count done = 0; done < place.count; done += kChunk)
    read_edges(part, {list[0] + done, std::min(kChunk, place.count - done)}, out, place.first + done, recent);
}

FeatureSource PartLoader::features() const {
  return {.read = [this](Count first, Count count, std::byte* out) { read_feature_rows(first, count, out); },
          .describe = [this](Count row) { return describe_row(row); },
          .block_start = [this](Count row) { return block_start(row); }};
}

}  // namespace strata::store
