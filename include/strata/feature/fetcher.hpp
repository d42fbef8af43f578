#pragma once
#include <memory>
#include <span>

#include "strata/comm/machine.hpp"
#include "strata/cuda/runtime.hpp"
#include "strata/store/chunk_tensor.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::feature {

/// Where remote rows come from; all null on one machine.
struct RowExchangeContext {
  const comm::Communicator* communicator = nullptr;  ///< of the stage's own, over all ranks
  const comm::Topology* topology = nullptr;
  std::span<const NodeId> machine_offsets;  ///< [machines + 1]
  int machine = 0;                          ///< this rank's
  /// Of rows that a rank asks for at once; the rest follows in further rounds. The same on all ranks.
  Count round_bytes = Count{64} << 20;
};

struct RowExchangeReport {
  Count rows = 0, remote_rows = 0;
  Count bytes_sent = 0, bytes_received = 0;
  double seconds = 0;
};

/// Reads rows of a tensor that is distributed over machines: row of global id g is row g - machine_offsets[m]
/// of the ChunkTensor of the machine m that owns g.
class RowFetcher {
 public:
  /// `device` is where ids and results lie. References must outlive the fetcher.
  RowFetcher(const store::ChunkTensor& table, Device device, const RowExchangeContext& exchange,
             ThreadPool& pool);
  ~RowFetcher();
  RowFetcher(RowFetcher&&) noexcept;

  /// out[i] = row of global id ids[i] as f32; -1 gives zeros.
  ///
  /// ids [count] and out [count, cols] on the device. Collective over the exchange's communicator if there is
  /// one (a rank without ids passes count = 0); each distinct remote id should be given once. Complete when
  /// the call returns on the cpu, when `stream` reaches this point on a GPU.
  void fetch(const NodeId* ids, Count count, float* out, const cuda::Stream& stream);
  RowExchangeReport report() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::feature
