// SPDX-License-Identifier: Apache-2.0
// usage: killed_agent_scenario idle|call|transfer|network_transfer|backward|shutdown|stopped|paused
//        killed_agent_scenario link FILE
// The last of three ranks is killed while it waits, while it runs a call of rank 0, while tensors of rank
// 0 are on their way to it, from GPU to GPU if there are any, within a machine or between virtual machines,
// or in the backward passes of calls that reached it from rank 0 and through rank 1; or it is killed or
// stopped while the others wait in shutdown(). Or it is stopped for longer than a broken network is given,
// while more is on its way to it than its host takes, and then answers. Or nobody is killed, and somebody
// else unplugs its host once FILE is there. Ranks 0 and 1 hear of it within ten seconds, and go on with each
// other unless they end.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "strata/cuda/device.hpp"
#include "strata/rpc/agent.hpp"
#include "strata/rpc/autograd.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"

namespace {

using strata::rpc::Agent;
using strata::rpc::Registry;

int add(int a, int b) { return a + b; }
int sleep_long() {
  std::this_thread::sleep_for(std::chrono::minutes(5));
  return 0;
}
std::atomic<bool>& finished() {
  static std::atomic<bool> flag{false};
  return flag;
}
int own_process() { return static_cast<int>(getpid()); }
int finish() {
  finished() = true;
  return 0;
}
int die() { return std::raise(SIGKILL); }
Agent*& own_agent() {
  static Agent* agent = nullptr;
  return agent;
}
int kill_worker2() { return own_agent()->sync("worker2", &die); }
std::atomic<bool>& stays() {
  static std::atomic<bool> flag{false};
  return flag;
}
at::Tensor on_the_way_back(const at::Tensor& x, void (*act)()) {
  const at::Tensor y = x * 2;
  y.register_hook([act](const at::Tensor& gradient) {
    act();
    return gradient;
  });
  return y;
}
at::Tensor stay_on_the_way_back(const at::Tensor& x) {
  return on_the_way_back(x, [] {
    stays() = true;
    sleep_long();
  });
}
at::Tensor die_on_the_way_back(const at::Tensor& x) {
  return on_the_way_back(x, [] {
    while (!stays()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    die();
  });
}
at::Tensor pass_on(const at::Tensor& x) { return own_agent()->sync("worker2", &stay_on_the_way_back, x); }

/// What ended it.
std::string run_backward(Agent& agent, const std::string& peer, at::Tensor (*function)(const at::Tensor&)) {
  strata::rpc::AutogradContext context(agent);
  const at::Tensor y = agent.sync(peer, function, at::ones({3}).set_requires_grad(true));
  try {
    context.backward({y.sum()});
    return "nothing";
  } catch (const strata::Error& error) {
    return error.what();
  }
}
/// One pass waits for worker1, which waits for the rank that dies in the other pass.
void run_both_backward(Agent& agent) {
  std::string through_worker1;
  {
    const std::jthread other([&] { through_worker1 = run_backward(agent, "worker1", &pass_on); });
    fmt::print("backward ended with: {}\n", run_backward(agent, "worker2", &die_on_the_way_back));
  }
  fmt::print("backward through worker1 ended with: {}\n", through_worker1);
}

/// Ends this process if it has not heard within ten seconds.
class Deadline {
 public:
  Deadline() { alarm(10); }
  ~Deadline() { alarm(0); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
};

std::int64_t sum(const at::Tensor& x) { return x.sum().item<std::int64_t>(); }

/// Tensors that find room in memory of both, and others that pass through it in pieces.
std::vector<strata::rpc::Future<std::int64_t>> send_tensors(Agent& agent, const std::string& peer) {
  const at::Device device =
      strata::cuda::device_count() > 0 ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  std::vector<strata::rpc::Future<std::int64_t>> sums;
  for (int i = 0; i < 20; ++i) {
    const at::Tensor ones =
        at::full({i % 2 == 0 ? 2'000'000 : 2000}, 1, at::TensorOptions(at::kLong).device(device));
    sums.push_back(agent.async(peer, &sum, ones));
  }
  return sums;
}

bool transfers(const std::string& when) { return when.ends_with("transfer"); }

void talk(Agent& agent, const std::string& when) {
  auto deadline = std::make_optional<Deadline>();
  if (when == "backward") run_both_backward(agent);
  strata::rpc::Future<int> waiting;
  if (when == "call") waiting = agent.async("worker2", &sleep_long);
  std::vector<strata::rpc::Future<std::int64_t>> sums;
  if (transfers(when)) {
    sums = send_tensors(agent, "worker2");
    agent.async("worker1",
                &kill_worker2);  // whose call does not wait behind these tensors, as one from here does
  }
  try {
    agent.sync("worker2", &die);
  } catch (const strata::CommError& error) {
    fmt::print("rank 0 heard: {}\n", error.what());
  }
  try {
    if (when == "call") waiting.wait();
  } catch (const strata::CommError& error) {
    fmt::print("and of the other call: {}\n", error.what());
  }
  for (strata::rpc::Future<std::int64_t>& each : sums) {
    try {
      each.wait();
    } catch (const strata::CommError&) {  // those that it did not answer before
    }
  }
  deadline.reset();
  if (transfers(when))
    for (strata::rpc::Future<std::int64_t>& each : send_tensors(agent, "worker1")) each.wait();
  fmt::print("worker1 still adds: {}\n", agent.sync("worker1", &add, 20, 22));
  std::fflush(stdout);
  agent.async("worker1", &finish);
}

/// Calls until one fails.
void call_until_lost(Agent& agent, const std::string& peer) {
  try {
    for (;;) agent.sync(peer, &add, 20, 22);
  } catch (const strata::CommError& error) {
    fmt::print("rank {} heard: {}\n", agent.rank(), error.what());
    std::fflush(stdout);
  }
}

/// The others wait for the last rank to end its agent, which it never does.
[[noreturn]] void end_without_one(Agent& agent, const std::string& when) {
  if (agent.rank() == 2) std::raise(when == "stopped" ? SIGSTOP : SIGKILL);
  const Deadline deadline;
  try {
    agent.shutdown();
    std::_Exit(0);
  } catch (const strata::CommError& error) {
    fmt::print("rank {} heard: {}\n", agent.rank(), error.what());
    std::fflush(stdout);
    std::_Exit(1);
  }
}

/// The last rank reads nothing for a while, and is not lost.
void pause_one(Agent& agent) {
  const int process = agent.sync("worker2", &own_process);
  ::kill(process, SIGSTOP);
  const at::Tensor ones = at::full({std::int64_t{8} << 20}, 1, at::kLong);  // 64 MiB
  strata::rpc::Future<std::int64_t> total = agent.async("worker2", &sum, ones);
  std::this_thread::sleep_for(std::chrono::seconds(13));
  const bool waits = !total.is_done();
  ::kill(process, SIGCONT);
  fmt::print("worker2 was {}, and sums {}\n", waits ? "waited for" : "lost", total.wait());
  std::fflush(stdout);
  agent.async("worker1", &finish);
  agent.sync("worker2", &finish);
}

/// The host of the last rank is unplugged.
void lose_link(Agent& agent, const std::string& file) {
  if (agent.rank() == 0) std::ofstream(file) << "started\n";
  if (agent.rank() == 2) call_until_lost(agent, "worker0");
  if (agent.rank() == 0) {
    call_until_lost(agent, "worker2");
    fmt::print("worker1 still adds: {}\n", agent.sync("worker1", &add, 20, 22));
    std::fflush(stdout);
    agent.async("worker1", &finish);
  }
  finished() = finished() || agent.rank() == 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string when = argc > 1 ? argv[1] : "idle";
  const auto backend = strata::torch_ranks::backend({.ends_with_others = false});
  const strata::comm::World world(backend);
  Registry registry;
  registry.function("add", &add)
      .function("sleep_long", &sleep_long)
      .function("die", &die)
      .function("kill_worker2", &kill_worker2)
      .function("stay_on_the_way_back", &stay_on_the_way_back)
      .function("die_on_the_way_back", &die_on_the_way_back)
      .function("pass_on", &pass_on)
      .function("sum", &sum)
      .function("own_process", &own_process)
      .function("finish", &finish);
  strata::rpc::Options options{
      .threads = 2, .landing_bytes = 1 << 20, .ranks_per_machine = when == "network_transfer" ? 1 : 0};
  if (when == "link" || when == "stopped") options.timeout = std::chrono::seconds(5);
  if (when == "paused") options.channels = {strata::rpc::Channel::tcp};
  const int gpus = strata::cuda::device_count();
  if (world.rank() == 0 && gpus > 0)
    for (int peer = 1; peer < world.size(); ++peer)
      options.set_device_map(fmt::format("rank:{}", peer), {{0, peer % gpus}});
  Agent agent(world.communicator(), fmt::format("worker{}", world.rank()), registry, options);
  own_agent() = &agent;
  world.communicator().barrier();
  if (when == "shutdown" || when == "stopped") {
    end_without_one(agent, when);
  }
  if (when == "link") {
    lose_link(agent, argv[2]);
  } else if (world.rank() == 0 && when == "paused") {
    pause_one(agent);
  } else if (world.rank() == 0) {
    talk(agent, when);
  }
  while (world.rank() != 0 && !finished()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  agent.shutdown(Agent::Ending::at_once);
  std::_Exit(0);  // the world cannot end in order any more
}
