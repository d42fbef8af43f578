// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "run.hpp"
#include "strata/comm/backend.hpp"

namespace strata::torch_ranks {

/// A group of two or more ranks, over a ProcessGroupGloo of its own.
class Group : public comm::Backend {
 public:
  /// Makes a group of the members `world_ranks`, by rank.
  Group(std::shared_ptr<const Run> run, std::string key, std::vector<int> world_ranks);
  ~Group() override;

  const char* name() const override { return "torch"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_ranks_.size()); }
  const Member& self() const override { return run_->self(); }

  std::shared_ptr<Backend> duplicate() override;
  std::shared_ptr<Backend> split(int color, int key) override;
  std::shared_ptr<Backend> split_by_host() override;
  void close() override;

  void barrier() override;
  void broadcast(void* data, Count bytes, int root) override;
  void all_reduce(void* values, Count count, Type type, comm::Communicator::Op op) override;
  void exchange(std::span<const std::int64_t> send, std::span<std::int64_t> received) override;
  std::unique_ptr<Messages> messages() override;
  std::optional<std::int64_t> min_within(std::int64_t value, std::chrono::milliseconds patience) override;
  std::unique_ptr<Mailbox> mailbox(std::vector<int> peers, std::size_t bytes) override;
  void abort(int exit_code) override { run_->abort(exit_code); }

 protected:
  const Run& run() const { return *run_; }

 private:
  std::string next_key();

  std::shared_ptr<const Run> run_;
  std::string key_;
  std::vector<int> world_ranks_;
  int rank_;
  int groups_made_ = 0;
  GlooPtr gloo_;
};

}  // namespace strata::torch_ranks
