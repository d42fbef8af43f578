// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/decoder.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "strata/nn/weights.hpp"
#include "strata/util/error.hpp"
#include "support/blocks.hpp"
#include "support/expect_error.hpp"

namespace strata::nn {
namespace {

constexpr std::int64_t kRelations = 3, kCols = 6, kEdges = 7, kCandidates = 5;

struct Case {
  DecoderOptions options;
  std::vector<std::string> names;
};

const Case kCases[] = {
    {{.kind = DecoderKind::dot}, {}},
    {{.kind = DecoderKind::distmult}, {"rel_emb.weight"}},
    {{.kind = DecoderKind::complex}, {"rel_emb.weight", "rel_emb_im.weight"}},
    {{.kind = DecoderKind::rotate, .margin = 9}, {"rel_emb.weight"}},
    {{.kind = DecoderKind::rotate, .margin = 2, .l1 = true}, {"rel_emb.weight"}},
    {{.kind = DecoderKind::transe, .p_norm = 1}, {"rel_emb.weight"}},
    {{.kind = DecoderKind::transe, .p_norm = 2}, {"rel_emb.weight"}},
    {{.kind = DecoderKind::mlp, .hidden = 4},
     {"rel_emb.weight", "lins.0.weight", "lins.0.bias", "lins.1.weight", "lins.1.bias"}},
    {{.kind = DecoderKind::mlp, .hidden = 4, .side_by_side = true},
     {"rel_emb.weight", "lins.0.weight", "lins.0.bias", "lins.1.weight", "lins.1.bias"}},
};

std::shared_ptr<Decoder> make(DecoderOptions options) {
  options.num_relations = kRelations;
  options.cols = kCols;
  options.seed = 5;
  return make_decoder(options);
}

TEST(Decoder, ScoresCandidatesAsItScoresTriples) {
  const at::Tensor rows = test::random_rows(kEdges, kCols, 1),
                   others = test::random_rows(kCandidates, kCols, 2);
  const at::Tensor relation = at::arange(kEdges).remainder(kRelations);
  for (const Case& c : kCases) {
    const auto decoder = make(c.options);
    std::vector<std::string> names;
    for (const NamedTensor& weight : weights_of(*decoder)) names.push_back(weight.name);
    EXPECT_EQ(names, c.names);
    for (const Side side : {Side::tail, Side::head}) {
      std::vector<at::Tensor> columns;
      for (std::int64_t k = 0; k < kCandidates; ++k) {
        const at::Tensor other = others[k].expand({kEdges, kCols});
        columns.push_back((side == Side::tail ? decoder->forward(rows, relation, other)
                                              : decoder->forward(other, relation, rows))
                              .unsqueeze(1));
      }
      const at::Tensor expected = at::cat(columns, 1);
      EXPECT_TRUE(at::allclose(decoder->against(rows, relation, others, side), expected, 1e-4, 1e-4))
          << enum_name(c.options.kind) << " side " << static_cast<int>(side);
      EXPECT_FALSE(at::allclose(expected.narrow(1, 0, 1), expected.narrow(1, 1, 1)));
    }
  }
}

TEST(Decoder, TurnsRowsOfComplexNumbers) {
  const auto rotate = make({.kind = DecoderKind::rotate, .margin = 3});
  at::Tensor angles = rotate->parameters().front();
  const c10::NoGradGuard no_grad;
  angles.fill_(std::acos(-1.0) / 2);  // a quarter: (1 + 0i) becomes (0 + 1i)
  const at::Tensor head = at::tensor({1.f, 2.f, 0.f, 0.f, 0.f, 1.f}).unsqueeze(0),
                   tail = at::tensor({0.f, 0.f, -1.f, 1.f, 2.f, 0.f}).unsqueeze(0), relation = at::arange(1);
  EXPECT_NEAR(rotate->forward(head, relation, tail).item<float>(), 3, 1e-5);
  EXPECT_NEAR(rotate->forward(head, relation, tail.add(1)).item<float>(), 3 - std::sqrt(6.0), 1e-5);
}

TEST(Decoder, RefusesWhatItCannotRead) {
  test::expect_error<InputError>([] { make_decoder({.kind = DecoderKind::complex, .cols = 5}); },
                                 {"5 columns as complex numbers", "even"});
  test::expect_error<InputError>(
      [] { make_decoder({.kind = DecoderKind::distmult, .cols = 4, .out_cols = 3}); },
      {"one number for an edge", "mlp"});
}

}  // namespace
}  // namespace strata::nn
