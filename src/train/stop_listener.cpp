// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>

#include <utility>

#include "strata/train/stop_signals.hpp"
#include "strata/train/trainer.hpp"

namespace strata::train {

StopListener::StopListener() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { listen(); });
}

StopListener::StopListener(ByHand) {}

StopListener::~StopListener() {
  if (!thread_.joinable()) return;
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);  // wakes it
  thread_.join();
}

void StopListener::listen() {
  const sigset_t set = stop_signals();
  while (!ending_) {
    const int signal = sigwaitinfo(&set, nullptr);
    if (signal > 0 && !ending_) request(signal);
  }
}

void StopListener::request(int signal) {
  const std::lock_guard lock(mutex_);
  if (requested()) return;
  signal_ = signal;
  if (act_) act_(signal);
}

void StopListener::until_loaded(std::function<void(int)> act) {
  const std::lock_guard lock(mutex_);
  act_ = std::move(act);
  if (requested()) act_(signal());
}

void StopListener::loaded() {
  const std::lock_guard lock(mutex_);
  act_ = nullptr;
  loaded_ = true;
}

}  // namespace strata::train
