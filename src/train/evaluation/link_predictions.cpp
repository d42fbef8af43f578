// SPDX-License-Identifier: Apache-2.0
#include "evaluation/link_predictions.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "evaluation/logits_file.hpp"
#include "evaluation/prediction_file.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"
#include "torch_device.hpp"
#include "type_choices.hpp"

namespace strata::train {
namespace {

constexpr Count kPairsAtOnce = 1 << 15;
constexpr Count kMostTop = 1000;
constexpr float kNone = -std::numeric_limits<float>::infinity();

/// Broadcasts what the first rank has.
template <typename T>
void share(std::vector<T>& values, const comm::Communicator& communicator) {
  std::string blob(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  communicator.broadcast(blob, 0);
  values.resize(blob.size() / sizeof(T));
  std::memcpy(static_cast<void*>(values.data()), blob.data(), blob.size());
}

std::vector<Link> read_pairs(const std::string& path, const LinkTypes& types) {
  const graph::NpyArray array = graph::read_npy(path);
  const bool fits = array.shape.size() == 2 && (array.shape[1] == 2 || array.shape[1] == 3) &&
                    array.is('i', 8) && !array.fortran_order;
  if (!fits)
    throw InputError(fmt::format("--pairs {}: {} {}", path, array.type_name(), array.shape_text()),
                     "Give int64 ids [N, 2] of sources and destinations, or [N, 3] with a relation.");
  const Count cols = array.shape[1];
  if (cols == 2 && types.size() > 1)
    throw InputError(fmt::format("--pairs {}: the run learns {} relations", path, types.size()),
                     "Give a third column with the number of the relation among them.");
  std::vector<Link> pairs(at(array.shape[0]));
  const auto* values = reinterpret_cast<const std::int64_t*>(array.data);
  const auto check = [&](Count row, const char* what, std::int64_t value, Count count) {
    if (value >= 0 && value < count) return;
    throw InputError(
        fmt::format("--pairs {}: {} {} in row {}, but there are {}", path, what, value, row, count),
        "Ids count from 0 within their type, as in the input from which the parts were built.");
  };
  for (std::size_t i = 0; i < pairs.size(); ++i, values += cols) {
    const auto row = static_cast<Count>(i);
    Link& pair = pairs[i];
    if (cols == 3) check(row, "relation", pair.relation = values[2], types.size());
    const Range sources = types.sources(pair.relation), destinations = types.destinations(pair.relation);
    check(row, "source", values[0], sources.count);
    check(row, "destination", values[1], destinations.count);
    pair.source = sources.first + values[0];
    pair.destination = destinations.first + values[1];
  }
  return pairs;
}

/// Predictions for pairs or nodes, of which each rank makes a share.
class PairPredictions {
 public:
  PairPredictions(LinkEvaluator& links, nn::BlockModel& model, const Task& task, RunContext& context,
                  const store::MachineGraph& graph, const InferenceRequest& request)
      : links_(links),
        types_(links.types()),
        model_(model),
        task_(task),
        context_(context),
        graph_(graph),
        request_(request),
        communicator_(links.communicator()) {}

  bool scores() {
    std::vector<Link> pairs;
    communicator_.together([&] {
      if (communicator_.rank() == 0) pairs = read_pairs(request_.pairs, types_);
    });
    share(pairs, communicator_);
    const Count cols = task_.decoder_cols();
    PredictionFile file(request_.logits, std::ssize(pairs), cols, communicator_);
    const Range mine = share_of({0, std::ssize(pairs)}, communicator_.rank(), communicator_.size());
    const bool done = links_.with_outputs(model_, [&](NodeOutputs& outputs, nn::Decoder& decoder) {
      for_pieces(mine, kPairsAtOnce, [&](Range piece) {
        const at::Tensor predicted =
            scores_of(std::span(pairs).subspan(at(piece.first), at(piece.count)), outputs, decoder);
        std::vector<float> row(at(cols));
        for (Count i = 0; i < piece.count; ++i) {
          std::copy_n(predicted.const_data_ptr<float>() + i * cols, cols, row.begin());
          task_.to_prediction(row, graph_.manifest());
          file.write_row(piece.first + i, row.data());
        }
      });
    });
    if (done) file.close();
    return done;
  }

  bool best() {
    const Count relation = relation_of_top();
    const Range sources = types_.sources(relation);
    std::vector<NodeId> nodes;
    communicator_.together([&] {
      if (communicator_.rank() > 0) return;
      if (!request_.nodes.empty()) {
        nodes = read_node_ids("--nodes", request_.nodes, sources.count);
      } else {
        nodes.resize(at(sources.count));
        std::iota(nodes.begin(), nodes.end(), NodeId{0});
      }
    });
    share(nodes, communicator_);
    const KnownLinks& known = links_.known();
    const Range mine = share_of({0, std::ssize(nodes)}, communicator_.rank(), communicator_.size());
    std::vector<std::int64_t> ids;
    std::vector<float> values;
    const bool done = links_.with_outputs(model_, [&](NodeOutputs& outputs, nn::Decoder& decoder) {
      for_pieces(mine, LinkEvaluator::kQueries, [&](Range piece) {
        std::vector<NodeId> of_piece;
        for (Count i = 0; i < piece.count; ++i)
          of_piece.push_back(sources.first + nodes[at(piece.first + i)]);
        append_best(of_piece, relation, known, outputs, decoder, ids, values);
      });
    });
    if (done) write_best(ids, values, std::ssize(nodes));
    return done;
  }

 private:
  /// Calls use(piece) as often as the rank with most pieces does, at last with empty ones: reads of rows are collective.
  void for_pieces(Range mine, Count at_once, const std::function<void(Range)>& use) {
    std::int64_t rounds = (mine.count + at_once - 1) / at_once;
    communicator_.all_reduce(std::span(&rounds, 1), comm::Communicator::Op::max);
    for (std::int64_t round = 0; round < rounds; ++round) {
      const Count begin = std::min(mine.count, round * at_once), end = std::min(mine.count, begin + at_once);
      use({mine.first + begin, end - begin});
      context_.alive("predicting");
    }
  }

  at::Tensor relations(Count count, Count relation) const {
    return at::full({count}, relation,
                    at::TensorOptions().dtype(at::kLong).device(torch_device(context_.device)));
  }

  at::Tensor scores_of(std::span<const Link> pairs, NodeOutputs& outputs, nn::Decoder& decoder) const {
    std::vector<NodeId> ends;
    std::vector<std::int64_t> of_pairs;
    for (const Link& pair : pairs) ends.push_back(pair.source), of_pairs.push_back(pair.relation);
    for (const Link& pair : pairs) ends.push_back(pair.destination);
    const at::Tensor rows = outputs.of(ends);
    const Count count = std::ssize(pairs);
    const at::Tensor numbers = at::tensor(at::ArrayRef<std::int64_t>(of_pairs), at::kLong).to(rows.device());
    return decoder.forward(rows.narrow(0, 0, count), numbers, rows.narrow(0, count, count))
        .cpu()
        .contiguous();
  }

  Count relation_of_top() const {
    if (request_.relation.empty()) {
      if (types_.size() == 1) return 0;
      throw InputError(fmt::format("--top: the run learns {} relations", types_.size()),
                       "Name one: --relation SOURCE__NAME__DESTINATION.");
    }
    const std::size_t number = relation_named(request_.relation, graph_.manifest().types, "--relation");
    for (Count r = 0; r < types_.size(); ++r)
      if (types_.number(r) == number) return r;
    throw InputError(fmt::format("--relation {}: the run does not learn it", request_.relation),
                     "Name one of the relations of the run.");
  }

  /// The best destinations of some sources, without themselves and those that they have a link to.
  void append_best(const std::vector<NodeId>& sources, Count relation, const KnownLinks& known,
                   NodeOutputs& outputs, nn::Decoder& decoder, std::vector<std::int64_t>& ids,
                   std::vector<float>& values) {
    constexpr Count kQueries = LinkEvaluator::kQueries;
    const Count count = std::ssize(sources);
    const at::Tensor rows = at::constant_pad_nd(outputs.of(sources), {0, 0, 0, kQueries - count});
    const at::Tensor of_queries = relations(kQueries, relation);
    const Range candidates = types_.destinations(relation);
    const Count at_once = LinkEvaluator::tile_of(candidates.count);
    at::Tensor best = at::full({count, request_.top}, kNone, rows.options()),
               found = at::full({count, request_.top}, -1, of_queries.options());
    for (NodeId first = candidates.first; first < candidates.end(); first += at_once) {
      const Range tile{first, std::min(at_once, candidates.end() - first)};
      std::vector<NodeId> nodes(at(tile.count));
      std::iota(nodes.begin(), nodes.end(), tile.first);
      const at::Tensor of_tile = at::constant_pad_nd(outputs.of(nodes), {0, 0, 0, at_once - tile.count});
      if (count == 0) continue;
      at::Tensor scores = decoder.against(rows, of_queries, of_tile, nn::Side::tail)
                              .narrow(0, 0, count)
                              .narrow(1, 0, tile.count);
      KnownColumns left_out;
      for (Count i = 0; i < count; ++i) {
        const NodeId source = sources[at(i)];
        left_out.add(i, known.of(nn::Side::tail, source, relation), tile);
        left_out.add(i, std::span(&source, 1), tile);
      }
      left_out.fill(scores, kNone);
      const at::Tensor numbers = at::tensor(at::ArrayRef<NodeId>(nodes), at::kLong)
                                     .to(rows.device())
                                     .sub(candidates.first)
                                     .expand({count, -1});
      const at::Tensor both = at::cat({best, scores}, 1);
      const auto [values_of_best, places] = at::topk(both, request_.top, 1);
      found = at::gather(at::cat({found, numbers}, 1), 1, places)
                  .masked_fill(values_of_best.eq(static_cast<double>(kNone)), -1);
      best = values_of_best;
    }
    const at::Tensor on_host = best.cpu().contiguous(), ids_on_host = found.cpu().contiguous();
    values.insert(values.end(), on_host.const_data_ptr<float>(),
                  on_host.const_data_ptr<float>() + on_host.numel());
    ids.insert(ids.end(), ids_on_host.const_data_ptr<std::int64_t>(),
               ids_on_host.const_data_ptr<std::int64_t>() + ids_on_host.numel());
  }

  template <typename T>
  std::vector<T> gathered(const std::vector<T>& mine) const {
    const std::string blob(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(T));
    std::vector<T> all;
    for (const std::string& part : communicator_.gather(blob, 0)) {
      const std::size_t first = all.size();
      all.resize(first + part.size() / sizeof(T));
      std::memcpy(static_cast<void*>(all.data() + first), part.data(), part.size());
    }
    return all;
  }

  void write_best(const std::vector<std::int64_t>& ids, const std::vector<float>& values, Count nodes) const {
    const std::vector<std::int64_t> all_ids = gathered(ids);
    const std::vector<float> all_values = gathered(values);
    communicator_.together([&] {
      if (communicator_.rank() > 0) return;
      const std::string stem = request_.logits.substr(0, request_.logits.size() - std::strlen(".npy"));
      graph::write_npy(request_.logits, DType::i64, {nodes, request_.top}, all_ids.data());
      graph::write_npy(stem + "-scores.npy", DType::f32, {nodes, request_.top}, all_values.data());
    });
  }

  LinkEvaluator& links_;
  const LinkTypes& types_;
  nn::BlockModel& model_;
  const Task& task_;
  RunContext& context_;
  const store::MachineGraph& graph_;
  const InferenceRequest& request_;
  const comm::Communicator& communicator_;
};

}  // namespace

void check_pairs(const TrainConfig& config, const InferenceRequest& request) {
  if (!request.of_pairs()) {
    if (!request.relation.empty())
      throw InputError("--relation has no effect without --top",
                       "Leave it out; --pairs has a column for it.");
    return;
  }
  const char* const option = request.top > 0 ? "--top" : "--pairs";
  if (request.top > 0 && !request.pairs.empty())
    throw InputError("--top contradicts --pairs", "Give one of them.");
  if (!config.of_links() || (request.top > 0 && config.task != TaskKind::link))
    throw InputError(fmt::format("{}: the run learns no links", option), "Leave it out.");
  if (request.top < 0 || request.top > kMostTop)
    throw InputError(fmt::format("--top: {} is not in 1 to {}", request.top, kMostTop),
                     "Give a number such as 10.");
  if (request.split != NodeSplit::all || (!request.pairs.empty() && !request.nodes.empty()))
    throw InputError(fmt::format("{} contradicts --nodes or --split", option), "Give one of them.");
  if (!request.logits.ends_with(".npy"))
    throw InputError(fmt::format("--output {}: the name does not end with .npy", request.logits),
                     "Give scores.npy.");
}

bool predict_pairs(LinkEvaluator& links, nn::BlockModel& model, const Task& task, RunContext& context,
                   const store::MachineGraph& graph, const InferenceRequest& request) {
  PairPredictions predictions(links, model, task, context, graph, request);
  return request.top > 0 ? predictions.best() : predictions.scores();
}

}  // namespace strata::train
