// SPDX-License-Identifier: Apache-2.0
#include "tuning/loader_threads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::train {
namespace {

std::vector<int> settings_of(const LoaderThreads::Options& options) {
  if (!options.overlap) return {options.cores};
  std::vector<double> most_cores = {static_cast<double>(options.cores)};
  options.communicator->all_reduce(most_cores, comm::Communicator::Op::max);
  return LoaderThreads::candidates(options.cores, static_cast<int>(most_cores.front()));
}

}  // namespace

LoaderThreads::LoaderThreads(Options options)
    : options_(std::move(options)),
      candidates_(settings_of(options_)),
      trial_({.settings = static_cast<int>(candidates_.size()),
              .agree = Trial::slowest_of(*options_.communicator)}),
      last_(std::chrono::steady_clock::now()) {}

std::vector<int> LoaderThreads::candidates(int cores, int most_cores) {
  std::vector<int> candidates;
  for (int divisor = 1; divisor <= most_cores; divisor *= 2)
    candidates.push_back(std::max(1, cores / divisor));
  return candidates;
}

int LoaderThreads::threads() const { return candidates_[at(trial_.setting())]; }

void LoaderThreads::apply(int threads) {
  for (ThreadPool* pool : options_.pools) pool->limit(threads);
}

void LoaderThreads::begin_epoch() {
  apply(threads());
  trial_.interrupt();
  last_ = std::chrono::steady_clock::now();
}

void LoaderThreads::end_epoch() { apply(options_.cores); }

void LoaderThreads::end_step() {
  if (trial_.decided()) return;
  const auto now = std::chrono::steady_clock::now();
  trial_.add(std::chrono::duration<double>(now - std::exchange(last_, now)).count());
  apply(threads());
  if (trial_.decided() && options_.logs) log_result();
}

void LoaderThreads::log_result() const {
  const auto median = [&](std::size_t i) { return format_seconds(trial_.medians()[i]); };
  spdlog::info("{} of {} threads sample and gather beside training: a step takes {}", threads(),
               options_.cores, median(at(trial_.setting())));
  std::string others;
  for (std::size_t i = 0; i < candidates_.size(); ++i)
    if (static_cast<int>(i) != trial_.setting())
      others += fmt::format("{} {} with {}", others.empty() ? "" : ",", median(i), candidates_[i]);
  if (!others.empty()) spdlog::info(" {}", others);
}

}  // namespace strata::train
