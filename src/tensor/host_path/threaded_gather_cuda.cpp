// SPDX-License-Identifier: Apache-2.0
#include "host_path/threaded_gather.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"

namespace strata::tensor {
namespace {

/// A table of only the host stratum, with rows numbered from 0.
RowTable host_table(RowTable table, Count host_rows) {
  table.num_segments = 1;
  table.inline_segments[0] = {};
  table.rows = host_rows;
  return table;
}

}  // namespace

ThreadedGather::ThreadedGather(Device device, const RowTable& table, Count host_rows,
                               const HostGather::Options& options)
    : device_(device),
      host_alone_(host_rows == table.rows),
      host_(device, {.rows = table.host, .table = host_table(table, host_rows)}, options),
      selection_(device),
      side_(device),
      forked_(device),
      joined_(device),
      done_(device) {}

void ThreadedGather::gather(const RowTable& table, const RowGather& gather, const LaunchShape& shape,
                            const cuda::Stream& stream) {
  constexpr Count kMaxPositions = Count{1} << 32;
  if (gather.list.bound == 0 || gather.format.cols == 0) return;
  if (host_alone_) return host_.gather(gather, stream, table.bad);
  if (gather.list.bound >= kMaxPositions) return gather_on_gpu(table, gather, shape, stream);
  const std::lock_guard lock(mutex_);
  gather_mixed(table, gather, shape, stream);
}

// The kernel for rows on GPUs gets a table without host rows and skips these. It also writes zeros for
// missing rows.
void ThreadedGather::gather_mixed(const RowTable& table, const RowGather& gather, const LaunchShape& shape,
                                  const cuda::Stream& stream) {
  stream.wait(done_);  // the previous selection is in use until then
  const Count bound = gather.list.bound;
  if (!selection_.has_room(bound)) {
    done_.synchronize();
    selection_.reserve(bound + bound / 4);
  }
  side_.follow(stream);
  forked_.record(stream);
  side_.wait(forked_);
  RowTable without_host = table;
  without_host.host = nullptr;
  gather_on_gpu(without_host, gather, shape, side_);
  joined_.record(side_);
  RowGather host_rows = gather;
  host_rows.list = selection_.select(table, gather.list, stream);
  host_.gather(host_rows, stream);
  done_.record(stream);
  stream.wait(joined_);
}

}  // namespace strata::tensor
