// SPDX-License-Identifier: Apache-2.0
#include "step/learned_rows.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "strata/nn/edge_ops.hpp"
#include "strata/util/error.hpp"
#include "strata/util/random.hpp"
#include "strata/util/text.hpp"
#include "torch_device.hpp"
#include "tuning/device_mix.hpp"

namespace strata::train {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kAdamEpsilon = 1e-8, kAdagradEpsilon = 1e-10;
constexpr std::uint32_t kLayer = ~std::uint32_t{0};  // of the keys of initial values: no layer of a model
constexpr std::int64_t kGrain = 1024;                // rows that a thread initializes

/// Uniform with a variance of 1 / cols.
void initialize(const LearnedRows::Options& options, at::Tensor table) {
  const double bound = std::sqrt(3.0 / static_cast<double>(options.cols));
  float* row = table.mutable_data_ptr<float>();
  for (const LearnedType& type : options.types) {
    at::parallel_for(0, type.original_ids.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        for (Count col = 0; col < options.cols; ++col) {
          const BatchKey key{.seed = options.seed, .epoch = 0, .step = static_cast<std::uint32_t>(col)};
          const std::uint64_t bits = node_key(key, RandomUse::init, kLayer, type.original_ids.first + i);
          row[i * options.cols + col] = static_cast<float>((2.0 * unit_double(bits) - 1.0) * bound);
        }
      }
    });
    row += type.original_ids.count * options.cols;
  }
}

at::Tensor widened(const at::Tensor& rows, Count cols) {
  return rows.size(1) == cols ? rows : at::constant_pad_nd(rows, {0, cols - rows.size(1)});
}

at::TensorOptions on(const sampling::Block& block) {
  return at::TensorOptions().device(torch_device(block.device));
}

}  // namespace

LearnedRows::LearnedRows(const Options& options) : options_(options) {
  std::vector<std::int64_t> bounds, shifts{0};
  for (const LearnedType& type : options.types) {
    const Range ids = type.original_ids;
    bounds.insert(bounds.end(), {ids.first, ids.end()});
    shifts.insert(shifts.end(), {num_rows_ - ids.first, 0});
    num_rows_ += ids.count;
  }
  const at::Device device = torch_device(options.device);
  bounds_ = at::tensor(bounds, at::kLong).to(device);
  shifts_ = at::tensor(shifts, at::kLong).to(device);
  has_features_ = at::arange(static_cast<std::int64_t>(shifts.size())).remainder(2).eq(0).to(device);
  table_ = at::zeros({num_rows_ + 1, options.cols}, at::kFloat);
  initialize(options, table_);
  table_ = table_.to(torch_device(options.table_device));
  const bool adam = options.optimizer == RowOptimizer::adam;
  square_ = at::zeros({num_rows_ + 1, adam ? options.cols : 1}, table_.options());
  if (adam) mean_ = at::zeros_like(table_), steps_ = at::zeros({num_rows_ + 1, 1}, table_.options());
  updates_ = at::zeros({1}, at::kLong);
}

/// The rows of a block's src nodes, of which the first *num_real are no padding, on the block's device; null: all.
at::Tensor LearnedRows::rows_of(const sampling::Block& block, const Count* num_real) const {
  const auto place = on(block).dtype(at::kLong);
  at::Tensor ids = at::from_blob(const_cast<NodeId*>(block.src_original_ids), {block.num_src}, place);
  if (num_real != nullptr) {
    const at::Tensor count = at::from_blob(const_cast<Count*>(num_real), {}, place);
    ids = ids.masked_fill(at::arange(block.num_src, place).ge(count), -1);
  }
  const at::Tensor at_bound = at::bucketize(ids, bounds_, /*out_int32=*/false, /*right=*/true);
  return ids.add(shifts_.index_select(0, at_bound))
      .masked_fill(has_features_.index_select(0, at_bound), num_rows_);
}

at::Tensor LearnedRows::read(const at::Tensor& rows) const {
  return table_.index_select(0, rows.to(table_.device())).to(rows.device());
}

at::Tensor LearnedRows::beside(const at::Tensor& features, const at::Tensor& learned) const {
  const Count cols = std::max(options_.cols, options_.feature_cols);
  if (options_.feature_cols == 0) return learned;
  return widened(features, cols).add(widened(learned, cols));
}

at::Tensor LearnedRows::input(const at::Tensor& features, const sampling::Block& block) const {
  return beside(features, read(rows_of(block, nullptr)));
}

LearnedRows::Input LearnedRows::training_input(const at::Tensor& features,
                                               const sampling::MiniBatch& batch) const {
  const Count* counts = batch.device_counts;
  const at::Tensor rows =
      rows_of(batch.blocks.front(), counts == nullptr ? nullptr : counts + batch.blocks.size());
  const at::Tensor leaf = read(rows).requires_grad_();
  return {.input = beside(features, leaf), .rows = rows, .leaf = leaf};
}

RowGradients LearnedRows::Input::gradients() const {
  const at::Tensor gradients = leaf.grad();
  return {
      .rows = rows, .gradients = gradients.defined() ? gradients : at::zeros_like(leaf), .distinct = true};
}

RowGradients LearnedRows::without_padding(const RowGradients& from) const {
  const at::Tensor kept = from.rows.lt(num_rows_).nonzero().squeeze(1);
  return {from.rows.index_select(0, kept), from.gradients.index_select(0, kept)};
}

/// Distinct rows, with the sums of their gradients in order; the rest are of no node, so that the host need not wait for
/// their number.
RowGradients LearnedRows::summed(const RowGradients& from) const {
  const Count n = from.rows.size(0);
  const auto [rows, order] = at::sort(from.rows, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const at::Tensor before = rows.narrow(0, 0, n - 1), after = rows.narrow(0, 1, n - 1);
  const at::Tensor is_next =
      at::constant_pad_nd(before.ne(after).logical_or(after.eq(num_rows_)).to(at::kLong), {1, 0});
  const at::Tensor firsts = at::searchsorted(is_next.cumsum(0), at::arange(n + 1, rows.options()));
  const at::Tensor gradients = from.gradients.contiguous(), indices = order.to(at::kInt),
                   sums = at::empty_like(gradients);
  nn::sum_over_edges({.edges = {.rows = n,
                                .indptr = firsts.const_data_ptr<std::int64_t>(),
                                .indices = indices.const_data_ptr<std::int32_t>()},
                      .cols = options_.cols,
                      .in = gradients.const_data_ptr<float>(),
                      .out = sums.mutable_data_ptr<float>()},
                     current_stream(options_.table_device));
  const at::Tensor begins = firsts.narrow(0, 0, n), ends = firsts.narrow(0, 1, n);
  return {rows.index_select(0, begins.clamp_max(n - 1)).masked_fill(ends.le(begins), num_rows_), sums};
}

void LearnedRows::update(const RowGradients& all, const at::Tensor& guard) {
  const c10::NoGradGuard no_grad;
  const Count updates = updates_.mutable_data_ptr<std::int64_t>()[0]++;
  if (all.rows.size(0) == 0) return;
  const double rate = nn::learning_rate_after(updates, options_.learning_rate, options_.schedule);
  const RowGradients here{all.rows.to(table_.device()), all.gradients.to(table_.device()), all.distinct};
  auto [rows, gradients, distinct] = here.distinct ? here : summed(here);
  if (options_.skip_not_finite) {
    const at::Tensor finite =
        guard.to(table_.device()).isfinite().all().logical_and(gradients.isfinite().all());
    rows = rows.masked_fill(finite.logical_not(), num_rows_);
  }
  if (options_.optimizer == RowOptimizer::adagrad) {
    const at::Tensor total = square_.index_select(0, rows).add_(gradients.square().mean(1, /*keepdim=*/true));
    square_.index_copy_(0, rows, total);
    table_.index_copy_(
        0, rows,
        table_.index_select(0, rows).sub_(gradients.mul(rate).div_(total.sqrt().add_(kAdagradEpsilon))));
  } else {
    const at::Tensor steps = steps_.index_select(0, rows).add_(1);
    const at::Tensor mean = mean_.index_select(0, rows).lerp_(gradients, 1 - kBeta1);
    const at::Tensor square =
        square_.index_select(0, rows).mul_(kBeta2).addcmul_(gradients, gradients, 1 - kBeta2);
    const auto bias = [&](double beta) {
      return at::pow(beta, steps.to(at::kDouble)).neg_().add_(1).to(at::kFloat);
    };
    steps_.index_copy_(0, rows, steps);
    mean_.index_copy_(0, rows, mean);
    square_.index_copy_(0, rows, square);
    const at::Tensor root = square.div(bias(kBeta2)).sqrt_().add_(kAdamEpsilon);
    table_.index_copy_(
        0, rows,
        table_.index_select(0, rows).sub_(mean.mul(bias(kBeta1).reciprocal_().mul_(rate)).div_(root)));
  }
  table_.select(0, num_rows_).zero_();
}

std::vector<nn::NamedTensor> LearnedRows::weights() const {
  std::vector<nn::NamedTensor> weights;
  Count first = 0;
  for (const LearnedType& type : options_.types) {
    weights.push_back({"learned_rows." + type.name, table_.narrow(0, first, type.original_ids.count)});
    first += type.original_ids.count;
  }
  return weights;
}

std::vector<nn::NamedTensor> LearnedRows::state() const {
  const auto rows = [&](const at::Tensor& all) { return all.narrow(0, 0, num_rows_); };
  std::vector<nn::NamedTensor> state{{"rows", table()}, {"updates", updates_}, {"square", rows(square_)}};
  if (mean_.defined()) state.insert(state.end(), {{"mean", rows(mean_)}, {"steps", rows(steps_)}});
  return state;
}

std::string LearnedRows::describe() const {
  std::vector<std::string> types;
  for (const LearnedType& type : options_.types)
    types.push_back(fmt::format("{} {}", format_count(type.original_ids.count), type.name));
  std::int64_t bytes = 0;
  for (const nn::NamedTensor& tensor : state()) bytes += static_cast<std::int64_t>(tensor.tensor.nbytes());
  return fmt::format(
      "learned rows of {} columns for nodes without features ({}), updated by {}: {} on every rank",
      options_.cols, fmt::join(types, ", "), enum_name(options_.optimizer), format_bytes(bytes));
}

std::unique_ptr<LearnedRows> make_learned_rows(const RunContext& context, const graph::Manifest& manifest,
                                               const nn::ScheduleOptions& schedule) {
  const TrainConfig& config = context.config;
  if (config.learned_rows == 0) return nullptr;
  return std::make_unique<LearnedRows>(LearnedRows::Options{
      .types = types_without_features(manifest.types, manifest.feature_cols, manifest.book.num_nodes()),
      .cols = config.learned_rows,
      .feature_cols = manifest.feature_cols,
      .optimizer = config.learned_optimizer,
      .learning_rate = config.learned_lr,
      .schedule = schedule,
      .skip_not_finite = config.on_nan == OnNan::skip,
      .seed = config.seed,
      .device = context.device,
      .table_device = is_mixed(context.topology) ? Device{} : context.device});
}

void require_equal_rows(const LearnedRows& rows, const comm::Communicator& communicator) {
  const std::int64_t mine = rows.table().view(at::kInt).sum(at::kLong).item<std::int64_t>();
  std::int64_t least = mine, most = mine;
  communicator.all_reduce(std::span(&least, 1), comm::Communicator::Op::min);
  communicator.all_reduce(std::span(&most, 1), comm::Communicator::Op::max);
  if (least == most) return;
  throw Error("the learned rows are not the same on all ranks",
              "Memory or a device may be faulty. Continue from the last checkpoint with --resume.");
}

}  // namespace strata::train
