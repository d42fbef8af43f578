// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "run_context.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/nn/optimizer.hpp"
#include "strata/nn/weights.hpp"
#include "strata/sampling/block.hpp"
#include "type_choices.hpp"

namespace strata::train {

/// Gradients of some rows of a table. A row beyond the table's last counts for nothing.
struct RowGradients {
  at::Tensor rows;        ///< [n] i64
  at::Tensor gradients;   ///< [n, cols] f32
  bool distinct = false;  ///< else rows may repeat
};

/// Input rows that are learned, one per node of the types without features, and their optimizer. An owner.
///
/// The table's rows are in the order of original ids. Every rank has the whole table and makes the same updates, so that
/// the bits are the same on all ranks. An update changes only the rows that a batch has read; the gradient of
/// a row is the sum over the batches and ranks that read it, in their order.
///
///     types {author: ids 10 to 12, venue: ids 20 to 21}   node 12 has row 2, node 21 row 4
///
/// All work is done by libtorch on its current stream; the host waits only where ranks with GPUs and ranks
/// without share a table, which then lies in host memory.
class LearnedRows {
 public:
  struct Options {
    std::vector<LearnedType> types;
    Count cols = 0;
    Count feature_cols = 0;  ///< of the features beside which the rows stand; the others' rows end with zeros
    RowOptimizer optimizer = RowOptimizer::adam;
    double learning_rate = 0.01;
    nn::ScheduleOptions schedule = {};
    bool skip_not_finite = false;           ///< leave out an update whose guard or gradient is not finite
    std::uint64_t seed = 0;                 ///< of the first rows, by original id and column
    Device device = {}, table_device = {};  ///< of blocks and of the table
  };
  explicit LearnedRows(const Options& options);

  /// The input of a model for the src nodes of a block, which has original ids. `features` [num_src, feature_cols],
  /// undefined without features; no gradients.
  at::Tensor input(const at::Tensor& features, const sampling::Block& block) const;

  /// The same of a batch for a training pass. After the backward pass gradients() are those of its rows.
  struct Input {
    at::Tensor input, rows, leaf;
    RowGradients gradients() const;
  };
  Input training_input(const at::Tensor& features, const sampling::MiniBatch& batch) const;

  /// One update. `guard` has values that are not finite if the update is to be left out.
  void update(const RowGradients& all, const at::Tensor& guard);

  /// The rows that count; the host waits for their number.
  RowGradients without_padding(const RowGradients& from) const;

  /// "learned_rows.author" [nodes, cols] and so on, by reference: the weights of a model file.
  std::vector<nn::NamedTensor> weights() const;
  /// All that a checkpoint must hold, by reference.
  std::vector<nn::NamedTensor> state() const;
  at::Tensor table() const { return table_.narrow(0, 0, num_rows_); }  ///< [rows, cols], by reference
  Count cols() const { return options_.cols; }
  std::string describe() const;  ///< for the log

 private:
  at::Tensor rows_of(const sampling::Block& block, const Count* num_real) const;
  at::Tensor read(const at::Tensor& rows) const;
  at::Tensor beside(const at::Tensor& features, const at::Tensor& learned) const;
  RowGradients summed(const RowGradients& from) const;

  Options options_;
  Count num_rows_ = 0;
  at::Tensor bounds_, shifts_, has_features_;  // where original ids become rows, on the device of blocks
  at::Tensor table_;                           // [rows + 1, cols]; the last row is of no node and stays 0
  at::Tensor mean_, square_, steps_;           // [rows + 1, ..] state of the optimizer; those it has
  at::Tensor updates_;                         // [1] i64 on the CPU
};

/// The learned rows of a run; null if it has none.
std::unique_ptr<LearnedRows> make_learned_rows(const RunContext& context, const graph::Manifest& manifest,
                                               const nn::ScheduleOptions& schedule = {});

/// Throws Error on every rank if ranks have different tables. Collective.
void require_equal_rows(const LearnedRows& rows, const comm::Communicator& communicator);

}  // namespace strata::train
