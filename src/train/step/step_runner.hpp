// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "step/flat_parameters.hpp"
#include "step/gradient_exchange.hpp"
#include "step/learned_rows.hpp"
#include "step/step_graph.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/comm/reducer.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/nn/model.hpp"
#include "strata/nn/optimizer.hpp"
#include "strata/train/task.hpp"
#include "task/link_loss.hpp"

namespace strata::train {

/// All addresses and sizes of a batch that a recorded step depends on.
struct RecordedBatch {
  std::vector<sampling::Block> blocks;
  const Count* counts = nullptr;
  const BatchKey* key = nullptr;
  const float* features = nullptr;
  const std::int32_t* targets = nullptr;
  Count num_targets = 0;

  static RecordedBatch of(const batches::LoadedBatch& batch);
  bool operator==(const RecordedBatch&) const = default;
};

/// What all ranks know about a finished step, except for local_loss.
struct StepOutcome {
  Count step_in_epoch = 0;
  double loss_sum = 0, hits = 0, seeds = 0;  ///< see Loss::Result::outcome
  bool stop = false;                         ///< a rank was asked to stop
  double local_loss = 0;                     ///< this rank's part of loss_sum
};

/// Runs forward, backward, all-reduce and update of one batch. The host runs at most one step ahead of the
/// GPU: the outcome of a step is read back while the next one runs.
class StepRunner {
 public:
  struct Parts {
    nn::BlockModel* model;
    const Loss* loss;    ///< null for batches of links
    Count target_words;  ///< per seed
    FlatParameters* parameters;
    nn::Optimizer* optimizer;
    comm::AllReducer* reducer;
    Device device;
    Count feature_cols;
    LearnedRows* learned = nullptr;        ///< null: the model reads features only
    GradientExchange* exchange = nullptr;  ///< with `learned`
    at::Tensor table = {};  ///< rows that the model reads in place; undefined: they are gathered
    const PairLoss* pair_loss = nullptr;  ///< of batches of links
    batches::PlacesPerLink places = {};   ///< with `pair_loss`
    bool graphs = false;                  ///< replay what a padded batch does as a CUDA graph
    batches::Trace* trace = nullptr;      ///< the sums of gradients are added to it; null: nothing
  };
  explicit StepRunner(const Parts& parts);

  /// The place of a batch among the batches of one update.
  struct Place {
    bool first = true, last = true;
    Count num_seeds = 0;  ///< of all ranks and batches of the update
  };
  /// Collective if the batch is the last of its update. `stop` asks all ranks to stop. Returns the outcome of
  /// the previous update if it is outstanding.
  std::optional<StepOutcome> run(const batches::LoadedBatch& batch, const Place& place, bool stop,
                                 const cuda::Stream& stream);
  /// Forgets what was recorded, because the pipeline's buffers or libtorch's stream move, and warms up anew.
  void forget_graphs();
  /// Waits for the outcome of the last step.
  std::optional<StepOutcome> drain();
  /// Seconds, since the last call, between the end of this rank's gradients and the end of their sum over all
  /// ranks. They include waiting for the turn to launch, waiting for other ranks, and summing. REQUIRES:
  /// drain() was called.
  double take_sum_seconds();

 private:
  void run_batch(const batches::LoadedBatch& batch, bool last);
  const RowGradients& replay(const batches::LoadedBatch& batch);
  RowGradients forward_backward(const batches::LoadedBatch& batch);
  Loss::Result loss_of(const batches::LoadedBatch& batch, const at::Tensor& outputs) const;
  LinkBatch wrap_links(const batches::LoadedBatch& batch) const;
  void keep(const RowGradients& gradients, bool last);
  void update();
  struct Readback {
    cuda::Array<float> tail;  ///< and this rank's own loss
    cuda::Event copied;
    Count step_in_epoch = 0;
    std::int64_t step = 0;  ///< of the run
    bool outstanding = false;
  };
  void sum_over_ranks(const cuda::Stream& stream);
  void timed_sum(const batches::LoadedBatch& batch, const cuda::Stream& stream);
  void count_sum(batches::Trace::Clock::duration length, batches::Trace::Clock::time_point end,
                 std::int64_t step);
  void begin_readback(const batches::LoadedBatch& batch, const cuda::Stream& stream);
  /// Takes the outcome of the current readback, if it is outstanding.
  std::optional<StepOutcome> take();

  Parts parts_;
  cuda::Stream all_sms_;  // used if training has only some of the SMs
  cuda::Event computed_, summed_;
  std::array<Readback, 2> readbacks_;
  std::array<batches::StreamClock, 2> sum_clocks_;  ///< on a GPU, by the step's readback
  double sum_seconds_ = 0;
  at::Tensor local_loss_;    ///< [1]
  at::Tensor update_seeds_;  ///< [] of all ranks and batches of the update
  StepGraphs graphs_{batches::Pipeline::kMostBuffers};
  std::array<RecordedBatch, batches::Pipeline::kMostBuffers> recorded_;  ///< what graphs_ were recorded with
  std::array<RowGradients, batches::Pipeline::kMostBuffers>
      recorded_gradients_;                   ///< where graphs_ write them
  std::vector<RowGradients> row_gradients_;  ///< of this rank's batches of the update
  int num_unrecorded_ = 0;                   ///< padded batches that ran call by call
  std::size_t current_ = 0;
};

}  // namespace strata::train
