#include "strata/train/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "strata/util/error.hpp"

namespace strata::train {

double Scores::by_name(const std::string& metric) const {
  if (metric == "accuracy") return accuracy;
  if (metric == "macro_f1") return macro_f1;
  if (metric == "roc_auc") return roc_auc;
  throw InputError(fmt::format("there is no metric \"{}\"", metric), "Use accuracy, macro_f1 or roc_auc.");
}

bool Scores::beats(const Scores& best, const std::string& metric) const {
  if (nodes == 0) return true;
  const double mine = by_name(metric), other = best.by_name(metric);
  return mine > other || (std::isnan(other) && !std::isnan(mine));
}

ScoreBoard::ScoreBoard(Count num_classes)
    : num_classes_(num_classes),
      true_positives_(static_cast<std::size_t>(num_classes)),
      predicted_(static_cast<std::size_t>(num_classes)),
      labelled_(static_cast<std::size_t>(num_classes)) {}

void ScoreBoard::add(std::span<const float> logits, std::int32_t label) {
  const auto best = static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const auto wanted = static_cast<std::size_t>(label);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - logits[best]);
  ++nodes_;
  loss_ += std::log(sum) - (static_cast<double>(logits[wanted]) - logits[best]);
  ++predicted_[best];
  ++labelled_[wanted];
  if (best == wanted) {
    ++correct_;
    ++true_positives_[best];
  }
  if (num_classes_ == 2) scored_.push_back({logits[1] - logits[0], label});
}

Scores ScoreBoard::finish(const comm::Communicator& communicator) const {
  std::vector<std::int64_t> counts{nodes_, correct_};
  for (const auto* per_class : {&true_positives_, &predicted_, &labelled_}) {
    counts.insert(counts.end(), per_class->begin(), per_class->end());
  }
  communicator.all_reduce(std::span(counts));
  std::vector<double> loss{loss_};
  communicator.all_reduce(std::span(loss));

  Scores scores{.nodes = counts[0], .roc_auc = std::numeric_limits<double>::quiet_NaN()};
  if (scores.nodes == 0) return scores;
  scores.loss = loss[0] / static_cast<double>(scores.nodes);
  scores.accuracy = static_cast<double>(counts[1]) / static_cast<double>(scores.nodes);
  const auto classes = static_cast<std::size_t>(num_classes_);
  double f1_sum = 0;
  int present = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    const Count hits = counts[2 + c], either = counts[2 + classes + c] + counts[2 + 2 * classes + c];
    if (either == 0) continue;
    ++present;
    f1_sum += 2.0 * static_cast<double>(hits) / static_cast<double>(either);
  }
  scores.macro_f1 = f1_sum / present;
  if (num_classes_ == 2) scores.roc_auc = area_under_curve(communicator);
  return scores;
}

double ScoreBoard::area_under_curve(const comm::Communicator& communicator) const {
  const std::string mine(reinterpret_cast<const char*>(scored_.data()), scored_.size() * sizeof(Scored));
  const std::vector<std::string> blobs = communicator.gather(mine, 0);
  double area = 0;
  if (communicator.rank() == 0) {
    std::vector<Scored> all;
    for (const std::string& blob : blobs) {
      const std::size_t old = all.size();
      all.resize(old + blob.size() / sizeof(Scored));
      std::memcpy(all.data() + old, blob.data(), blob.size());
    }
    // A model that diverged has no order.
    if (std::any_of(all.begin(), all.end(), [](const Scored& s) { return std::isnan(s.score); })) all.clear();
    std::sort(all.begin(), all.end(), [](const Scored& a, const Scored& b) { return a.score < b.score; });
    // The Mann-Whitney statistic; ties count half.
    double rank_sum = 0, positives = 0;
    for (std::size_t begin = 0; begin < all.size();) {
      std::size_t end = begin;
      double tied_positives = 0;
      for (; end < all.size() && all[end].score == all[begin].score; ++end)
        tied_positives += all[end].positive;
      rank_sum += tied_positives * (static_cast<double>(begin + end + 1) / 2);
      positives += tied_positives;
      begin = end;
    }
    const double negatives = static_cast<double>(all.size()) - positives;
    area = positives > 0 && negatives > 0
               ? (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)
               : std::numeric_limits<double>::quiet_NaN();
  }
  communicator.broadcast(&area, sizeof area, 0);
  return area;
}

}  // namespace strata::train
