// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include "strata/batches/fetcher.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/comm/reducer.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::batches {

/// What samples and gathers. Several samplers, or fetchers, work on different steps at the same time: number
/// k of K on steps k, k + K, k + 2 K and so on; it exchanges with number k of the other ranks.
struct BatchLanes {
  std::vector<sampling::MiniBatchSampler*> samplers;  ///< K, each with ceil(buffers / K) buffers or more
  std::vector<RowFetcher*> fetchers;
  int buffers = Pipeline::kBuffers;  ///< batches in flight, the one that the caller uses included
};

/// The first two stages of training: with one sampler, one fetcher and three buffers it samples batch t + 2
/// and gathers batch t + 1 while the caller trains batch t.
///
/// Each sampler and fetcher has its own thread, stream and communicator; buffers are handed over by events.
/// Without PipelineOptions::overlap both run inside next(), with the same results. next() rethrows an
/// exception of a stage.
class BatchLoader {
 public:
  struct Options {
    PipelineParts parts;
    PipelineOptions made;  ///< what the pipeline makes
    const SeedSchedule* schedule = nullptr;
    BatchLanes lanes;
    comm::LaunchOrder* order = nullptr;    ///< of the stages' launches with NCCL; null: none
    comm::LaunchOrder::Run launches = {};  ///< what a step launches, for `order`
    /// Shape of batches that fit into it; without hops: no batch is padded.
    sampling::PaddedShape padding = {};
  };
  explicit BatchLoader(const Options& options);
  ~BatchLoader();  ///< ends the stages; if they wait for another rank, the run must have ended
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// Moves both stages to these SMs of the GPU, or to all. Call it only after the last batch.
  void run_on(const cuda::SmGroup& sms);

  /// From the next begin() on. Ends the stages; all batches are released. Every rank gives as many of each.
  void work_with(const BatchLanes& lanes);
  /// Begins to load these steps of an epoch. Every rank must begin the same.
  void begin(const Pipeline::Steps& steps);
  /// The next batch; its memory is valid until release(). Null after the last. `stream` waits for the data.
  const LoadedBatch* next(const cuda::Stream& stream);
  /// As Pipeline::wait_for() and Pipeline::exchange_features().
  bool wait_for(std::chrono::milliseconds patience);
  void exchange_features(const LoadedBatch& batch, cuda::Array<float>& other);
  /// The caller is done with the batch when `stream` reaches this point.
  void release(const LoadedBatch& batch, const cuda::Stream& stream);

  /// Ends the stages; next() gives no batch until begin().
  void end();
  /// Frees the gathered features between epochs; the next epoch allocates them anew.
  void release_buffers();

  /// Call it between epochs, when `stream` has reached the last release().
  LoaderTimes take_times();
  Count take_input_rows();  ///< that were gathered since the last call
  Count take_unpadded();    ///< batches since the last call that did not fit the padded shape

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::batches
