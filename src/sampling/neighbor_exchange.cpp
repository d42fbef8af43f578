#include "neighbor_exchange.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace strata::sampling {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

template <typename Id>
NeighborExchange<Id>::NeighborExchange(const ExchangeContext& context, std::size_t num_hops, bool edge_ids)
    : context_(context), edge_ids_(edge_ids) {
  report_.frontier_nodes.assign(num_hops, 0);
  report_.remote_nodes.assign(num_hops, 0);
  active_ =
      context.communicator != nullptr && context.topology != nullptr && context.topology->num_machines() > 1;
  if (!active_) return;
  const int rank = context.communicator->rank();
  machine_ = context.topology->ranks[static_cast<std::size_t>(rank)].machine;
  for (int m = 0; m < context.topology->num_machines(); ++m)
    rank_of_machine_.push_back(context.topology->rail(rank, m));
}

template <typename Id>
int NeighborExchange<Id>::machine_of(NodeId node) const {
  const auto& offsets = context_.machine_offsets;
  return static_cast<int>(std::upper_bound(offsets.begin() + 1, offsets.end() - 1, node) - offsets.begin()) -
         1;
}

template <typename Id>
void NeighborExchange<Id>::group_by_rank(std::span<const NodeId> frontier) {
  frontier_machines_.resize(frontier.size());
  asked_counts_.assign(static_cast<std::size_t>(context_.communicator->size()), 0);
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    const int machine = machine_of(frontier[i]);
    frontier_machines_[i] = machine;
    if (machine == machine_) continue;
    ++asked_counts_[static_cast<std::size_t>(rank_of_machine_[static_cast<std::size_t>(machine)])];
  }
  std::vector<Count> next(asked_counts_.size());
  std::exclusive_scan(asked_counts_.begin(), asked_counts_.end(), next.begin(), Count{0});
  const auto num_remote = static_cast<std::size_t>(next.back() + asked_counts_.back());
  remote_positions_.resize(num_remote);
  asked_.resize(num_remote);
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    if (frontier_machines_[i] == machine_) continue;
    const int rank = rank_of_machine_[static_cast<std::size_t>(frontier_machines_[i])];
    const auto place = static_cast<std::size_t>(next[static_cast<std::size_t>(rank)]++);
    remote_positions_[place] = static_cast<Count>(i);
    asked_[place] = static_cast<Id>(frontier[i]);
  }
}

template <typename Id>
template <typename T>
void NeighborExchange<Id>::transfer(std::span<const T> send, std::span<const Count> send_counts,
                                    std::vector<T>& received, std::span<const Count> received_counts) {
  constexpr auto kBytes = static_cast<Count>(sizeof(T));
  std::vector<Count> send_bytes, received_bytes;
  for (const Count count : send_counts) send_bytes.push_back(count * kBytes);
  for (const Count count : received_counts) received_bytes.push_back(count * kBytes);
  const Count total = std::accumulate(received_counts.begin(), received_counts.end(), Count{0});
  received.resize(static_cast<std::size_t>(total));
  context_.communicator->all_to_all(send.data(), send_bytes, received.data(), received_bytes);
  report_.bytes_sent += static_cast<Count>(send.size()) * kBytes;
  report_.bytes_received += total * kBytes;
}

template <typename Id>
std::span<const NodeId> NeighborExchange<Id>::ask(std::span<const NodeId> frontier, int hop) {
  const auto start = Clock::now();
  group_by_rank(frontier);
  incoming_counts_ = context_.communicator->exchange_counts(asked_counts_);
  transfer<Id>(asked_, asked_counts_, incoming_, incoming_counts_);
  incoming_nodes_.assign(incoming_.begin(), incoming_.end());
  report_.frontier_nodes[static_cast<std::size_t>(hop)] += static_cast<Count>(frontier.size());
  report_.remote_nodes[static_cast<std::size_t>(hop)] += static_cast<Count>(asked_.size());
  report_.seconds += seconds_since(start);
  return incoming_nodes_;
}

template <typename Id>
std::vector<Count> NeighborExchange<Id>::sums(std::span<const std::int32_t> values,
                                              std::span<const Count> group_sizes) {
  std::vector<Count> result;
  std::size_t begin = 0;
  for (const Count size : group_sizes) {
    const auto group = values.subspan(begin, static_cast<std::size_t>(size));
    result.push_back(std::accumulate(group.begin(), group.end(), Count{0}));
    begin += group.size();
  }
  return result;
}

template <typename Id>
SlotAnswers<Id> NeighborExchange<Id>::answer(const SlotAnswers<Id>& slots) {
  const auto start = Clock::now();
  transfer<std::int32_t>(slots.counts, incoming_counts_, answer_counts_, asked_counts_);
  const std::vector<Count> send = sums(slots.counts, incoming_counts_),
                           receive = sums(answer_counts_, asked_counts_);
  transfer<Id>(slots.neighbors, send, answer_neighbors_, receive);
  if (edge_ids_) transfer<EdgeId>(slots.edge_ids, send, answer_edge_ids_, receive);
  report_.seconds += seconds_since(start);
  return {answer_counts_, answer_neighbors_, answer_edge_ids_};
}

template class NeighborExchange<std::int32_t>;
template class NeighborExchange<std::int64_t>;

}  // namespace strata::sampling
