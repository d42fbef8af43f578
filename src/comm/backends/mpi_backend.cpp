// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <source_location>
#include <thread>
#include <utility>

#include "backends/mpi_plugin.hpp"
#include "polling.hpp"
#include "strata/comm/backend.hpp"
#include "strata/comm/launcher.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

using Member = Backend::Member;

constexpr int kMessageTag = 1, kMailTag = 2;

/// Throws CommError with MPI's text, rank and host unless `code` is MPI_SUCCESS.
void check(int code, const char* call, const Member& self,
           std::source_location where = std::source_location::current()) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(fmt::format("{} failed: {} ({})", call, text, self.who()), {}, where);
}

MPI_Op native(Communicator::Op op) {
  switch (op) {
    case Communicator::Op::sum:
      return MPI_SUM;
    case Communicator::Op::min:
      return MPI_MIN;
    case Communicator::Op::max:
      return MPI_MAX;
    case Communicator::Op::bit_or:
      return MPI_BOR;
  }
  return MPI_OP_NULL;
}

MPI_Datatype native(Backend::Type type) {
  switch (type) {
    case Backend::Type::f32:
      return MPI_FLOAT;
    case Backend::Type::f64:
      return MPI_DOUBLE;
    case Backend::Type::i64:
      return MPI_INT64_T;
  }
  return MPI_DATATYPE_NULL;
}

/// Polls `done` until it is true. After the first moments the thread sleeps in between, so that the cores and
/// MPI's locks are free for threads that work.
template <typename Done>
void await(Done&& done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kMoments{200}, kRest{50};
  const auto start = Clock::now();
  while (!done()) {
    if (Clock::now() - start < kMoments) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kRest);
    }
  }
}

/// A communicator of MPI, for what is in flight on it.
struct Handle {
  MPI_Comm comm;
  const Member& self;
};

class MpiMessages final : public Backend::Messages {
 public:
  explicit MpiMessages(Handle handle) : handle_(handle) {}

  void send(const void* data, Count bytes, int peer) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, kMessageTag, handle_.comm, &request),
          "MPI_Isend", handle_.self);
    add(request, {.bytes = static_cast<int>(bytes), .peer = peer, .incoming = false});
  }
  void receive(void* data, Count bytes, int peer) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, kMessageTag, handle_.comm, &request),
          "MPI_Irecv", handle_.self);
    add(request, {.bytes = static_cast<int>(bytes), .peer = peer, .incoming = true});
  }

  void wait() override {
    std::vector<MPI_Status> statuses(requests_.size());
    await([&] { return test_all(statuses); });
    for (std::size_t i = 0; i < messages_.size(); ++i) check_size(messages_[i], statuses[i]);
    requests_.clear();
    messages_.clear();
  }

 private:
  bool test_all(std::vector<MPI_Status>& statuses) {
    int done = 0;
    const int code =
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses.data());
    if (code == MPI_ERR_IN_STATUS) {
      for (const MPI_Status& status : statuses) {
        if (status.MPI_ERROR != MPI_ERR_PENDING) check(status.MPI_ERROR, "MPI_Testall", handle_.self);
      }
    }
    check(code, "MPI_Testall", handle_.self);
    return done != 0;
  }

  struct Message {
    int bytes;
    int peer;
    bool incoming;
  };
  void add(MPI_Request request, const Message& message) {
    requests_.push_back(request);
    messages_.push_back(message);
  }
  void check_size(const Message& message, const MPI_Status& status) const {
    if (!message.incoming) return;
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count", handle_.self);
    if (bytes != message.bytes) {
      throw CommError(fmt::format("rank {} of the communicator sent {} bytes where {} were expected ({})",
                                  message.peer, bytes, message.bytes, handle_.self.who()));
    }
  }

  Handle handle_;
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;
};

class MpiMailbox final : public Backend::Mailbox {
 public:
  MpiMailbox(Handle handle, std::vector<int> peers, std::size_t bytes)
      : handle_(handle), peers_(std::move(peers)), outgoing_(peers_.size()) {
    for (Outgoing& outgoing : outgoing_) outgoing.message.resize(bytes);
  }

  bool post(std::size_t p, std::span<const std::byte> message) override {
    if (!has_left(p)) return false;
    Outgoing& outgoing = outgoing_[p];
    std::ranges::copy(message, outgoing.message.begin());
    check(MPI_Isend(outgoing.message.data(), static_cast<int>(message.size()), MPI_BYTE, peers_[p], kMailTag,
                    handle_.comm, &outgoing.request),
          "MPI_Isend", handle_.self);
    return true;
  }

  std::optional<std::size_t> take(std::span<std::byte> message) override {
    int waiting = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, kMailTag, handle_.comm, &waiting, &status), "MPI_Iprobe", handle_.self);
    if (waiting == 0) return std::nullopt;
    check(MPI_Recv(message.data(), static_cast<int>(message.size()), MPI_BYTE, status.MPI_SOURCE, kMailTag,
                   handle_.comm, MPI_STATUS_IGNORE),
          "MPI_Recv", handle_.self);
    return std::ranges::find(peers_, status.MPI_SOURCE) - peers_.begin();
  }

  bool has_left(std::size_t p) override {
    int sent = 0;
    check(MPI_Test(&outgoing_[p].request, &sent, MPI_STATUS_IGNORE), "MPI_Test", handle_.self);
    return sent != 0;
  }

 private:
  struct Outgoing {
    std::vector<std::byte> message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  Handle handle_;
  std::vector<int> peers_;
  std::vector<Outgoing> outgoing_;  // MPI reads a message until its request is complete
};

class MpiBackend : public Backend {
 public:
  /// Takes over the communicator, and makes its errors return.
  MpiBackend(MPI_Comm comm, Member self) : comm_(comm), self_(std::move(self)) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", self_);
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank", self_);
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size", self_);
  }

  const char* name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const Member& self() const override { return self_; }

  std::shared_ptr<Backend> duplicate() override {
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_dup(comm_, &comm), "MPI_Comm_dup", self_);
    return std::make_shared<MpiBackend>(comm, self_);
  }
  std::shared_ptr<Backend> split(int color, int key) override {
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, color, key, &comm), "MPI_Comm_split", self_);
    return std::make_shared<MpiBackend>(comm, self_);
  }
  std::shared_ptr<Backend> split_by_host() override {
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &comm),
          "MPI_Comm_split_type", self_);
    return std::make_shared<MpiBackend>(comm, self_);
  }
  void close() override { check(MPI_Comm_free(&comm_), "MPI_Comm_free", self_); }

  void barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier", self_);
    finish(request);
  }
  void broadcast(void* data, Count bytes, int root) override {
    check(MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, root, comm_), "MPI_Bcast", self_);
  }
  void all_reduce(void* values, Count count, Type type, Communicator::Op op) override {
    check(MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), native(type), native(op), comm_),
          "MPI_Allreduce", self_);
  }
  void exchange(std::span<const std::int64_t> send, std::span<std::int64_t> received) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ialltoall(send.data(), 1, MPI_INT64_T, received.data(), 1, MPI_INT64_T, comm_, &request),
          "MPI_Ialltoall", self_);
    finish(request);
  }

  std::unique_ptr<Messages> messages() override {
    return std::make_unique<MpiMessages>(Handle{comm_, self_});
  }
  std::optional<std::int64_t> min_within(std::int64_t value, std::chrono::milliseconds patience) override;
  std::unique_ptr<Mailbox> mailbox(std::vector<int> peers, std::size_t bytes) override {
    return std::make_unique<MpiMailbox>(Handle{comm_, self_}, std::move(peers), bytes);
  }

  void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  bool is_done(MPI_Request& request) const {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", self_);
    return done != 0;
  }
  void finish(MPI_Request request) const {
    await([&] { return is_done(request); });
  }

  MPI_Comm comm_;
  Member self_;
  int rank_ = 0, size_ = 1;
};

std::optional<std::int64_t> MpiBackend::min_within(std::int64_t value, std::chrono::milliseconds patience) {
  static std::int64_t own, least;  // because a rank that gives up leaves them to MPI
  own = value;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallreduce(&own, &least, 1, MPI_INT64_T, MPI_MIN, comm_, &request), "MPI_Iallreduce", self_);
  if (!poll_until(std::chrono::steady_clock::now() + patience, [&] { return is_done(request); }))
    return std::nullopt;
  return least;
}

/// The group of all ranks; its end is the end of MPI.
class MpiWorld final : public MpiBackend {
 public:
  using MpiBackend::MpiBackend;
  void close() override { MPI_Finalize(); }
};

void require_threads(int provided) {
  if (provided == MPI_THREAD_MULTIPLE) return;
  throw CommError(
      fmt::format("this MPI library gives thread level {} where {} (MPI_THREAD_MULTIPLE) is needed", provided,
                  static_cast<int>(MPI_THREAD_MULTIPLE)),
      "Use an MPI library that was built with thread support (ompi_info | grep THREAD_MULTIPLE).");
}

void require_fresh_mpi(const Member& self) {
  int initialized = 0;
  check(MPI_Initialized(&initialized), "MPI_Initialized", self);
  if (initialized == 0) return;
  throw InputError("MPI was initialised in this process before, by Strata or by another library (mpi4py)",
                   "MPI can be initialised once per process: open one World, keep it to the end, and let no "
                   "other library initialise MPI (mpi4py: mpi4py.rc.initialize = False).");
}

/// Prints a remedy if the process ends while this lives: if Open MPI cannot be initialized, it prints a page
/// about its own build and calls _exit. So a child process waits for the end of this one, where there is
/// a remedy.
class StartWatch {
 public:
  StartWatch() {
    const std::string words = words_on_failed_start();
    if (words.empty() || ::pipe2(ends_, O_CLOEXEC) != 0) return;
    child_ = ::fork();
    if (child_ == 0) speak_at_the_end(words);
  }
  ~StartWatch() {
    if (ends_[0] < 0) return;
    const bool has_started = ::write(ends_[1], "", 1) == 1;
    for (const int end : ends_) ::close(end);
    if (has_started && child_ > 0) ::waitpid(child_, nullptr, 0);
  }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  /// Runs in the child; it calls only what a child of a process with threads may call.
  [[noreturn]] void speak_at_the_end(const std::string& words) const {
    ::close(ends_[1]);
    char started = 0;
    const bool has_ended = ::read(ends_[0], &started, 1) == 0;
    ::_exit(has_ended && ::write(STDERR_FILENO, words.data(), words.size()) > 0 ? 1 : 0);
  }

  pid_t child_ = -1;
  int ends_[2] = {-1, -1};  // of a pipe; both stay open here, so that no write meets a pipe that nobody reads
};

void require_all_ranks(const Member& self) try {
  int size = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size", self);
#ifdef OPEN_MPI
  refuse_lone_rank(size, "Open MPI");
#else
  refuse_lone_rank(size, "MPICH");
#endif
} catch (const InputError&) {
  MPI_Finalize();
  throw;
}

/// Sets what suits Strata (docs/clusters.md, "MPI settings"), unless the user has set it.
void prefer_settings() {
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  setenv("OMPI_MCA_btl_tcp_rdma_pipeline_frag_size", "262144", 0);
}

}  // namespace

std::shared_ptr<Backend> open_mpi_world(int* argc, char*** argv) {
  Member self{.world_rank = 0, .host = host_name()};
  require_fresh_mpi(self);
  prefer_settings();
  int provided = MPI_THREAD_SINGLE;
  {
    const StartWatch watch;
    check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread", self);
  }
  require_threads(provided);
  require_all_ranks(self);
  check(MPI_Comm_rank(MPI_COMM_WORLD, &self.world_rank), "MPI_Comm_rank", self);
  check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", self);
  return std::make_shared<MpiWorld>(MPI_COMM_WORLD, self);
}

}  // namespace strata::comm
