// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "loading/seed_schedule.hpp"
#include "report/trace.hpp"
#include "strata/comm/launch_order.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/feature/fetcher.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/util/random.hpp"

namespace strata::train {

/// A minibatch ready to train on; a view of a buffer of the loader's ring. Everything lies on the loader's
/// device.
struct LoadedBatch {
  int buffer = 0;
  BatchKey key;
  Count step_in_epoch = 0;
  Count num_global_seeds = 0;  ///< of all ranks in this step
  sampling::MiniBatch sample;
  /// Of the loader's shape: everything lies where it lay in the last padded batch of this buffer, and has the
  /// same size. Else of its own sizes.
  bool padded = false;
  Count num_inputs = 0;             ///< input rows that are no padding
  const float* features = nullptr;  ///< [sample.num_inputs(), cols]; null where rows are read in place
  /// [num_labels, label_words] as the graph has them, on the loader's device; of seeds beyond
  /// sample.num_seeds labels that are missing.
  const std::int32_t* labels = nullptr;
  Count num_labels = 0;  ///< seeds of the last block, padded ones included
};

/// Seconds that each stage worked, since the last call; on a GPU, that its stream took.
struct LoaderTimes {
  double sample = 0, gather = 0;
  double train = 0;  ///< from next() to release(); on a GPU alone
  double wait = 0;   ///< that the caller of next() waited
};

/// The first two stages of training: samples batch t + 2 and gathers batch t + 1 while the caller trains
/// batch t.
///
/// Each stage has its own thread, stream and communicator; buffers are handed over by events. With `overlap`
/// off both run inside next(), with the same results. An exception of a stage is rethrown by next().
class BatchLoader {
 public:
  struct Options {
    Device device;
    const SeedSchedule* schedule = nullptr;
    sampling::MiniBatchSampler* sampler = nullptr;  ///< with kBuffers buffers
    feature::RowFetcher* fetcher = nullptr;
    std::span<const std::int32_t> labels;       ///< by local id of this machine, as the graph has them
    std::vector<std::int32_t> no_label = {-1};  ///< a label that is missing; as many words as each has
    NodeId first_node = 0;
    Count feature_cols = 0;
    std::uint64_t seed = 0;
    bool overlap = true;
    Trace* trace = nullptr;              ///< what the stages do is added to it
    comm::LaunchOrder* order = nullptr;  ///< of the fetcher's launches; null: none
    bool gather = true;                  ///< off: the model reads the rows in place
    sampling::PaddedShape padding = {};  ///< of batches that fit; no hops: none is padded
  };
  static constexpr int kBuffers = 3;

  explicit BatchLoader(const Options& options);
  ~BatchLoader();  ///< ends the stages; if they wait for another rank, the caller must have ended the run
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// After the last batch: both stages move to these SMs of the GPU.
  void run_on(const cuda::SmGroup& sms);

  struct Steps {
    std::uint32_t epoch = 0;
    Count first = 0, end = 0;
  };
  /// Begins to load these steps of an epoch. Every rank must begin the same.
  void begin(const Steps& steps);
  /// The next batch; its memory is valid until release(). Null after the last. `stream` waits for the data.
  const LoadedBatch* next(const cuda::Stream& stream);
  /// The caller is done with the batch once `stream` reaches this point.
  void release(const LoadedBatch& batch, const cuda::Stream& stream);

  /// Frees the gathered features between epochs; the next epoch allocates them anew.
  void release_buffers();

  /// Between epochs, when `stream` has reached the last release().
  LoaderTimes take_times();
  Count take_unpadded();  ///< batches since the last call that did not fit the padded shape

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::train
