// SPDX-License-Identifier: Apache-2.0
#include "evaluation/node_set.hpp"

#include <algorithm>
#include <atomic>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::train {

// One more word, so that rank(num_nodes) is defined.
NodeSet::NodeSet(Count num_nodes) : words_(at(num_nodes / RankedWord::kNodes + 1)) {}

void NodeSet::insert(NodeId node) {
  const std::uint64_t bit = std::uint64_t{1} << (node % RankedWord::kNodes);
  const std::atomic_ref bits(words_[at(node / RankedWord::kNodes)].bits);
  if ((bits.load(std::memory_order_relaxed) & bit) == 0) bits.fetch_or(bit, std::memory_order_relaxed);
}

void NodeSet::unite(const comm::Communicator& communicator) {
  std::vector<std::int64_t> bits(words_.size());
  std::ranges::transform(words_, bits.begin(),
                         [](const RankedWord& word) { return std::bit_cast<std::int64_t>(word.bits); });
  communicator.all_reduce(std::span(bits), comm::Communicator::Op::bit_or);
  size_ = 0;
  for (std::size_t w = 0; w < words_.size(); ++w) {
    words_[w] = {.bits = std::bit_cast<std::uint64_t>(bits[w]), .before = size_};
    size_ += std::popcount(words_[w].bits);
  }
}

NodeId NodeSet::node_of(Count rank) const {
  const auto behind = std::ranges::upper_bound(words_, rank, {}, &RankedWord::before);
  const RankedWord& word = *std::prev(behind);
  std::uint64_t bits = word.bits;
  for (Count left = rank - word.before; left > 0; --left) bits &= bits - 1;
  return (behind - words_.begin() - 1) * RankedWord::kNodes + std::countr_zero(bits);
}

RankLookup::RankLookup(const NodeSet& set, Device device) : device_(device), words_(set.words().data()) {
  if (!device.is_cuda()) return;
  copy_ = cuda::Array<RankedWord>(cuda::Memory::device, std::ssize(set.words()), "ranks of nodes", device);
  const cuda::Stream stream(device);
  cuda::copy_async(copy_.data(), set.words().data(), set.words().size_bytes(), stream);
  stream.synchronize();
  words_ = copy_.data();
}

void RankLookup::find(const NodeId* ids, Count count, NodeId* ranks,
                      [[maybe_unused]] const cuda::Stream& stream, ThreadPool& pool) const {
#if STRATA_WITH_CUDA
  if (device_.is_cuda()) return find_ranks_cuda(words_, ids, count, ranks, stream.get());
#endif
  constexpr Count kGrain = 1 << 14;
  pool.parallel_for(count, kGrain, [&](Count begin, Count end) {
    for (Count i = begin; i < end; ++i) ranks[i] = words_[ids[i] / RankedWord::kNodes].rank(ids[i]);
  });
}

}  // namespace strata::train
