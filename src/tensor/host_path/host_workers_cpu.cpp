// SPDX-License-Identifier: Apache-2.0
#include "host_path/host_workers_cpu.hpp"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace strata::tensor {
namespace {

/// Waits a little longer each time: first it spins, because the wait is expected to be short, then it sleeps.
class Patience {
 public:
  void wait() {
    if (++waits_ > kSpins) return std::this_thread::sleep_for(kSleep);
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }
  bool spins() const { return waits_ <= kSpins; }

 private:
  static constexpr int kSpins = 1000;  // some 50 us
  static constexpr std::chrono::microseconds kSleep{20};
  int waits_ = 0;
};

std::uint64_t read_flag(std::uint64_t* flag) {
  return std::atomic_ref<std::uint64_t>(*flag).load(std::memory_order_acquire);
}

void run_on(const std::vector<int>& processors) {
  if (processors.empty()) return;
  const int size = std::ranges::max(processors) + 1;  // hosts may have more than fit in a cpu_set_t
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(at(size)),
                                                              [](cpu_set_t* set) { CPU_FREE(set); });
  const std::size_t bytes = CPU_ALLOC_SIZE(at(size));
  CPU_ZERO_S(bytes, mask.get());
  for (const int processor : processors) CPU_SET_S(at(processor), bytes, mask.get());
  sched_setaffinity(0, bytes, mask.get());  // if refused, the thread runs anywhere, only slower
}

constexpr unsigned long kTimerSlackNs = 1000;  // the default of 50 us would double a sleep

struct Posted {
  explicit Posted(const HostJob& host_job) : job(host_job) {}
  const HostJob job;
  std::atomic<bool> led{false};  // whether a thread polls the doorbell for all threads
  std::atomic<bool> cancelled{false};
  std::atomic<Count> rows{-1};  // from the doorbell; -1: not known yet
  std::atomic<Count> next_chunk{0};
  int left = 0;  // threads that are done with it; guarded by the mutex
};

}  // namespace

struct HostWorkers::State {
  RowSource rows;
  RowStores stores = RowStores::streaming;
  std::vector<std::thread> threads;

  std::mutex mutex;
  std::condition_variable posted, rung;
  std::deque<std::shared_ptr<Posted>> jobs;
  std::atomic<std::uint64_t> num_posted{0};  // changes under the mutex
  std::uint64_t num_done = 0;                // jobs that all threads are done with; jobs[0] is the next
  std::atomic<bool> stopping{false};

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    posted.notify_all();
    rung.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  /// Job number `turn`, or null when stopping.
  std::shared_ptr<Posted> take(std::uint64_t turn) {
    for (Patience patience; num_posted <= turn && !stopping && patience.spins();) patience.wait();
    std::unique_lock lock(mutex);
    posted.wait(lock, [&] { return stopping || num_posted > turn; });
    return stopping ? nullptr : jobs[turn - num_done];
  }

  bool abandoned(const Posted& p) const { return stopping || p.cancelled; }

  Count listen(const Posted& p) const {
    Patience patience;
    for (;;) {
      if (abandoned(p)) return 0;
      const Count rows = DoorbellWord{read_flag(p.job.doorbell)}.rows_of(p.job.ticket);
      if (rows >= 0) return rows;
      patience.wait();
    }
  }

  /// One thread polls the doorbell; the others wait for it.
  void learn_rows(Posted& p) {
    if (!p.led.exchange(true)) {
      const Count rows = listen(p);
      {
        const std::lock_guard lock(mutex);
        p.rows = rows;
      }
      rung.notify_all();
      posted.notify_all();  // wakes threads that slept during the post
      return;
    }
    for (Patience patience; p.rows < 0 && patience.spins();) patience.wait();
    std::unique_lock lock(mutex);
    rung.wait(lock, [&] { return p.rows >= 0; });
  }

  bool wait_for(std::uint64_t* flag, const Posted& p) const {
    for (Patience patience; read_flag(flag) != p.job.ticket; patience.wait()) {
      if (abandoned(p)) return false;
    }
    return true;
  }

  template <typename Number>
  void copy_chunk(const HostJob& job, Count first, Count count, std::byte* slot) const {
    const std::span numbers(static_cast<const Number*>(job.numbers) + first, at(count));
    copy_rows(rows, numbers, slot, stores);
  }

  bool fill(const Posted& p, Count chunk) const {
    const HostJob& job = p.job;
    if (!wait_for(job.exported + chunk, p)) return false;
    if (chunk >= job.num_slots && !wait_for(job.drained + chunk - job.num_slots, p)) return false;
    const Count first = chunk * job.chunk_rows, count = std::min(job.chunk_rows, p.rows - first);
    if (job.wide) {
      copy_chunk<std::uint64_t>(job, first, count, job.slot_of(chunk));
    } else {
      copy_chunk<std::uint32_t>(job, first, count, job.slot_of(chunk));
    }
    std::atomic_ref<std::uint64_t>(job.filled[chunk]).store(job.ticket, std::memory_order_release);
    return true;
  }

  void leave(Posted& p) {
    const std::lock_guard lock(mutex);
    if (++p.left < static_cast<int>(threads.size())) return;
    jobs.pop_front();  // threads take jobs in order, so all threads leave the first job first
    ++num_done;
  }

  void serve() {
    prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
    for (std::uint64_t turn = 0;; ++turn) {
      const std::shared_ptr<Posted> p = take(turn);
      if (p == nullptr) return;
      learn_rows(*p);
      const Count num_chunks = p->job.num_chunks(p->rows);
      for (Count chunk; (chunk = p->next_chunk.fetch_add(1)) < num_chunks && fill(*p, chunk);) {
      }
      leave(*p);
    }
  }
};

HostWorkers::HostWorkers(const RowSource& rows, const Options& options) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.rows = rows;
  state.stores = options.stores;
  const std::lock_guard lock(state.mutex);  // leave() reads the number of threads
  for (int i = 0; i < std::max(1, options.threads); ++i) {
    state.threads.emplace_back([&state, processors = options.processors] {
      run_on(processors);
      state.serve();
    });
  }
}

HostWorkers::~HostWorkers() = default;

int HostWorkers::num_threads() const { return static_cast<int>(state_->threads.size()); }

void HostWorkers::post(const HostJob& job) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->jobs.push_back(std::make_shared<Posted>(job));
    ++state_->num_posted;
  }
  state_->posted.notify_one();  // this thread polls the doorbell and wakes the others
}

void HostWorkers::cancel_last() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->jobs.empty()) state_->jobs.back()->cancelled = true;
}

int default_host_threads(int cores) { return std::max(1, cores - std::max(1, cores / 4)); }

}  // namespace strata::tensor
