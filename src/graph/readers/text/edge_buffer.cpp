// SPDX-License-Identifier: Apache-2.0
#include "readers/text/edge_buffer.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "readers/column_names.hpp"
#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {

EdgeBuffer::EdgeBuffer(std::string origin, ScratchStore* scratch)
    : origin_(std::move(origin)), scratch_(scratch) {
  if (scratch_ != nullptr) narrow_file_.emplace(*scratch_);
}

void EdgeBuffer::append(std::span<const NodeId> pairs, double share_read) {
  NodeId largest = largest_, least = 0;
  for (const NodeId id : pairs) {
    largest = std::max(largest, id);
    least = std::min(least, id);
  }
  largest_ = largest;
  if (!wide_ && (largest > std::numeric_limits<std::int32_t>::max() ||
                 least < std::numeric_limits<std::int32_t>::min()))
    widen();
  num_ids_ += std::ssize(pairs);
  if (scratch_ != nullptr) {
    if (wide_)
      wide_file_->append(pairs);
    else
      narrow_file_->append(std::vector<std::int32_t>(pairs.begin(), pairs.end()));
    return;
  }
  make_room(pairs.size(), share_read);
  if (wide_)
    wide_ids_.insert(wide_ids_.end(), pairs.begin(), pairs.end());
  else
    std::ranges::transform(pairs, std::back_inserter(narrow_ids_),
                           [](NodeId id) { return static_cast<std::int32_t>(id); });
}

EdgeList EdgeBuffer::list() {
  close_files();
  const void* first = wide_ ? static_cast<const void*>(wide_ids_.data()) : narrow_ids_.data();
  if (scratch_ != nullptr)
    first = wide_ ? static_cast<const void*>(wide_stored_.data()) : narrow_stored_.data();
  const std::size_t id_bytes = wide_ ? 8 : 4;
  return {.sources = first,
          .destinations = size() == 0 ? first : static_cast<const std::byte*>(first) + id_bytes,
          .count = size(),
          .stride = 2,
          .wide = wide_,
          .origin = origin_};
}

Count EdgeBuffer::count_nodes(const DatasetSource& source, const char* remedy) const {
  constexpr Count kAlways = 1'000'000, kPerEdge = 64;
  const Count nodes = agree_on_nodes(source, largest(), origin_);
  if (nodes > source.nodes.value_or(0) && nodes > kAlways && nodes / kPerEdge > size())
    throw InputError(fmt::format("{}: ids up to {} for {}", origin_, largest(), counted(size(), "edge")),
                     remedy);
  return nodes;
}

void EdgeBuffer::renumber(std::span<const NodeId> map, ThreadPool& pool) {
  constexpr Count kGrain = Count{1} << 16;
  close_files();
  const auto apply = [&](auto ids) {
    pool.parallel_for(std::ssize(ids), kGrain, [&](Count begin, Count end) {
      if (scratch_ != nullptr) scratch_->trim();
      for (auto i = at(begin); i < at(end); ++i)
        ids[i] = static_cast<std::remove_reference_t<decltype(ids[i])>>(map[at(ids[i])]);
    });
  };
  if (wide_)
    apply(scratch_ != nullptr ? wide_stored_.span() : std::span(wide_ids_));
  else
    apply(scratch_ != nullptr ? narrow_stored_.span() : std::span(narrow_ids_));
}

/// Reserves what the whole input will take, by what was read so far, so that growing copies little.
void EdgeBuffer::make_room(std::size_t more, double share_read) {
  const std::size_t held = wide_ ? wide_ids_.size() : narrow_ids_.size(), wanted = held + more;
  const std::size_t room = wide_ ? wide_ids_.capacity() : narrow_ids_.capacity();
  if (wanted <= room) return;
  constexpr double kMargin = 1.05;
  const double estimate = static_cast<double>(wanted) / share_read * kMargin;
  const std::size_t id_bytes = wide_ ? 8 : 4;
  const auto free = at(std::max<std::int64_t>(0, available_host_bytes()));
  if (wanted * id_bytes > free)
    throw OutOfMemory(fmt::format("{}: no room for its first {} edges: wanted {}, free {}", origin_,
                                  format_count(static_cast<Count>(wanted / 2)),
                                  format_bytes(static_cast<std::int64_t>(wanted * id_bytes)),
                                  format_bytes(static_cast<std::int64_t>(free))),
                      "Use a host with more memory.");
  const std::size_t reserve =
      std::max(wanted, at(std::min(estimate, static_cast<double>(free / id_bytes / 2))));
  if (wide_)
    wide_ids_.reserve(reserve);
  else
    narrow_ids_.reserve(reserve);
}

void EdgeBuffer::close_files() {
  if (narrow_file_) narrow_stored_ = std::move(*narrow_file_).finish();
  if (wide_file_) wide_stored_ = std::move(*wide_file_).finish();
  narrow_file_.reset();
  wide_file_.reset();
}

void EdgeBuffer::widen() {
  if (scratch_ != nullptr) {
    constexpr Count kPiece = Count{1} << 16;
    close_files();
    wide_file_.emplace(*scratch_);
    for (Count first = 0; first < num_ids_; first += kPiece) {
      const std::int32_t* const ids = narrow_stored_.data();
      wide_file_->append(std::vector<std::int64_t>(ids + first, ids + std::min(first + kPiece, num_ids_)));
      scratch_->trim();
    }
    narrow_stored_ = {};
    wide_ = true;
    return;
  }
  wide_ids_.assign(narrow_ids_.begin(), narrow_ids_.end());
  narrow_ids_ = {};
  wide_ = true;
}

Count agree_on_nodes(const DatasetSource& source, NodeId largest, const std::string& origin) {
  const Count least = num_nodes_for(largest, origin), stated = source.nodes.value_or(0);
  if (!source.nodes || least <= stated) return std::max(least, stated);
  if (source.nodes_from.empty())
    throw InputError(fmt::format("{}: nodes={}, but there is node {}", origin, stated, largest),
                     "Correct the number; ids count from 0.");
  if (least - stated > source.spare_nodes)
    throw InputError(
        fmt::format("{}: {}, but {} has node {}", source.nodes_from, counted(stated, "row"), origin, largest),
        "Write a row per node; ids count from 0.");
  return least;
}

EdgeBuffer read_csv_edges(const std::filesystem::path& path, CsvExpectation expected, ThreadPool& pool,
                          ScratchStore* scratch) {
  EdgeBuffer edges(path.string(), scratch);
  const std::vector<std::string> names = csv_layout(path).names;
  EdgeEnds ends{.source = 0, .target = 1};
  if (names.size() < 2) {
    expected.cols = 2;
  } else {
    ends = ends_of_edges({}, names, path.string());
    expected.columns = {std::min(ends.source, ends.target), std::max(ends.source, ends.target)};
    spdlog::info("{}: sources from '{}', targets from '{}'; no other columns are read", path.string(),
                 printable(names[at(ends.source)]), printable(names[at(ends.target)]));
  }
  std::vector<NodeId> turned;
  read_csv_pieces<NodeId>(path, expected, pool, scratch, [&](const CsvPiece<NodeId>& piece) {
    std::span<const NodeId> pairs = piece.values;
    if (ends.source > ends.target) {
      turned.assign(pairs.begin(), pairs.end());
      for (std::size_t i = 0; i < turned.size(); i += 2) std::swap(turned[i], turned[i + 1]);
      pairs = turned;
    }
    edges.append(pairs, piece.share_read);
  });
  return edges;
}

}  // namespace strata::graph
