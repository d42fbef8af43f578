// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "strata/nn/kinds.hpp"

namespace strata::nn {

/// The end of an edge that candidates stand for.
enum class Side : std::uint8_t { head, tail };

struct DecoderOptions {
  DecoderKind kind = DecoderKind::dot;
  std::int64_t num_relations = 1;
  std::int64_t cols = 0;  ///< of the rows of nodes; complex and rotate need an even number
  double margin = 1;      ///< of rotate
  bool l1 =
      false;  ///< of rotate: the sum of the lengths of complex numbers instead of the root of their squares
  double p_norm = 1;          ///< of transe
  std::int64_t hidden = 0;    ///< of mlp
  std::int64_t out_cols = 1;  ///< of mlp: numbers for an edge
  bool side_by_side = false;  ///< of mlp: takes both ends' rows, not their product
  std::uint64_t seed = 0;     ///< of the first weights, which are the same on every rank and device
};

/// Scores of edges, from the rows of their ends and weights of their relation; a part of a model. Names of weights and
/// scores are those of strata.nn's decoders in Python, which follow PyTorch Geometric.
///
///     dot        sum(head * tail)
///     distmult   sum(head * rel_emb * tail)
///     complex    real part of sum(head * rel * conj(tail)); rel_emb, rel_emb_im
///     rotate     margin - |head turned by the angles rel_emb - tail|, in complex numbers
///     transe     -|head + rel_emb - tail|, of rows of length 1
///     mlp        lins.1(relu(lins.0(head * rel_emb * tail))), or of all three side by side; rel_emb of several relations
///
/// Rows of complex numbers have the real parts, then the imaginary parts.
class Decoder : public torch::nn::Module {
 public:
  /// Scores [...] of head and tail [..., cols] and relation [...] i64, whose leading dimensions are broadcast; of an mlp
  /// with several out_cols [..., out_cols]. Higher is more likely. Differentiable.
  virtual at::Tensor forward(const at::Tensor& head, const at::Tensor& relation, const at::Tensor& tail) = 0;
  /// Scores [edges, candidates] of the known ends [edges, cols] of edges with candidates [candidates, cols] for their
  /// other end, `side`. No gradients; no tensor [edges, candidates, cols] is made at once.
  virtual at::Tensor against(const at::Tensor& rows, const at::Tensor& relation, const at::Tensor& candidates,
                             Side side);

 protected:
  /// The most numbers that forward() holds for an edge, of rows with so many columns.
  virtual std::int64_t widest(std::int64_t cols) const { return cols; }
};

/// Throws InputError for options that no decoder can have.
std::shared_ptr<Decoder> make_decoder(const DecoderOptions& options);

}  // namespace strata::nn
