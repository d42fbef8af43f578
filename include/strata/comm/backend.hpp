// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/util/types.hpp"

namespace strata::comm {

/// A group of ranks and their messages: the base of a Communicator, and all that a way to run ranks must
/// provide. There are three: MPI, torch.distributed's own classes (strata::torch_ranks), and one rank on
/// its own.
///
/// An owner. One thread at a time uses a group, but different threads may use different groups at once. Calls
/// are collective over the group unless they say otherwise, wait as long as it takes, and throw CommError
/// that names the call, the rank and the host. Data lies in host memory.
class Backend {
 public:
  virtual ~Backend() = default;  ///< not collective, so it frees nothing that others still use: call close()

  /// A rank's identity in error messages, also in smaller groups.
  struct Member {
    int world_rank = 0;
    std::string host;

    std::string who() const;  ///< "rank 3, host gpu-07"
  };

  virtual const char* name() const = 0;  ///< "mpi", "torch", "solo"; not collective, like all in this block
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const Member& self() const = 0;

  virtual std::shared_ptr<Backend> duplicate() = 0;
  /// Groups of the ranks that give the same color, which is at least 0, in order of (key, rank).
  virtual std::shared_ptr<Backend> split(int color, int key) = 0;
  /// Groups of the ranks that share memory, in order of rank.
  virtual std::shared_ptr<Backend> split_by_host() = 0;
  /// Frees the group. The first group, which has all ranks, also ends what connects them.
  virtual void close() = 0;

  virtual void barrier() = 0;
  /// Broadcasts at most 2^30 bytes, as everywhere below. Throws on all ranks if there is no such root.
  virtual void broadcast(void* data, Count bytes, int root) = 0;
  enum class Type : std::uint8_t { f32, f64, i64 };
  /// Reduces in place; all ranks get the same bits.
  virtual void all_reduce(void* values, Count count, Type type, Communicator::Op op) = 0;
  /// Sends send[r] to every rank r; received[r] is what rank r sent to this one.
  virtual void exchange(std::span<const std::int64_t> send, std::span<std::int64_t> received) = 0;

  /// Messages between pairs of ranks, all in flight at once. Their memory must stay valid until wait() has
  /// returned. Messages from one rank to another arrive in the order of the calls.
  class Messages {
   public:
    virtual ~Messages() = default;
    virtual void send(const void* data, Count bytes, int peer) = 0;  ///< of 1 byte or more, to another rank
    virtual void receive(void* data, Count bytes, int peer) = 0;
    /// Returns when all have arrived. Throws CommError if one was shorter than expected.
    virtual void wait() = 0;
  };
  /// Only the ranks that exchange messages call it. The group must outlive it.
  virtual std::unique_ptr<Messages> messages() = 0;

  /// The least value of all ranks; nothing if some rank has not come within `patience`, after which the group
  /// can be used no more. Called at most once per process.
  virtual std::optional<std::int64_t> min_within(std::int64_t value, std::chrono::milliseconds patience) = 0;

  /// Small messages; an older one may get lost when a newer one follows. No call waits for another
  /// rank.
  class Mailbox {
   public:
    virtual ~Mailbox() = default;
    /// Sends a message to the p-th peer; returns false if the one before is still on its way.
    virtual bool post(std::size_t p, std::span<const std::byte> message) = 0;
    /// Fetches a message that has arrived, and returns which peer sent it.
    virtual std::optional<std::size_t> take(std::span<std::byte> message) = 0;
    /// Whether this rank may end: no message to the p-th peer still needs it.
    virtual bool has_left(std::size_t p) = 0;
  };
  /// A mailbox between this rank and `peers`, which name this rank in turn. Messages have `bytes` bytes. The
  /// group serves nothing else, and must outlive it.
  virtual std::unique_ptr<Mailbox> mailbox(std::vector<int> peers, std::size_t bytes) = 0;

  /// Ends all ranks of the run with `exit_code`. Any thread may call it at any time. Never returns.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

/// The name of Python capsules that hold a std::shared_ptr<Backend>*. Its number changes with the class.
inline constexpr const char* kBackendCapsule = "strata.comm.Backend/1";

/// All ranks of mpirun or srun. Initialises MPI with MPI_THREAD_MULTIPLE, before any other thread starts and
/// once per process; closing the group finalises it. Throws InputError if MPI sees one rank of several.
std::shared_ptr<Backend> mpi_backend(int* argc, char*** argv);

/// One rank on its own, without MPI and network.
std::shared_ptr<Backend> solo_backend();
/// One rank that forms a group of a larger run.
std::shared_ptr<Backend> solo_backend(const Backend::Member& self);

/// What started this process.
enum class Launcher : std::uint8_t {
  none,   ///< nothing that made other ranks
  mpi,    ///< mpirun, or srun with more than one task
  torch,  ///< torchrun, or anything that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
};
/// Finds the launcher in the environment. torchrun's variables come before those of mpirun or srun, which may
/// have started torchrun. Throws InputError if only some of the variables for torch.distributed are set.
Launcher find_launcher();

/// The ranks of a program that knows no other launcher than MPI's: mpi_backend() where mpirun or srun started
/// several ranks, else one rank on its own. Throws InputError under torchrun with several ranks.
std::shared_ptr<Backend> backend_of_program(int* argc, char*** argv);

std::string host_name();

}  // namespace strata::comm
