// SPDX-License-Identifier: Apache-2.0
// usage: rpc_soak [--minutes M] [--seconds S] [--seed N] [--calls N] [--starts N]
// All ranks call each other at random: tensors of all sizes both ways, on GPUs too where there are any, calls
// that call back, objects whose handles go to third ranks, calls that throw, calls that are given up, results
// that nobody waits for. Every result is checked. With --calls N each rank makes N small calls instead, and
// with --starts N the agents start and end N times. At the end nothing may be left, and each process holds as
// many files and as much memory as after the first fifth. Any launcher.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include "strata/cuda/device.hpp"
#include "strata/rpc/agent.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"
#include "strata/util/error.hpp"
#include "support/process_use.hpp"

namespace {

using strata::rpc::Agent;
using strata::rpc::Future;
using strata::rpc::Ref;
using Clock = std::chrono::steady_clock;

struct Settings {
  double seconds = 3;
  unsigned seed = 1;
  std::int64_t calls = 0, starts = 0;
};

class Shelf {
 public:
  explicit Shelf(const at::Tensor& content) : content_(content) {}
  at::Tensor content() { return content_; }
  void add(std::int64_t value) { content_ += value; }

 private:
  at::Tensor content_;
};

Agent*& own_agent() {
  static Agent* agent = nullptr;
  return agent;
}

/// Overwrites its argument, which is nobody else's.
at::Tensor add_one(const at::Tensor& x) {
  at::Tensor y = x + 1;
  x.fill_(-7);
  return y;
}
std::int64_t sum(const std::vector<at::Tensor>& tensors) {
  std::int64_t total = 0;
  for (const at::Tensor& tensor : tensors) total += tensor.sum().item<std::int64_t>();
  return total;
}
int refuse(int number) { throw strata::InputError(fmt::format("no {}", number)); }
int climb(int depth) {
  if (depth == 0) return 0;
  const Agent& agent = *own_agent();
  const int next = (agent.rank() + depth) % agent.size();
  return 1 + own_agent()->sync(fmt::format("rank:{}", next), &climb, depth - 1);
}
at::Tensor content_of(const Ref<Shelf>& shelf) { return shelf.sync(&Shelf::content); }

strata::rpc::Registry functions() {
  strata::rpc::Registry registry;
  registry.function("add_one", &add_one).function("sum", &sum).function("refuse", &refuse);
  registry.function("climb", &climb).function("content_of", &content_of);
  registry.constructor<Shelf, at::Tensor>("Shelf")
      .method("Shelf::content", &Shelf::content)
      .method("Shelf::add", &Shelf::add);
  return registry;
}

void check(bool holds, const char* what) {
  if (!holds) throw strata::CommError(fmt::format("rpc_soak: {}", what));
}

/// One thread of a rank that calls.
class Caller {
 public:
  Caller(Agent& agent, at::Device device, unsigned seed) : agent_(agent), device_(device), random_(seed) {}

  void one_call() {
    switch (random_() % 8) {
      case 0:
      case 1:
        return send_tensor();
      case 2:
        return send_many();
      case 3:
        return check(agent_.sync(peer(), &climb, 5) == 5, "nested calls went astray");
      case 4:
        return pass_handles();
      case 5:
        return be_refused();
      case 6:
        return give_up();
      default:
        agent_.async(peer(), &add_one, tensor());  // nobody waits
    }
  }
  void finish() {
    while (!kept_.empty()) check_oldest();
  }

 private:
  struct Kept {
    at::Tensor sent;
    Future<at::Tensor> received;
  };

  std::string peer() {
    return fmt::format("rank:{}", static_cast<int>(random_() % static_cast<unsigned>(agent_.size())));
  }
  at::Tensor tensor() {
    constexpr std::array<std::int64_t, 4> kMost{10, 2000, 60'000, 700'000};
    const auto count = static_cast<std::int64_t>(random_()) % kMost[random_() % kMost.size()];
    const at::Device device = random_() % 2 == 0 ? device_ : at::Device(at::kCPU);
    return at::arange(count, at::TensorOptions(at::kLong).device(device)) +
           static_cast<int>(random_() % 1000);
  }

  void send_tensor() {
    const at::Tensor sent = tensor();
    at::Tensor given = sent.clone();
    const std::string to = peer();
    kept_.push_back({sent, agent_.async(to, &add_one, given)});
    if (to != fmt::format("rank:{}", agent_.rank())) given.fill_(-3);  // it was copied
    while (kept_.size() > random_() % 16) check_oldest();
  }
  void check_oldest() {
    const at::Tensor received = kept_.front().received.wait();
    check(received.device() == kept_.front().sent.device(), "a tensor came to another device");
    check(at::equal(received, kept_.front().sent + 1), "a tensor has changed on its way");
    kept_.pop_front();
  }
  void send_many() {
    std::vector<at::Tensor> tensors;
    std::int64_t total = 0;
    for (unsigned i = random_() % 40; i > 0; --i) {
      tensors.push_back(
          at::full({static_cast<std::int64_t>(random_() % 3000)}, static_cast<int>(i), at::kLong));
      total += tensors.back().numel() * i;
    }
    check(agent_.sync(peer(), &sum, tensors) == total, "a sum is wrong");
  }
  void pass_handles() {
    const at::Tensor content = tensor().cpu();
    const Ref<Shelf> shelf = agent_.remote<Shelf>(peer(), content.clone());
    shelf.sync(&Shelf::add, 5);
    const Future<at::Tensor> dropped = agent_.async(peer(), &content_of, shelf);
    check(at::equal(agent_.sync(peer(), &content_of, shelf), content + 5), "an object has another value");
  }
  void be_refused() {
    try {
      agent_.sync(peer(), &refuse, 3);
    } catch (const strata::rpc::RemoteError& error) {
      return check(error.text() == "no 3", "an error has another text");
    }
    check(false, "what a call threw was lost");
  }
  /// Its answer finds nobody.
  void give_up() {
    const strata::rpc::CallTimeout timeout(std::chrono::milliseconds(1 + random_() % 3));
    try {
      agent_.sync(peer(), &add_one, tensor());
    } catch (const strata::CommError&) {  // unless it was in time
    }
  }

  Agent& agent_;
  const at::Device device_;
  std::mt19937 random_;
  std::deque<Kept> kept_;
};

Settings settings_of(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name(argv[i]);
    const double value = i + 1 < argc ? std::atof(argv[i + 1]) : 0;
    if (name == "--minutes" && value > 0) {
      settings.seconds = value * 60;
    } else if (name == "--seconds" && value > 0) {
      settings.seconds = value;
    } else if (name == "--seed") {
      settings.seed = static_cast<unsigned>(value);
    } else if (name == "--calls" && value > 0) {
      settings.calls = static_cast<std::int64_t>(value);
    } else if (name == "--starts" && value > 0) {
      settings.starts = static_cast<std::int64_t>(value);
    } else {
      throw strata::InputError(
          "usage: rpc_soak [--minutes M] [--seconds S] [--seed N] [--calls N] [--starts N]");
    }
  }
  return settings;
}

/// Random calls for so many seconds. Returns their number.
std::int64_t call_at_random(Agent& agent, at::Device device, double seconds, unsigned seed) {
  constexpr unsigned kThreads = 3;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::atomic<std::int64_t> calls{0};
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        Caller caller(agent, device, seed * 1000 + static_cast<unsigned>(agent.rank()) * kThreads + t);
        while (Clock::now() < end) {
          caller.one_call();
          ++calls;
        }
        caller.finish();
      } catch (const std::exception& error) {
        fmt::print(stderr, "rank {}: {}\n", agent.rank(), error.what());
        std::_Exit(1);  // the other threads and ranks would wait for this one
      }
    });
  }
  threads.clear();
  return calls;
}

/// A run on all ranks: agents, the calls between them, and what must not grow meanwhile.
class Soak {
 public:
  Soak(const strata::comm::World& world, const Settings& settings)
      : world_(world), settings_(settings), gpus_(strata::cuda::device_count()) {}

  void run() {
    if (settings_.starts > 0) {
      compare([this](std::int64_t fifths) { start_and_end(settings_.starts * fifths / 5); });
    } else {
      const std::unique_ptr<Agent> agent = start();
      compare([&](std::int64_t fifths) { call(*agent, fifths); });
      end(*agent);
    }
    fmt::print("rank {}: {} calls\n", world_.rank(), calls_);
  }

 private:
  std::unique_ptr<Agent> start() {
    strata::rpc::Options options{.threads = 4, .landing_bytes = 1 << 20};
    for (int peer = 0; gpus_ > 0 && peer < world_.size(); ++peer)
      options.set_device_map(fmt::format("rank:{}", peer), {{world_.rank() % gpus_, peer % gpus_}});
    auto agent = std::make_unique<Agent>(world_.communicator(), fmt::format("worker{}", world_.rank()),
                                         functions(), options);
    own_agent() = agent.get();
    world_.communicator().barrier();
    return agent;
  }
  void end(Agent& agent) {
    world_.communicator().barrier();
    agent.shutdown();
    check(agent.counts().objects == 0 && agent.counts().calls == 0, "something is left");
  }

  void start_and_end(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::unique_ptr<Agent> agent = start();
      check(agent->sync(next(), &sum, std::vector{at::full({5000}, 1, at::kLong)}) == 5000, "a sum is wrong");
      ++calls_;
      end(*agent);
    }
  }
  void call(Agent& agent, std::int64_t fifths) {
    if (settings_.calls == 0) {
      const double share = static_cast<double>(fifths) / 5;
      calls_ += call_at_random(agent, device(), settings_.seconds * share,
                               settings_.seed + static_cast<unsigned>(fifths));
      while (agent.counts().calls > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    for (std::int64_t i = 0; i < settings_.calls * fifths / 5; ++i, ++calls_)
      check(agent.sync(next(), &climb, 0) == 0, "a small call has a wrong result");
  }

  /// Runs a first fifth and then the others.
  void compare(const std::function<void(std::int64_t fifths)>& work) {
    constexpr std::int64_t kMostKib = 16 << 10;  // what is under way at the one time and not at the other
    work(1);
    world_.communicator().barrier();
    const auto before = strata::test::ProcessUse::now();
    work(4);
    world_.communicator().barrier();
    const auto after = strata::test::ProcessUse::now();
    fmt::print(
        "rank {}: memory {} -> {} KiB, allocated {} -> {} KiB, files {} -> {}, shared mappings {} -> {}\n",
        world_.rank(), before.memory_kib, after.memory_kib, before.allocated_kib, after.allocated_kib,
        before.files, after.files, before.mappings, after.mappings);
    check(after.allocated_kib - before.allocated_kib < kMostKib, "memory was not freed");
    check(after.files == before.files, "files were left open");
    check(after.mappings == before.mappings, "memory was left mapped");
  }

  std::string next() const { return fmt::format("rank:{}", (world_.rank() + 1) % world_.size()); }
  at::Device device() const {
    return gpus_ > 0 ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(world_.rank() % gpus_))
                     : at::Device(at::kCPU);
  }

  const strata::comm::World& world_;
  const Settings settings_;
  const int gpus_;
  std::int64_t calls_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto backend = strata::torch_ranks::backend_of_launcher(&argc, &argv);
    const Settings settings = settings_of(argc, argv);
    const strata::comm::World world(backend);
    Soak(world, settings).run();
    return 0;
  } catch (const strata::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
