// SPDX-License-Identifier: Apache-2.0
#include "loader/feature_writer.hpp"

#include <fmt/format.h>

#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"

namespace strata::batches {
namespace {

/// The rows of a machine in equal shares.
RowOwners owners_of(const comm::Topology& topology, std::span<const NodeId> machine_offsets) {
  RowOwners owners{{0}, {}};
  for (std::size_t m = 0; m < topology.machines.size(); ++m) {
    const auto& ranks = topology.machines[m];
    const Range rows{machine_offsets[m], machine_offsets[m + 1] - machine_offsets[m]};
    for (int local = 0; local < static_cast<int>(ranks.size()); ++local) {
      const Range share = share_of(rows, local, static_cast<int>(ranks.size()));
      owners.ranks.push_back(ranks[at(local)]);
      owners.bounds.push_back(share.first + share.count);
    }
  }
  return owners;
}

/// Throws InputError where copies of rows would not be written.
void require_writable(const store::MachineGraph& graph, const comm::Machine& machine) {
  if (graph.manifest().feature_cols == 0)
    throw InputError("the graph has no node features", "Build it from an input with features.");
  const tensor::ChunkTensor& table = graph.features();
  if (table.spec().code)
    throw InputError(fmt::format("feature rows are compressed ({}) and cannot be written",
                                 name_of(table.spec().code.kind)),
                     "Build parts with --features f32, f16 or bf16.");
  if (const store::NodeIndex* halo = graph.halo_rows(); halo != nullptr && halo->size() > 0)
    throw InputError(
        fmt::format("this machine keeps copies of {} rows of other machines, which would stay as they are",
                    halo->size()),
        "Load the graph with halo_cache=0, from parts that were built with --replicate-below 0.");
  if (table.placement().total()[tensor::Stratum::replicated] > 0 && machine.size() > 1)
    throw InputError("each GPU of this machine has copies of some feature rows, which would stay as they are",
                     "Load the graph with gpu_memory=0, so that feature rows lie in host memory.");
}

}  // namespace

FeatureWriter::FeatureWriter(Runtime& runtime, const store::MachineGraph& graph)
    : runtime_(runtime),
      owners_(owners_of(runtime.topology(), graph.machine_offsets())),
      grouper_(make_row_grouper(runtime.device(), runtime.caller_pool())) {
  if (runtime.communicator().size() > 1) exchange_.emplace(runtime.ranks(), owners_);
}

void FeatureWriter::write(store::MachineGraph& graph, const GivenRows& given, const cuda::Stream& stream) {
  const NodeId first_row = graph.machine_offsets()[at(runtime_.machine().index())];
  write_rows(given,
             {.table = graph.features(),
              .first_row = first_row,
              .owners = owners_,
              .grouper = *grouper_,
              .exchange = exchange_ ? &*exchange_ : nullptr},
             stream, runtime_.caller_pool());
  graph.features().fence(runtime_.machine(), stream);
}

void FeatureWriter::close() {
  if (exchange_) exchange_->close();
}

void Graph::write_features(const NodeId* ids, Count count, const std::byte* rows,
                           const cuda::Stream& stream) {
  runtime_->communicator().together([&] {
    require_writable(stored(), runtime_->machine());
    check_ids({ids, at(count)}, stream);
  });
  const cuda::DeviceGuard guard(runtime_->device());
  if (!feature_writer_) feature_writer_ = std::make_shared<FeatureWriter>(*runtime_, *graph_);
  const auto row_bytes = static_cast<Count>(graph_->features().spec().row_bytes());
  feature_writer_->write(*graph_, {.rows = ids, .count = count, .values = rows, .row_bytes = row_bytes},
                         stream);
}

}  // namespace strata::batches
