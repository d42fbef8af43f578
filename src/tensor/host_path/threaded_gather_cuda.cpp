// SPDX-License-Identifier: Apache-2.0
#include "host_path/threaded_gather.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"

namespace strata::tensor {
namespace {

/// Only the host stratum, with rows numbered from 0.
RowTable host_table(RowTable table, Count host_rows) {
  table.num_segments = 1;
  table.inline_segments[0] = {.first_row = 0,
                              .replicated_end = 0,
                              .striped_end = 0,
                              .replicated_shift = 0,
                              .striped_shift = 0,
                              .host_shift = 0};
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

void ThreadedGather::gather(const Job& job, const cuda::Stream& stream) {
  constexpr Count kMaxPositions = Count{1} << 32;
  if (job.list.bound == 0 || job.format.cols == 0) return;
  if (host_alone_) {
    return host_.gather(
        {.list = job.list, .format = job.format, .out = job.out, .sorted = job.sorted, .bad = job.table.bad},
        stream);
  }
  if (job.list.bound >= kMaxPositions)
    return gather_on_gpu(job.table, job.list, job.format, job.out, job.shape, stream);
  const std::lock_guard lock(mutex_);
  gather_mixed(job, stream);
}

// The kernel for rows on GPUs gets a table without host rows and skips these. It also writes zeros for
// missing rows.
void ThreadedGather::gather_mixed(const Job& job, const cuda::Stream& stream) {
  stream.wait(done_);  // the previous selection is in use until then
  if (!selection_.has_room(job.list.bound)) {
    done_.synchronize();
    selection_.reserve(job.list.bound + job.list.bound / 4);
  }
  side_.follow(stream);
  forked_.record(stream);
  side_.wait(forked_);
  RowTable without_host = job.table;
  without_host.host = nullptr;
  gather_on_gpu(without_host, job.list, job.format, job.out, job.shape, side_);
  joined_.record(side_);
  const RowList host_rows = selection_.select(job.table, job.list, stream);
  host_.gather({.list = host_rows, .format = job.format, .out = job.out, .sorted = job.sorted}, stream);
  done_.record(stream);
  stream.wait(joined_);
}

}  // namespace strata::tensor
