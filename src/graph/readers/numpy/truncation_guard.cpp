// SPDX-License-Identifier: Apache-2.0
#include "readers/numpy/truncation_guard.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "strata/graph/read_graph.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

constexpr std::size_t kMostPath = 1024;

/// A mapping that is watched; first is 0 while the slot is free, and 1 while it is being filled.
struct Watched {
  std::atomic<std::uintptr_t> first{0}, last{0};
  char file[kMostPath] = {};
};

/// The data of the signal's handler, which takes no argument.
struct Watch {
  std::array<Watched, 256> slots;
  std::atomic<const Watched*> truncated{nullptr};
  char truncated_file[kMostPath] = {};
  std::uintptr_t page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction before = {};
};
Watch watch;

/// Puts a page of zeros where the file has none. Uses only what a handler may.
bool put_zeros(std::uintptr_t address) {
  for (Watched& slot : watch.slots) {
    const std::uintptr_t first = slot.first.load(std::memory_order_acquire);
    if (first <= 1 || address < first || address >= slot.last) continue;
    void* const page = reinterpret_cast<void*>(address / watch.page_bytes * watch.page_bytes);
    if (::mmap(page, watch.page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
      return false;
    const Watched* none = nullptr;
    if (watch.truncated.compare_exchange_strong(none, &slot))
      std::memcpy(watch.truncated_file, slot.file, kMostPath);
    return true;
  }
  return false;
}

void handle(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (put_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    errno = error;
    return;
  }
  if ((watch.before.sa_flags & SA_SIGINFO) != 0) return watch.before.sa_sigaction(signal, info, context);
  if (watch.before.sa_handler != SIG_DFL && watch.before.sa_handler != SIG_IGN)
    return watch.before.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // the access is repeated, and ends the process
}

void handle_from_now_on() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, &watch.before);
  });
}

}  // namespace

TruncationGuard::TruncationGuard(const std::byte* data, std::size_t bytes,
                                 const std::filesystem::path& file) {
  handle_from_now_on();
  for (std::size_t i = 0; i < watch.slots.size(); ++i) {
    Watched& slot = watch.slots[i];
    std::uintptr_t free = 0;
    if (!slot.first.compare_exchange_strong(free, 1)) continue;
    const auto first = reinterpret_cast<std::uintptr_t>(data);
    slot.last = (first + bytes + watch.page_bytes - 1) / watch.page_bytes * watch.page_bytes;
    std::strncpy(slot.file, file.c_str(), kMostPath - 1);
    slot.first.store(first, std::memory_order_release);
    slot_ = static_cast<int>(i);
    return;
  }
}

TruncationGuard::~TruncationGuard() {
  if (slot_ >= 0) watch.slots[at(slot_)].first = 0;
}

void refuse_truncated_inputs() {
  if (watch.truncated.load() == nullptr) return;
  const std::string file = watch.truncated_file;
  watch.truncated = nullptr;
  throw InputError(fmt::format("{} got shorter while it was read", file),
                   "Wait until nothing writes to the input, and start again.");
}

}  // namespace strata::graph
