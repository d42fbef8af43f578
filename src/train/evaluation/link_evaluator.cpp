// SPDX-License-Identifier: Apache-2.0
#include "evaluation/link_evaluator.hpp"

#include <ATen/TensorIndexing.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>

#include "strata/nn/model.hpp"
#include "strata/util/error.hpp"
#include "task/edge_targets.hpp"
#include "task/link_scores.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

constexpr Count kRowsAtOnce = 1 << 16;
constexpr Count kPiecesAtOnce = 16;

at::Tensor padded(const at::Tensor& rows, Count count) {
  return at::constant_pad_nd(rows, {0, 0, 0, count - rows.size(0)});
}

NodeId known_end(const Link& link, nn::Side side) {
  return side == nn::Side::tail ? link.source : link.destination;
}
NodeId other_end(const Link& link, nn::Side side) {
  return side == nn::Side::tail ? link.destination : link.source;
}

}  // namespace

std::shared_ptr<nn::Decoder> shared_decoder_of(torch::nn::Module& model) {
  const auto children = model.named_children();
  const auto* found = children.find("decoder");
  auto decoder = found == nullptr ? nullptr : std::dynamic_pointer_cast<nn::Decoder>(*found);
  if (!decoder) throw Error("the model of a task of edges has no decoder");
  return decoder;
}

nn::Decoder& decoder_of(torch::nn::Module& model) { return *shared_decoder_of(model); }

void KnownColumns::add(std::int64_t row, std::span<const NodeId> nodes, Range tile) {
  for (auto node = std::ranges::lower_bound(nodes, tile.first); node != nodes.end() && *node < tile.end();
       ++node) {
    rows.push_back(row);
    columns.push_back(*node - tile.first);
  }
}

void KnownColumns::fill(at::Tensor& scores, double value) const {
  if (rows.empty()) return;
  const auto where = [&](const std::vector<std::int64_t>& places) {
    return at::tensor(at::ArrayRef<std::int64_t>(places), at::kLong).to(scores.device());
  };
  scores.index_put_({where(rows), where(columns)}, at::tensor(value, scores.options()));
}

LinkEvaluator::LinkEvaluator(const EvaluationContext& context, const TrainConfig& config,
                             LayerwiseEvaluator& exact)
    : context_(context),
      config_(config),
      exact_(exact),
      types_(config, context.graph->manifest()),
      global_ids_(global_ids_of(*context.graph)),
      communicator_(context.ranks.world->duplicate()) {}

bool LinkEvaluator::with_outputs(nn::BlockModel& model, const Use& use) {
  const at::NoGradGuard no_grad;
  const auto outputs = NodeOutputs::compute(context_, communicator_, global_ids_, exact_, model);
  if (!outputs) return false;
  use(*outputs, decoder_of(model));
  outputs->close();
  return true;
}

Evaluation LinkEvaluator::evaluate(nn::BlockModel& model) {
  const auto start = std::chrono::steady_clock::now();
  Evaluation result;
  result.stopped = !with_outputs(model, [&](NodeOutputs& outputs, nn::Decoder& decoder) {
    std::string of_validation;
    result.valid = score({outputs, decoder}, graph::Split::valid, of_validation);
    result.test = score({outputs, decoder}, graph::Split::test, result.test_details);
  });
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

/// This rank's share of the links of a split.
std::vector<Link> LinkEvaluator::share_of(graph::Split split) const {
  const std::vector<Link> all = held_links(*context_.graph, types_, split);
  std::vector<Link> mine;
  for (std::size_t e = at(communicator_.rank()); e < all.size(); e += at(communicator_.size()))
    mine.push_back(all[e]);
  return mine;
}

const KnownLinks& LinkEvaluator::known() {
  if (known_) return *known_;
  comm::Ranks ranks = context_.ranks;
  ranks.world = &communicator_;
  std::vector<Link> links = listed_links(*context_.graph, types_, ranks);
  for (const graph::Split split : {graph::Split::valid, graph::Split::test})
    std::ranges::copy(held_links(*context_.graph, types_, split), std::back_inserter(links));
  known_ = std::make_unique<const KnownLinks>(links, types_.size(), context_.graph->manifest().undirected);
  return *known_;
}

std::vector<nn::Side> LinkEvaluator::sides() const {
  if (config_.negative_ends == NegativeEnds::both) return {nn::Side::tail, nn::Side::head};
  return {nn::Side::tail};
}

std::int64_t LinkEvaluator::rounds_of(std::size_t links, Count at_once) const {
  std::int64_t rounds = (static_cast<Count>(links) + at_once - 1) / at_once;
  communicator_.all_reduce(std::span(&rounds, 1), comm::Communicator::Op::max);
  return rounds;
}

at::Tensor LinkEvaluator::relations_of(std::span<const Link> links) const {
  std::vector<std::int64_t> relations;
  for (const Link& link : links) relations.push_back(link.relation);
  return at::tensor(at::ArrayRef<std::int64_t>(relations), at::kLong)
      .to(torch_device(context_.ranks.device()));
}

namespace {

/// The piece of a rank's links in a round; empty behind the last.
std::span<const Link> piece_of(std::span<const Link> links, std::int64_t round, Count at_once) {
  const Count begin = std::min(std::ssize(links), round * at_once),
              end = std::min(std::ssize(links), begin + at_once);
  return links.subspan(at(begin), at(end - begin));
}

}  // namespace

Scores LinkEvaluator::score(const Scoring& scoring, graph::Split split, std::string& details) {
  const std::vector<Link> links = share_of(split);
  if (context_.task->edge_targets() != nullptr) return score_targets(scoring, links, details);
  known();
  std::vector<std::string> names;
  for (Count r = 0; r < types_.size(); ++r) names.push_back(types_.name(r));
  LinkScoreBoard board(config_.loss, std::move(names));
  for (const nn::Side side : sides()) {
    if (config_.eval_negatives == 0)
      rank_among_all(scoring, links, side, board);
    else
      rank_among_drawn(scoring, links, side, board);
  }
  const Scores scores = board.finish(work());
  details = board.details();
  return scores;
}

Scores LinkEvaluator::score_targets(const Scoring& scoring, std::span<const Link> links,
                                    std::string& details) {
  const EdgeTargets& targets = *context_.task->edge_targets();
  const auto cols = at(context_.task->decoder_cols());
  const auto board = context_.task->make_board(context_.graph->manifest(), context_.task->decoder_cols());
  communicator_.together([&] { targets.require(links, types_); });
  for (std::int64_t round = 0, rounds = rounds_of(links.size(), kRowsAtOnce); round < rounds; ++round) {
    const std::span<const Link> piece = piece_of(links, round, kRowsAtOnce);
    std::vector<NodeId> ends;
    for (const Link& link : piece) ends.push_back(link.source);
    for (const Link& link : piece) ends.push_back(link.destination);
    const at::Tensor rows = scoring.outputs.of(ends);
    const Count count = std::ssize(piece);
    const at::Tensor predicted =
        scoring.decoder.forward(rows.narrow(0, 0, count), relations_of(piece), rows.narrow(0, count, count))
            .cpu()
            .contiguous();
    context_.alive();
    const auto* values = predicted.const_data_ptr<float>();
    for (const Link& link : piece) {
      board->add({values, cols}, targets.of(link, types_));
      values += cols;
    }
  }
  Scores scores = board->finish(work());
  details = board->details();
  scores.counted = "edges";
  return scores;
}

/// Candidates that the key of a link's ends chooses, by original ids.
void LinkEvaluator::draw(const Link& link, nn::Side side, std::span<NodeId> candidates) const {
  const std::uint64_t source = node_key({.seed = context_.seed, .epoch = ~std::uint32_t{0}, .step = 0},
                                        RandomUse::negative, 1, link.source);
  std::uint64_t word = mix64(source ^ mix64(static_cast<std::uint64_t>(link.destination)));
  if (link.relation > 0) word = mix64(word ^ static_cast<std::uint64_t>(link.relation));
  if (side == nn::Side::head) word = mix64(~word);
  const Range nodes =
      side == nn::Side::tail ? types_.destinations(link.relation) : types_.sources(link.relation);
  const batches::CandidateDraw draw(nodes, {}, "ends");
  for (NodeId& candidate : candidates) candidate = draw(word = mix64(word));
}

void LinkEvaluator::rank_among_drawn(const Scoring& scoring, std::span<const Link> links, nn::Side side,
                                     LinkScoreBoard& board) {
  const Count drawn = config_.eval_negatives, pairs = 1 + drawn;
  const Count at_once = std::max<Count>(1, kRowsAtOnce / (1 + pairs)), cols = scoring.outputs.cols();
  for (std::int64_t round = 0, rounds = rounds_of(links.size(), at_once); round < rounds; ++round) {
    const std::span<const Link> piece = piece_of(links, round, at_once);
    const Count count = std::ssize(piece);
    std::vector<NodeId> ids(at(count * (1 + pairs)));
    for (Count i = 0; i < count; ++i) {
      ids[at(i)] = known_end(piece[at(i)], side);
      NodeId* const others = ids.data() + count + i * pairs;
      others[0] = other_end(piece[at(i)], side);
      draw(piece[at(i)], side, {others + 1, at(drawn)});
    }
    const at::Tensor rows = scoring.outputs.of(ids), known_rows = rows.narrow(0, 0, count).unsqueeze(1),
                     others = rows.slice(0, count).view({count, pairs, cols}),
                     relations = relations_of(piece).unsqueeze(1);
    const at::Tensor scores =
        (side == nn::Side::tail ? scoring.decoder.forward(known_rows, relations, others)
                                : scoring.decoder.forward(others, relations, known_rows))
            .cpu()
            .contiguous();
    context_.alive();
    const auto* values = scores.const_data_ptr<float>();
    std::vector<float> negatives;
    for (Count i = 0; i < count; ++i, values += pairs) {
      const Link& link = piece[at(i)];
      const std::span<const NodeId> right = known_->of(side, ids[at(i)], link.relation);
      const NodeId* const candidates = ids.data() + count + i * pairs;
      negatives.clear();
      for (Count k = 1; k < pairs; ++k)
        if (candidates[k] != candidates[0] && !std::ranges::binary_search(right, candidates[k]))
          negatives.push_back(values[k]);
      board.add({.relation = link.relation, .side = side}, values[0], negatives);
    }
  }
}

void LinkEvaluator::rank_among_all(const Scoring& scoring, std::span<const Link> links, nn::Side side,
                                   LinkScoreBoard& board) {
  std::vector<Range> ranges;  // of candidates, each once; ranges of types begin at different nodes
  const auto range_of = [&](Count r) {
    return side == nn::Side::tail ? types_.destinations(r) : types_.sources(r);
  };
  const auto first = [](const Range& range) { return range.first; };
  for (Count r = 0; r < types_.size(); ++r)
    if (std::ranges::find(ranges, range_of(r).first, first) == ranges.end()) ranges.push_back(range_of(r));
  for (const Range& range : ranges) {
    std::vector<Link> of_range;
    for (const Link& link : links)
      if (range_of(link.relation).first == range.first) of_range.push_back(link);
    constexpr Count kAtOnce = kPiecesAtOnce * kQueries;
    for (std::int64_t round = 0, rounds = rounds_of(of_range.size(), kAtOnce); round < rounds; ++round)
      rank_piece(scoring, piece_of(of_range, round, kAtOnce), range, side, board);
  }
}

namespace {

/// Links that are compared with one tile after the other, and what was counted so far.
struct Queries {
  std::span<const Link> links;
  at::Tensor rows, relations;     // [kQueries, cols], [kQueries]; padded
  at::Tensor own;                 // [links, 1] scores of the links
  at::Tensor lower, equal;        // [links] i64 of candidates
  std::vector<Count> candidates;  // of each link, that count
};

}  // namespace

// Products of matrices of one shape add up in one order, so that a link's rank does not depend on those beside it.
void LinkEvaluator::rank_piece(const Scoring& scoring, std::span<const Link> links, Range candidates,
                               nn::Side side, LinkScoreBoard& board) {
  const Count at_once = tile_of(candidates.count);
  std::vector<NodeId> ends;
  for (const Link& link : links) ends.push_back(known_end(link, side));
  for (const Link& link : links) ends.push_back(other_end(link, side));
  const at::Tensor rows = scoring.outputs.of(ends);
  const Count count = std::ssize(links);
  std::vector<Queries> pieces;
  for (Count first = 0; first < count; first += kQueries) {
    const Count size = std::min(kQueries, count - first);
    Queries piece{.links = links.subspan(at(first), at(size)),
                  .rows = padded(rows.narrow(0, first, size), kQueries),
                  .relations = {},
                  .own = {},
                  .lower = at::zeros({size}, rows.options().dtype(at::kLong)),
                  .equal = at::zeros({size}, rows.options().dtype(at::kLong)),
                  .candidates = std::vector<Count>(at(size))};
    piece.relations = at::constant_pad_nd(relations_of(piece.links), {0, kQueries - size});
    const at::Tensor others = padded(rows.narrow(0, count + first, size), at_once);
    piece.own = scoring.decoder.against(piece.rows, piece.relations, others, side)
                    .narrow(0, 0, size)
                    .narrow(1, 0, size)
                    .diagonal()
                    .unsqueeze(1)
                    .clone();
    pieces.push_back(std::move(piece));
  }
  for (NodeId first = candidates.first; first < candidates.end(); first += at_once) {
    const Range tile{first, std::min(at_once, candidates.end() - first)};
    std::vector<NodeId> nodes(at(tile.count));
    for (Count i = 0; i < tile.count; ++i) nodes[at(i)] = tile.first + i;
    const at::Tensor of_tile = padded(scoring.outputs.of(nodes), at_once);
    for (Queries& piece : pieces) {
      at::Tensor scores = scoring.decoder.against(piece.rows, piece.relations, of_tile, side)
                              .narrow(0, 0, std::ssize(piece.links))
                              .narrow(1, 0, tile.count);
      KnownColumns left_out;
      for (std::size_t i = 0; i < piece.links.size(); ++i) {
        const Link& link = piece.links[i];
        const std::size_t before = left_out.rows.size();
        const std::span<const NodeId> right = known_->of(side, known_end(link, side), link.relation);
        left_out.add(static_cast<std::int64_t>(i), right, tile);
        const NodeId own = other_end(link, side);
        if (!std::ranges::binary_search(right, own))
          left_out.add(static_cast<std::int64_t>(i), std::array{own}, tile);
        piece.candidates[i] += tile.count - static_cast<Count>(left_out.rows.size() - before);
      }
      left_out.fill(scores, std::numeric_limits<double>::quiet_NaN());
      piece.lower.add_(scores.lt(piece.own).sum(1));
      piece.equal.add_(scores.eq(piece.own).sum(1));
    }
    context_.alive();
  }
  for (const Queries& piece : pieces) {
    const at::Tensor lower = piece.lower.cpu(), equal = piece.equal.cpu();
    for (std::size_t i = 0; i < piece.links.size(); ++i) {
      const auto ties = static_cast<double>(equal.const_data_ptr<std::int64_t>()[i]);
      const auto others = static_cast<double>(piece.candidates[i] - lower.const_data_ptr<std::int64_t>()[i]);
      board.add_rank({.relation = piece.links[i].relation, .side = side}, 1 + others - ties / 2);
    }
  }
}

}  // namespace strata::train
