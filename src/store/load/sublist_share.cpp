// SPDX-License-Identifier: Apache-2.0
#include "load/sublist_share.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace strata::store {
namespace {

constexpr Count kListsPerPiece = Count{1} << 15;

}  // namespace

SublistShare::SublistShare(const graph::RelationRanges& ranges, Range share, const Scan& scan,
                           ThreadPool& pool) {
  pieces_.resize(at((share.count + kListsPerPiece - 1) / kListsPerPiece));
  pool.parallel_for(share.count, kListsPerPiece, [&](Count begin, Count end) {
    Piece& piece = pieces_[at(begin / kListsPerPiece)];
    piece.lists = {share.first + begin, end - begin};
    graph::SublistScan of_piece(ranges);
    scan(piece.lists, of_piece);
    piece.sublists = std::move(of_piece).finish();
  });
}

SublistShare::Sizes SublistShare::count(const comm::Machine& machine) {
  std::vector<std::int64_t> counts(at(machine.size())), most{0};
  for (const Piece& piece : pieces_) {
    counts[at(machine.rank())] += piece.sublists.size();
    most[0] = std::max(most[0], graph::most_of_a_node(piece.sublists));
  }
  machine.communicator().all_reduce(std::span(counts));
  machine.communicator().all_reduce(std::span(most), comm::Communicator::Op::max);
  before_ = std::accumulate(counts.begin(), counts.begin() + machine.rank(), Count{0});
  return {.sublists = std::accumulate(counts.begin(), counts.end(), Count{0}), .most_of_a_list = most[0]};
}

void SublistShare::move_to(const SublistArrays& arrays, const Count* indptr) {
  Count next = before_;
  for (Piece& piece : pieces_) {
    const graph::Sublists sublists = std::exchange(piece.sublists, {});
    const Count entries = indptr[piece.lists.first];
    for (Count list = 0; list < piece.lists.count; ++list) {
      const Count first = sublists.first[at(list)], end = sublists.first[at(list) + 1];
      arrays.first[piece.lists.first + list] = next + first;
      std::fill(arrays.nodes + next + first, arrays.nodes + next + end,
                static_cast<std::int32_t>(piece.lists.first + list));
    }
    for (Count s = 0; s < sublists.size(); ++s) arrays.begins[next + s] = entries + sublists.begins[at(s)];
    std::ranges::copy(sublists.relations, arrays.relations + next);
    next += sublists.size();
  }
  pieces_.clear();
}

}  // namespace strata::store
