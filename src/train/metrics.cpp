#include "strata/train/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "strata/util/label_sets.hpp"

namespace strata::train {

double Scores::of(Metric metric) const {
  switch (metric) {
    case Metric::accuracy:
      return accuracy;
    case Metric::macro_f1:
      return macro_f1;
    case Metric::roc_auc:
      break;
  }
  return roc_auc;
}

bool Scores::beats(const Scores& best, Metric metric) const {
  if (nodes == 0) return true;
  const double mine = of(metric), other = best.of(metric);
  return mine > other || (std::isnan(other) && !std::isnan(mine));
}

ScoreBoard::ScoreBoard(Count num_classes, bool multi_label)
    : num_classes_(num_classes),
      multi_label_(multi_label),
      true_positives_(static_cast<std::size_t>(num_classes)),
      predicted_(static_cast<std::size_t>(num_classes)),
      labelled_(static_cast<std::size_t>(num_classes)),
      scored_(static_cast<std::size_t>(multi_label ? num_classes : (num_classes == 2 ? 1 : 0))) {}

void ScoreBoard::add_label(std::span<const float> logits, const std::int32_t* words) {
  if (multi_label_) {
    if (!is_unlabelled(words, num_classes_)) add_set(logits, words);
  } else if (*words >= 0) {
    add(logits, *words);
  }
}

void ScoreBoard::add_set(std::span<const float> logits, const std::int32_t* words) {
  double sum = 0;
  for (std::size_t c = 0; c < logits.size(); ++c) {
    const bool wanted = has_class(words, static_cast<Count>(c)), predicted = logits[c] > 0;
    const auto logit = static_cast<double>(logits[c]);
    sum += std::max(logit, 0.0) - (wanted ? logit : 0.0) + std::log1p(std::exp(-std::abs(logit)));
    correct_ += wanted == predicted;
    predicted_[c] += predicted;
    labelled_[c] += wanted;
    true_positives_[c] += wanted && predicted;
    scored_[c].push_back({logits[c], wanted});
  }
  ++nodes_;
  loss_ += sum / static_cast<double>(logits.size());
}

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
  if (num_classes_ == 2) scored_[0].push_back({logits[1] - logits[0], label});
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
  scores.accuracy =
      static_cast<double>(counts[1]) / static_cast<double>(scores.nodes * (multi_label_ ? num_classes_ : 1));
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
  scores.roc_auc = mean_area(communicator);
  return scores;
}

double ScoreBoard::mean_area(const comm::Communicator& communicator) const {
  double sum = 0;
  int defined = 0;
  for (const std::vector<Scored>& scored : scored_) {
    const double area = area_under_curve(scored, communicator);
    if (std::isnan(area)) continue;
    sum += area;
    ++defined;
  }
  return defined == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / defined;
}

double ScoreBoard::area_under_curve(const std::vector<Scored>& scored,
                                    const comm::Communicator& communicator) {
  const std::string mine(reinterpret_cast<const char*>(scored.data()), scored.size() * sizeof(Scored));
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
