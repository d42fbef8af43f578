// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_exchange.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "torch_device.hpp"

namespace strata::train {
namespace {

RowGradients joined(const std::vector<RowGradients>& mine, Count cols, at::Device device) {
  if (mine.size() == 1) return mine.front();
  const auto place = at::TensorOptions().device(device);
  std::vector<at::Tensor> rows{at::empty({0}, place.dtype(at::kLong))},
      gradients{at::empty({0, cols}, place)};
  for (const RowGradients& of_batch : mine) {
    rows.push_back(of_batch.rows);
    gradients.push_back(of_batch.gradients);
  }
  return {at::cat(rows), at::cat(gradients)};
}

}  // namespace

GradientExchange::GradientExchange(const comm::Ranks& ranks, comm::LaunchOrder* order, int most_blocks)
    : communicator_(ranks.world->duplicate()), order_(order), device_(torch_device(ranks.device())) {
  if (communicator_.size() == 1) return;
  wire_ = comm::can_exchange_on_devices(*ranks.topology, ranks.device())
              ? comm::make_device_exchange(communicator_, ranks.device(), most_blocks)
              : comm::make_mpi_exchange(communicator_, ranks.device());
}

void GradientExchange::close() {
  if (wire_) wire_->close();
  communicator_.close();
}

void GradientExchange::prepare(const LearnedRows& rows, const std::vector<RowGradients>& mine) {
  all_ = joined(mine, rows.cols(), device_);
  if (!wire_) return;
  const RowGradients own = rows.without_padding(all_);
  std::vector<Count> counts(at(communicator_.size()));
  counts[at(communicator_.rank())] = own.rows.size(0);
  communicator_.all_reduce(std::span(counts));
  firsts_.assign(1, 0);
  for (const Count count : counts) firsts_.push_back(firsts_.back() + count);
  all_ = {at::empty({firsts_.back()}, own.rows.options()),
          at::empty({firsts_.back(), rows.cols()}, own.gradients.options())};
  const Count first = firsts_[at(communicator_.rank())];
  all_.rows.narrow(0, first, own.rows.size(0)).copy_(own.rows);
  all_.gradients.narrow(0, first, own.rows.size(0)).copy_(own.gradients);
}

void GradientExchange::exchange(const cuda::Stream& stream) {
  if (!wire_) return;
  std::vector<comm::DeviceExchange::Outgoing> sends;
  std::vector<comm::DeviceExchange::Incoming> receives;
  const int me = communicator_.rank();
  for (at::Tensor* tensor : {&all_.rows, &all_.gradients}) {
    char* const data = static_cast<char*>(tensor->mutable_data_ptr());
    const Count row_bytes = tensor->stride(0) * static_cast<Count>(tensor->element_size());
    const auto place = [&](int rank) { return data + firsts_[at(rank)] * row_bytes; };
    const auto bytes = [&](int rank) { return (firsts_[at(rank) + 1] - firsts_[at(rank)]) * row_bytes; };
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      if (rank == me) continue;
      sends.push_back({rank, place(me), bytes(me)});
      receives.push_back({rank, place(rank), bytes(rank)});
    }
  }
  if (order_ != nullptr) order_->begin_reduction(stream);
  wire_->exchange(sends, receives, stream);
  if (order_ != nullptr) order_->end_reduction(stream);
}

}  // namespace strata::train
