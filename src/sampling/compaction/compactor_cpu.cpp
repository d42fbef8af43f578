// SPDX-License-Identifier: Apache-2.0
#include "compaction/compactor_cpu.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>

#include "mini_batch_buffers.hpp"
#include "strata/cuda/buffer.hpp"

namespace strata::sampling {
namespace {

constexpr int kWordBits = 64;
constexpr Count kBlockWords = 64;
constexpr Count kBlocksPerPiece = 16;
constexpr Count kEdgesPerPiece = 16384;
constexpr Count kEdgesPerBatch = 256;
constexpr Count kNeighborsAhead = 32;

std::size_t word_of(NodeId node) { return at(node) / kWordBits; }
std::uint64_t bit_of(NodeId node) {
  return std::uint64_t{1} << (static_cast<std::uint64_t>(node) % kWordBits);
}
std::size_t block_of(NodeId node) { return at(node) / (kWordBits * kBlockWords); }

}  // namespace

template <typename Id>
Compactor<Id>::Compactor(Count num_nodes, ThreadPool& pool)
    : pool_(pool),
      num_blocks_((num_nodes + kWordBits * kBlockWords - 1) / (kWordBits * kBlockWords)),
      met_(at(num_blocks_ * kBlockWords)),
      known_(met_.size()),
      touched_(at(num_blocks_)),
      piece_counts_(at((num_blocks_ + kBlocksPerPiece - 1) / kBlocksPerPiece)),
      local_ids_(cuda::Memory::host, num_nodes, "local ids of the sampler") {}

template <typename Id>
void Compactor<Id>::start(std::span<const NodeId> seeds) {
  pool_.parallel_for(num_blocks_, kBlocksPerPiece, [&](Count begin, Count end) {
    for (Count b = begin; b < end; ++b) {
      if (!touched_[at(b)]) continue;
      std::fill_n(met_.data() + b * kBlockWords, kBlockWords, 0);
      std::fill_n(known_.data() + b * kBlockWords, kBlockWords, 0);
      touched_[at(b)] = 0;
    }
  });
  std::int32_t local_id = 0;
  for (const NodeId seed : seeds) {
    if (seed < 0 || seed >= local_ids_.size() || (known_[word_of(seed)] & bit_of(seed)) != 0)
      refuse_seed(seed, local_ids_.size());
    met_[word_of(seed)] |= bit_of(seed);
    known_[word_of(seed)] |= bit_of(seed);
    touched_[block_of(seed)] = 1;
    local_ids_[seed] = local_id++;
  }
}

template <typename Id>
Count Compactor<Id>::extend(const Id* neighbors, Count num_edges, NodeId* nodes, Count num_known) {
  pool_.parallel_for(num_edges, kEdgesPerPiece, [&](Count begin, Count end) { mark(neighbors, begin, end); });
  const Count total = offset_pieces(num_known, [&](std::size_t word) { return met_[word] & ~known_[word]; });
  check_local_ids_suffice(total);
  pool_.parallel_for(num_blocks_, kBlocksPerPiece, [&](Count begin, Count end) {
    number_new(begin, end, nodes, piece_counts_[at(begin / kBlocksPerPiece)]);
  });
  return total;
}

template <typename Id>
void Compactor<Id>::sort(NodeId* nodes, std::int32_t* local_ids) {
  offset_pieces(0, [&](std::size_t word) { return known_[word]; });
  pool_.parallel_for(num_blocks_, kBlocksPerPiece, [&](Count begin, Count end) {
    Count next = piece_counts_[at(begin / kBlocksPerPiece)];
    visit_words(begin, end, [&](std::size_t word) {
      for (std::uint64_t bits = known_[word]; bits != 0; bits &= bits - 1) {
        const NodeId node = static_cast<NodeId>(word) * kWordBits + std::countr_zero(bits);
        nodes[next] = node;
        local_ids[next++] = local_ids_[node];
      }
    });
  });
}

template <typename Id>
void Compactor<Id>::relabel(const Id* neighbors, Count num_edges, std::int32_t* local_ids) const {
  pool_.parallel_for(num_edges, kEdgesPerPiece, [&](Count begin, Count end) {
    for (Count e = begin; e < end; ++e) local_ids[e] = local_ids_[neighbors[e]];
  });
}

// Threads mark at the same time. Most neighbors were met before, and then nothing is written. Which ones
// cannot be predicted, so the others are collected without a branch.
template <typename Id>
void Compactor<Id>::mark(const Id* neighbors, Count begin, Count end) {
  std::array<Id, kEdgesPerBatch> fresh;
  for (Count first = begin; first < end; first += kEdgesPerBatch) {
    const Count last = std::min(end, first + kEdgesPerBatch);
    std::size_t num_fresh = 0;
    for (Count e = first; e < last; ++e) {
      if (e + kNeighborsAhead < end) __builtin_prefetch(&met_[word_of(neighbors[e + kNeighborsAhead])]);
      const Id node = neighbors[e];
      const std::atomic_ref<std::uint64_t> word(met_[word_of(node)]);
      fresh[num_fresh] = node;
      num_fresh += (word.load(std::memory_order_relaxed) & bit_of(node)) == 0 ? 1 : 0;
    }
    for (std::size_t i = 0; i < num_fresh; ++i) {
      const NodeId node = fresh[i];
      std::atomic_ref<std::uint64_t>(met_[word_of(node)]).fetch_or(bit_of(node), std::memory_order_relaxed);
      std::atomic_ref<std::uint8_t>(touched_[block_of(node)]).store(1, std::memory_order_relaxed);
    }
  }
}

template <typename Id>
template <typename Visitor>
void Compactor<Id>::visit_words(Count first_block, Count last_block, Visitor&& visitor) const {
  for (Count b = first_block; b < last_block; ++b) {
    if (!touched_[at(b)]) continue;
    for (Count w = b * kBlockWords; w < (b + 1) * kBlockWords; ++w) visitor(at(w));
  }
}

/// Sets piece_counts_[p] to first + the bits of all pieces before p. Returns first + all bits.
template <typename Id>
template <typename Bits>
Count Compactor<Id>::offset_pieces(Count first, const Bits& bits_of) {
  pool_.parallel_for(num_blocks_, kBlocksPerPiece, [&](Count begin, Count end) {
    Count count = 0;
    visit_words(begin, end, [&](std::size_t word) { count += std::popcount(bits_of(word)); });
    piece_counts_[at(begin / kBlocksPerPiece)] = count;
  });
  Count total = first;
  for (Count& count : piece_counts_) total += std::exchange(count, total);
  return total;
}

template <typename Id>
void Compactor<Id>::number_new(Count first_block, Count last_block, NodeId* nodes, Count local_id) {
  visit_words(first_block, last_block, [&](std::size_t word) {
    for (std::uint64_t fresh = met_[word] & ~known_[word]; fresh != 0; fresh &= fresh - 1) {
      const NodeId node = static_cast<NodeId>(word) * kWordBits + std::countr_zero(fresh);
      nodes[local_id] = node;
      local_ids_[node] = static_cast<std::int32_t>(local_id++);
    }
    known_[word] = met_[word];
  });
}

template class Compactor<std::int32_t>;
template class Compactor<std::int64_t>;

}  // namespace strata::sampling
