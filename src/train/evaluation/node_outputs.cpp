// SPDX-License-Identifier: Apache-2.0
#include "evaluation/node_outputs.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "evaluation/node_chunks.hpp"
#include "strata/nn/model.hpp"
#include "torch_device.hpp"

namespace strata::train {

NodeOutputs::NodeOutputs(const EvaluationContext& context, const comm::Communicator& communicator,
                         std::span<const NodeId> global_ids, Count cols)
    : context_(context),
      global_ids_(global_ids),
      device_(context.ranks.device()),
      rows_(tensor::ChunkTensor::create(
          *context.ranks.machine,
          {.name = "outputs of all nodes", .rows = context.graph->host_view().num_local, .cols = cols},
          {.segments = {{{tensor::Stratum::host, context.graph->host_view().num_local}}}})) {
  batches::RowExchangeContext exchange;
  if (context.ranks.on_several_machines())
    exchange = {&communicator, context.ranks.topology, context.graph->machine_offsets(),
                context.ranks.machine->index()};
  fetcher_.emplace(rows_, device_, exchange, *context.pool);
}

std::unique_ptr<NodeOutputs> NodeOutputs::compute(const EvaluationContext& context,
                                                  const comm::Communicator& communicator,
                                                  std::span<const NodeId> global_ids,
                                                  LayerwiseEvaluator& exact, nn::BlockModel& model) {
  std::unique_ptr<NodeOutputs> outputs(
      new NodeOutputs(context, communicator, global_ids, model.output_cols(model.num_layers() - 1)));
  const bool done = exact.for_outputs(model, [&](const NodeChunk& chunk, const float* rows) {
    outputs->rows_.write_rows(chunk.first_row, chunk.count, rows);
  });
  outputs->rows_.fence(*context.ranks.machine, current_stream(outputs->device_));
  if (done) return outputs;
  outputs->close();
  return nullptr;
}

at::Tensor NodeOutputs::of(std::span<const NodeId> original_ids) {
  std::vector<NodeId> ids;
  for (const NodeId id : original_ids) ids.push_back(global_ids_[at(id)]);
  const at::Tensor where = at::tensor(at::ArrayRef<NodeId>(ids), at::kLong).to(torch_device(device_));
  const at::Tensor rows = at::empty({std::ssize(ids), cols()}, where.options().dtype(at::kFloat));
  fetcher_->fetch({.ids = where.const_data_ptr<NodeId>(), .count = std::ssize(ids)},
                  rows.mutable_data_ptr<float>(), current_stream(device_));
  return rows;
}

void NodeOutputs::close() { rows_.close(*context_.ranks.machine); }

}  // namespace strata::train
