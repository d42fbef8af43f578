// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "layers/init.hpp"
#include "layers/layers.hpp"
#include "strata/nn/decoder.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

constexpr int kLayer = -2;  // of the keys of initial weights: no layer of a model
constexpr std::int64_t kTileOnCpu = 1 << 20, kTileOnGpu = 1 << 26;  // elements of [edges, candidates, cols]

/// Registers a table of weights under the name that torch's Embedding has.
class Table : public torch::nn::Module {
 public:
  explicit Table(at::Tensor weight) : weight_(register_parameter("weight", std::move(weight))) {}
  at::Tensor of(const at::Tensor& relation) const { return at::embedding(weight_, relation); }

 private:
  at::Tensor weight_;
};

/// As torch's Linear begins.
std::shared_ptr<Linear> linear(std::int64_t in, std::int64_t out, std::uint64_t seed, int index) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const auto values = [&](at::IntArrayRef sizes, int part) {
    return keyed_uniform(sizes, bound, {.seed = seed, .layer = kLayer, .index = index + part});
  };
  return std::make_shared<Linear>(values({out, in}, 0), values({out}, 1));
}

/// Decoders with a row of `cols` numbers per relation.
class WithRelations : public Decoder {
 protected:
  /// As xavier_uniform_().
  static at::Tensor xavier(std::int64_t relations, std::int64_t cols, std::uint64_t seed, int index) {
    return glorot({relations, cols}, relations + cols, {.seed = seed, .layer = kLayer, .index = index});
  }
  std::shared_ptr<Table> add(const std::string& name, at::Tensor weight) {
    return register_module(name, std::make_shared<Table>(std::move(weight)));
  }
};

/// Decoders whose scores are products of candidates with a row that is made of the known end and the relation.
class Products : public WithRelations {
 public:
  at::Tensor forward(const at::Tensor& head, const at::Tensor& relation, const at::Tensor& tail) override {
    return queries(head, relation, Side::tail).mul(tail).sum(-1);
  }
  at::Tensor against(const at::Tensor& rows, const at::Tensor& relation, const at::Tensor& candidates,
                     Side side) override {
    return at::matmul(queries(rows, relation, side), candidates.t());
  }

 protected:
  virtual at::Tensor queries(const at::Tensor& rows, const at::Tensor& relation, Side side) const = 0;
};

class Dot final : public Products {
  at::Tensor queries(const at::Tensor& rows, const at::Tensor&, Side) const override { return rows; }
};

class DistMult final : public Products {
 public:
  explicit DistMult(const DecoderOptions& o)
      : rel_emb_(add("rel_emb", xavier(o.num_relations, o.cols, o.seed, 0))) {}

 private:
  at::Tensor queries(const at::Tensor& rows, const at::Tensor& relation, Side) const override {
    return rows.mul(rel_emb_->of(relation));
  }
  std::shared_ptr<Table> rel_emb_;
};

/// rows * relation, or rows * conj(relation) to get from tails to heads.
at::Tensor complex_product(const at::Tensor& rows, const at::Tensor& real, const at::Tensor& imaginary,
                           Side side) {
  const std::int64_t channels = rows.size(-1) / 2;
  const at::Tensor one = rows.narrow(-1, 0, channels), other = rows.narrow(-1, channels, channels);
  const at::Tensor turn = side == Side::head ? imaginary.neg() : imaginary;
  return at::cat({one.mul(real).sub(other.mul(turn)), one.mul(turn).add(other.mul(real))}, -1);
}

class ComplEx final : public Products {
 public:
  explicit ComplEx(const DecoderOptions& o)
      : rel_emb_(add("rel_emb", xavier(o.num_relations, o.cols / 2, o.seed, 0))),
        rel_emb_im_(add("rel_emb_im", xavier(o.num_relations, o.cols / 2, o.seed, 1))) {}

 private:
  at::Tensor queries(const at::Tensor& rows, const at::Tensor& relation, Side side) const override {
    return complex_product(rows, rel_emb_->of(relation), rel_emb_im_->of(relation), side);
  }
  std::shared_ptr<Table> rel_emb_, rel_emb_im_;
};

class RotatE final : public WithRelations {
 public:
  explicit RotatE(const DecoderOptions& o) : margin_(o.margin), l1_(o.l1) {
    constexpr double kPi = std::numbers::pi;
    rel_emb_ = add("rel_emb", keyed_uniform({o.num_relations, o.cols / 2}, kPi,
                                            {.seed = o.seed, .layer = kLayer, .index = 0})
                                  .add(kPi));
  }
  at::Tensor forward(const at::Tensor& head, const at::Tensor& relation, const at::Tensor& tail) override {
    return length(turned(head, relation, Side::tail).sub(tail)).neg().add(margin_);
  }
  // A turn keeps lengths: |turned(head) - tail| = |head - turned back(tail)|.
  at::Tensor against(const at::Tensor& rows, const at::Tensor& relation, const at::Tensor& candidates,
                     Side side) override {
    if (l1_) return Decoder::against(rows, relation, candidates, side);
    return at::cdist(turned(rows, relation, side), candidates, 2, /*compute_mode=*/1).neg().add(margin_);
  }

 private:
  at::Tensor turned(const at::Tensor& rows, const at::Tensor& relation, Side side) const {
    const at::Tensor angle = rel_emb_->of(relation);
    return complex_product(rows, angle.cos(), angle.sin(), side);
  }
  at::Tensor length(const at::Tensor& difference) const {
    if (!l1_) return at::linalg_vector_norm(difference, 2, {-1});
    const std::int64_t channels = difference.size(-1) / 2;
    const at::Tensor squares =
        difference.narrow(-1, 0, channels).square().add(difference.narrow(-1, channels, channels).square());
    // The gradient of a root is infinite at 0, that of a value below the minimum is 0.
    return at::clamp_min(squares, 1e-30).sqrt().sum(-1);
  }
  double margin_;
  bool l1_;
  std::shared_ptr<Table> rel_emb_;
};

class TransE final : public WithRelations {
 public:
  explicit TransE(const DecoderOptions& o) : p_norm_(o.p_norm) {
    const double bound = 6 / std::sqrt(static_cast<double>(o.cols));
    rel_emb_ = add("rel_emb", normalized(keyed_uniform({o.num_relations, o.cols}, bound,
                                                       {.seed = o.seed, .layer = kLayer, .index = 0})));
  }
  at::Tensor forward(const at::Tensor& head, const at::Tensor& relation, const at::Tensor& tail) override {
    const at::Tensor difference = normalized(head).add(rel_emb_->of(relation)).sub(normalized(tail));
    return at::linalg_vector_norm(difference, p_norm_, {-1}).neg();
  }

 private:
  at::Tensor normalized(const at::Tensor& rows) const {
    return rows.div(at::clamp_min(at::linalg_vector_norm(rows, p_norm_, {-1}, /*keepdim=*/true), 1e-12));
  }
  double p_norm_;
  std::shared_ptr<Table> rel_emb_;
};

class Mlp final : public WithRelations {
 public:
  explicit Mlp(const DecoderOptions& o) : side_by_side_(o.side_by_side) {
    if (o.num_relations > 1) {
      rel_emb_ = add("rel_emb", xavier(o.num_relations, o.cols, o.seed, 0));
    }
    const std::int64_t parts = !o.side_by_side ? 1 : rel_emb_ ? 3 : 2;
    auto lins = register_module("lins", std::make_shared<torch::nn::Module>());
    lins_.push_back(lins->register_module("0", linear(parts * o.cols, o.hidden, o.seed, 2)));
    lins_.push_back(lins->register_module("1", linear(o.hidden, o.out_cols, o.seed, 4)));
  }
  at::Tensor forward(const at::Tensor& head, const at::Tensor& relation, const at::Tensor& tail) override {
    at::Tensor x;
    if (side_by_side_) {
      const at::Tensor shape = head.add(tail);
      std::vector<at::Tensor> parts{head.expand_as(shape), tail.expand_as(shape)};
      if (rel_emb_) parts.insert(parts.begin() + 1, rel_emb_->of(relation).expand_as(shape));
      x = at::cat(parts, -1);
    } else {
      x = rel_emb_ ? head.mul(rel_emb_->of(relation)).mul(tail) : head.mul(tail);
    }
    x = at::linear(x, lins_[0]->weight, lins_[0]->bias).relu();
    x = at::linear(x, lins_[1]->weight, lins_[1]->bias);
    return x.size(-1) == 1 ? x.squeeze(-1) : x;
  }

 private:
  std::int64_t widest(std::int64_t cols) const override {
    return std::max((side_by_side_ ? 3 : 1) * cols, lins_[0]->weight.size(0));
  }

  bool side_by_side_;
  std::shared_ptr<Table> rel_emb_;  // null: one relation
  std::vector<std::shared_ptr<Linear>> lins_;
};

}  // namespace

at::Tensor Decoder::against(const at::Tensor& rows, const at::Tensor& relation, const at::Tensor& candidates,
                            Side side) {
  const at::NoGradGuard no_grad;
  const at::Tensor known = rows.unsqueeze(1), relations = relation.unsqueeze(1);
  const std::int64_t most = rows.is_cuda() ? kTileOnGpu : kTileOnCpu;
  const std::int64_t of_candidate = std::max<std::int64_t>(1, rows.size(0) * widest(rows.size(1)));
  const std::int64_t at_once = std::max<std::int64_t>(1, most / of_candidate);
  std::vector<at::Tensor> tiles;
  for (const at::Tensor& tile : candidates.split(at_once)) {
    const at::Tensor others = tile.unsqueeze(0);
    tiles.push_back(side == Side::tail ? forward(known, relations, others)
                                       : forward(others, relations, known));
  }
  return at::cat(tiles, 1);
}

std::shared_ptr<Decoder> make_decoder(const DecoderOptions& o) {
  const bool is_complex = o.kind == DecoderKind::complex || o.kind == DecoderKind::rotate;
  if (is_complex && o.cols % 2 != 0)
    throw InputError(fmt::format("--decoder {} reads {} columns as complex numbers, which are two each",
                                 enum_name(o.kind), o.cols),
                     "Give an even --hidden; with --model none, an even --learned-rows.");
  if (o.out_cols != 1 && o.kind != DecoderKind::mlp)
    throw InputError(
        fmt::format("--decoder {} gives one number for an edge, not {}", enum_name(o.kind), o.out_cols),
        "Give --decoder mlp.");
  switch (o.kind) {
    case DecoderKind::automatic:
    case DecoderKind::dot:
      return std::make_shared<Dot>();
    case DecoderKind::distmult:
      return std::make_shared<DistMult>(o);
    case DecoderKind::complex:
      return std::make_shared<ComplEx>(o);
    case DecoderKind::rotate:
      return std::make_shared<RotatE>(o);
    case DecoderKind::transe:
      return std::make_shared<TransE>(o);
    case DecoderKind::mlp:
      return std::make_shared<Mlp>(o);
  }
  throw InputError(fmt::format("there is no decoder of kind {}", static_cast<int>(o.kind)),
                   fmt::format("Choose {}.", list_choices(enum_choices<DecoderKind>())));
}

}  // namespace strata::nn
