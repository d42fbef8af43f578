// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "evaluation/evaluator.hpp"
#include "evaluation/known_links.hpp"
#include "evaluation/node_outputs.hpp"
#include "strata/nn/decoder.hpp"
#include "strata/train/config.hpp"
#include "task/edge_links.hpp"

namespace strata::train {

class LinkScoreBoard;

/// Exact scores of the edges that the graph holds out: the outputs of all nodes layer by layer, then what the
/// model's decoder makes of them. Edges with targets are scored by these. Others are ranked among candidates for their
/// ends: nodes that are drawn by the keys of an edge's ends, or all nodes of the type, without those with which the
/// other end has an edge. So no score depends on ranks or parts.
class LinkEvaluator final : public Evaluator {
 public:
  /// `config`, `exact` and the graph outlive it.
  LinkEvaluator(const EvaluationContext& context, const TrainConfig& config, LayerwiseEvaluator& exact);
  Evaluation evaluate(nn::BlockModel& model) override;
  void close() override { communicator_.close(); }

  /// What predictions are made of: a model's outputs of all nodes.
  using Use = std::function<void(NodeOutputs& outputs, nn::Decoder& decoder)>;
  /// Calls `use` with them; returns false if computing them was stopped. Collective.
  bool with_outputs(nn::BlockModel& model, const Use& use);
  const LinkTypes& types() const { return types_; }
  const KnownLinks& known();  ///< the links of all splits. Collective where it is called first
  const comm::Communicator& communicator() const { return communicator_; }

  static constexpr Count kQueries = 512;  ///< links that are compared with candidates at once
  /// The candidates of a tile, of so many: the same for all ranks, as the shape of products decides their rounding.
  static Count tile_of(Count candidates) {
    constexpr Count kMost = 4096;
    return std::clamp((candidates + kQueries - 1) / kQueries * kQueries, kQueries, kMost);
  }

 private:
  struct Scoring {
    NodeOutputs& outputs;
    nn::Decoder& decoder;
  };
  std::vector<Link> share_of(graph::Split split) const;
  Scores score(const Scoring& scoring, graph::Split split, std::string& details);
  Scores score_targets(const Scoring& scoring, std::span<const Link> links, std::string& details);
  void rank_among_drawn(const Scoring& scoring, std::span<const Link> links, nn::Side side,
                        LinkScoreBoard& board);
  void rank_among_all(const Scoring& scoring, std::span<const Link> links, nn::Side side,
                      LinkScoreBoard& board);
  void rank_piece(const Scoring& scoring, std::span<const Link> links, Range candidates, nn::Side side,
                  LinkScoreBoard& board);
  void draw(const Link& link, nn::Side side, std::span<NodeId> candidates) const;
  std::int64_t rounds_of(std::size_t links, Count at_once) const;
  std::vector<nn::Side> sides() const;
  at::Tensor relations_of(std::span<const Link> links) const;
  ScoreWork work() const {
    return {.communicator = &communicator_, .pool = context_.pool, .alive = context_.alive};
  }

  EvaluationContext context_;
  const TrainConfig& config_;
  LayerwiseEvaluator& exact_;
  LinkTypes types_;
  std::vector<NodeId> global_ids_;
  comm::Communicator communicator_;
  std::unique_ptr<const KnownLinks> known_;
};

/// The decoder of a model of a task of edges.
nn::Decoder& decoder_of(torch::nn::Module& model);
std::shared_ptr<nn::Decoder> shared_decoder_of(torch::nn::Module& model);

/// Marks candidates of a tile: (row of a link, column) for those of the nodes `of_links` that lie in it.
struct KnownColumns {
  std::vector<std::int64_t> rows, columns;
  /// Adds those of the ascending nodes that are in the tile.
  void add(std::int64_t row, std::span<const NodeId> nodes, Range tile);
  /// Writes `value` there. scores [rows, columns].
  void fill(at::Tensor& scores, double value) const;
};

}  // namespace strata::train
