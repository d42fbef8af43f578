// SPDX-License-Identifier: Apache-2.0
#include "exchange/neighbor_exchange.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

namespace strata::sampling {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

Count sum_of(std::span<const Count> values) {
  return std::accumulate(values.begin(), values.end(), Count{0});
}

/// Sums of values over consecutive groups of the given sizes.
std::vector<Count> sums_of_groups(std::span<const std::int32_t> values, std::span<const Count> group_sizes) {
  std::vector<Count> result;
  std::size_t begin = 0;
  for (const Count size : group_sizes) {
    const auto group = values.subspan(begin, at(size));
    result.push_back(std::accumulate(group.begin(), group.end(), Count{0}));
    begin += group.size();
  }
  return result;
}

}  // namespace

template <typename Id>
NeighborExchange<Id>::NeighborExchange(const ExchangeContext& context, const SamplerOptions& options)
    : context_(context), edge_ids_(options.edge_ids), report_(options.fanouts.size()) {
  active_ =
      context.communicator != nullptr && context.topology != nullptr && context.topology->num_machines() > 1;
  if (!active_) return;
  servers_ = store::Servers::of(*context.topology, context.machine_offsets, context.communicator->rank());
  const bool by_lists = options.chooser == nullptr;  // a user's chooser knows only global ids
  if (!by_lists || context.halo == nullptr || context.halo->index.size() == 0) return;
  servers_.halo = &context.halo->index;
  halo_chooser_ = make_pick_chooser<Id>(context.halo->view, options, *context.pool);
}

/// Runs `work` on another thread, which uses the communicator until wait().
template <typename Id>
void NeighborExchange<Id>::run_async(std::function<void()> work) {
  wire_.start([this, start = Clock::now(), work = std::move(work)] {
    work();
    const auto end = Clock::now();
    report_.seconds += seconds_between(start, end);
    if (context_.listener == nullptr) return;
    context_.listener->exchanged({.what = comm::ExchangeListener::Messages::What::neighbors,
                                  .hop = static_cast<int>(hop_),
                                  .begin = start,
                                  .end = end});
  });
}

template <typename Id>
void NeighborExchange<Id>::wait() {
  const auto start = Clock::now();
  wire_.wait();
  report_.waited_seconds += seconds_between(start, Clock::now());
}

/// Divides the frontier into own nodes, nodes whose lists are kept here, and the others by the rank to ask.
template <typename Id>
void NeighborExchange<Id>::group(std::span<const NodeId> frontier) {
  split_.run(frontier, servers_);
  remote_positions_.assign(split_.asked().begin(), split_.asked().end());
  asked_.clear();
  for (const std::int32_t index : split_.asked()) asked_.push_back(static_cast<Id>(frontier[at(index)]));
  halo_nodes_.clear();
  for (const auto& kept : split_.kept()) {
    halo_nodes_.push_back(context_.halo->view.first_node + kept.position);
    remote_positions_.push_back(kept.index);
  }
}

template <typename Id>
template <typename T>
void NeighborExchange<Id>::transfer(Message kind, std::span<const T> send, std::span<const Count> send_counts,
                                    T* received, std::span<const Count> received_counts) {
  constexpr auto kBytes = static_cast<Count>(sizeof(T));
  std::vector<Count> send_bytes, received_bytes;
  for (const Count count : send_counts) send_bytes.push_back(count * kBytes);
  for (const Count count : received_counts) received_bytes.push_back(count * kBytes);
  context_.communicator->all_to_all(send.data(), send_bytes, received, received_bytes);
  const Count sent = static_cast<Count>(send.size()) * kBytes, got = sum_of(received_bytes);
  report_.bytes_sent += sent;
  report_.bytes_received += got;
  report_.hop_bytes[hop_] += sent;
  HopTraffic& traffic = report_.traffic[hop_];
  const Count messages = std::ranges::count_if(send_bytes, [](Count bytes) { return bytes > 0; });
  const bool asks = kind == Message::request;
  (asks ? traffic.request_messages : traffic.answer_messages) += messages;
  (asks ? traffic.request_bytes : traffic.answer_bytes) += sent;
  traffic.received_bytes += got;
  ++traffic.rounds;
}

template <typename Id>
void NeighborExchange<Id>::start_ask(const PickQuery& query) {
  hop_ = query.hop;
  group(query.nodes);
  report_.frontier_nodes[hop_] += static_cast<Count>(query.nodes.size());
  report_.remote_nodes[hop_] += static_cast<Count>(remote_positions_.size());
  report_.cached_nodes[hop_] += static_cast<Count>(halo_nodes_.size());
  report_.largest_requests[hop_] =
      std::max(report_.largest_requests[hop_], std::ranges::max(split_.counts()));
  run_async([this] {
    incoming_counts_ = context_.communicator->exchange_counts(split_.counts());
    ++report_.traffic[hop_].rounds;
    incoming_.resize(at(sum_of(incoming_counts_)));
    transfer<Id>(Message::request, asked_, split_.counts(), incoming_.data(), incoming_counts_);
    incoming_nodes_.assign(incoming_.begin(), incoming_.end());
  });
  measure_halo(query);
}

template <typename Id>
std::span<const NodeId> NeighborExchange<Id>::finish_ask() {
  wait();
  return incoming_nodes_;
}

/// Appends the counts of nodes whose lists are kept here to those that others will send.
template <typename Id>
void NeighborExchange<Id>::measure_halo(const PickQuery& query) {
  const std::size_t num_asked = asked_.size(), num_kept = halo_nodes_.size();
  answer_counts_.resize(num_asked + num_kept);
  halo_offsets_.resize(num_kept + 1);
  halo_query_ = {halo_nodes_, query.fanout, query.key, query.hop, excluded_};
  if (num_kept > 0) halo_chooser_->measure(halo_query_, halo_plan_, halo_offsets_.data());
  for (std::size_t i = 0; i < num_kept; ++i)
    answer_counts_[num_asked + i] = static_cast<std::int32_t>(halo_offsets_[i]);
}

template <typename Id>
std::span<const std::int32_t> NeighborExchange<Id>::start_answer(const PickAnswers<Id>& picks) {
  run_async([&] {
    transfer<std::int32_t>(Message::answer, picks.counts, incoming_counts_, answer_counts_.data(),
                           split_.counts());
  });
  wait();
  const std::span asked(answer_counts_.data(), asked_.size());
  const std::vector<Count> send = sums_of_groups(picks.counts, incoming_counts_),
                           receive = sums_of_groups(asked, split_.counts());
  report_.largest_answers[hop_] = std::max(report_.largest_answers[hop_], std::ranges::max(receive));
  Count total = sum_of(receive);
  for (std::size_t i = 0; i < halo_nodes_.size(); ++i) {
    halo_offsets_[i] = total;
    total += answer_counts_[asked_.size() + i];
  }
  halo_offsets_.back() = total;
  answer_neighbors_.resize(at(total));
  answer_edge_ids_.resize(edge_ids_ ? at(total) : 0);
  run_async([this, picks, send, receive] {
    transfer<Id>(Message::answer, picks.neighbors, send, answer_neighbors_.data(), receive);
    if (edge_ids_) transfer<EdgeId>(Message::answer, picks.edge_ids, send, answer_edge_ids_.data(), receive);
  });
  return answer_counts_;
}

template <typename Id>
void NeighborExchange<Id>::choose_halo() {
  if (halo_nodes_.empty()) return;
  halo_chooser_->choose(
      halo_query_, halo_plan_,
      {halo_offsets_.data(), answer_neighbors_.data(), edge_ids_ ? answer_edge_ids_.data() : nullptr});
}

template <typename Id>
PickAnswers<Id> NeighborExchange<Id>::finish_answer() {
  choose_halo();
  wait();
  return {answer_counts_, answer_neighbors_, answer_edge_ids_};
}

template class NeighborExchange<std::int32_t>;
template class NeighborExchange<std::int64_t>;

}  // namespace strata::sampling
