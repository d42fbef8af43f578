// SPDX-License-Identifier: Apache-2.0
#include "load/sublist_share.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/text.hpp"

namespace strata::store {
namespace {

constexpr Count kListsPerPiece = Count{1} << 15;

}  // namespace

SublistShare::SublistShare(const PartLoader& loader, const graph::Manifest& manifest, ThreadPool& pool) {
  if (loader.num_lists() > std::numeric_limits<std::int32_t>::max())
    throw InputError(fmt::format("the {} nodes of a machine are too many for a graph of several relations "
                                 "(2^31 - 1)",
                                 format_count(loader.num_lists())),
                     "Use more machines.");
  const graph::RelationRanges ranges(manifest.types);
  const Range lists = loader.own_lists();
  pieces_.resize(at((lists.count + kListsPerPiece - 1) / kListsPerPiece));
  pool.parallel_for(lists.count, kListsPerPiece, [&](Count begin, Count end) {
    Piece& piece = pieces_[at(begin / kListsPerPiece)];
    piece.lists = {lists.first + begin, end - begin};
    graph::SublistScan scan(ranges);
    loader.scan_lists(piece.lists, scan);
    piece.sublists = std::move(scan).finish();
  });
}

void SublistShare::count(const comm::Machine& machine, plan::RegionSizes& sizes) {
  std::vector<std::int64_t> counts(at(machine.size())), most{0};
  for (const Piece& piece : pieces_) {
    counts[at(machine.rank())] += piece.sublists.size();
    most[0] = std::max(most[0], graph::most_of_a_node(piece.sublists));
  }
  machine.communicator().all_reduce(std::span(counts));
  machine.communicator().all_reduce(std::span(most), comm::Communicator::Op::max);
  before_ = std::accumulate(counts.begin(), counts.begin() + machine.rank(), Count{0});
  sizes.sublists = std::accumulate(counts.begin(), counts.end(), Count{0});
  sizes.most_sublists = most[0];
}

void SublistShare::move_to(const GraphRegions& regions) {
  Count next = before_;
  for (Piece& piece : pieces_) {
    const graph::Sublists sublists = std::exchange(piece.sublists, {});
    const Count entries = regions.indptr.data()[piece.lists.first];
    for (Count list = 0; list < piece.lists.count; ++list) {
      const Count first = sublists.first[at(list)], end = sublists.first[at(list) + 1];
      regions.sublist_first.data()[piece.lists.first + list] = next + first;
      std::fill(regions.sublist_nodes.data() + next + first, regions.sublist_nodes.data() + next + end,
                static_cast<std::int32_t>(piece.lists.first + list));
    }
    for (Count s = 0; s < sublists.size(); ++s)
      regions.sublist_begins.data()[next + s] = entries + sublists.begins[at(s)];
    std::ranges::copy(sublists.relations, regions.sublist_relations.data() + next);
    next += sublists.size();
  }
  pieces_.clear();
}

}  // namespace strata::store
