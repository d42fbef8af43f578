// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "channels/job_thread.hpp"
#include "channels/nccl_end.hpp"
#include "channels/staging.hpp"
#include "channels/torch_streams.hpp"

/// A network route goes from a GPU of one process to a GPU of another that shares no memory with it. Tensors
/// take NCCL where both have it and it works, and otherwise pinned host memory and TCP, in pieces: while one
/// is sent, the next is copied from the GPU and the one before to the other GPU.
///
///     sender                                  receiver
///     open: the id of a communicator   --->   opens it, too
///     offer: a message's tensors       --->   waits until few others receive
///     sends                            <---   accept; receives
///                                      <---   done
///
/// The host waits for tensors to be made before it offers them, and for each transfer. So a kernel of NCCL
/// waits for its counterpart only, see comm::DevicePipe, and a tensor is handed out when it is complete: no
/// stream ever waits for a rank that may die. After a failure both ends give NCCL up:
///
///     fail: why                        --->   aborts what is under way
///     sends by TCP what is not done    <---   closed; `done` went ahead for all that has arrived
namespace strata::rpc {

/// A message between the ends of a route.
struct RouteNote {
  enum class Step : std::uint8_t { open, offer, accept, done, fail, closed };
  Step step = Step::open;
  std::uint32_t route = 0;
  std::uint64_t transfer = 0;  ///< of offer, accept and done: Head::transfer of the tensors' message
  std::string text = {};       ///< the id, or a reason
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(step, route, transfer, text);
  }
};

/// A part of a tensor, whose bytes follow it over TCP.
struct NetworkPiece {
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  std::uint32_t route = 0;
  std::uint64_t transfer = 0;
  std::uint32_t tensor = 0;  ///< its place in the message
  std::uint64_t offset = 0, bytes = 0;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(route, transfer, tensor, offset, bytes);
  }
};

/// The functions that an end needs of its agent. Callable on any thread.
struct RouteOutlet {
  std::function<void(const RouteNote&)> send_note;  ///< to the other end
  std::function<void(const NetworkPiece&, StagedBytes)> send_piece;
  /// Reports that `bytes` bytes of a message came by NCCL and are complete.
  std::function<void(std::uint64_t transfer, std::size_t bytes)> arrived;
  std::function<void(std::size_t bytes)> count;  ///< a tensor that took NCCL
};

struct RouteSetup {
  Device device;  ///< this end's
  std::uint32_t number = 0;
  bool uses_nccl = false;
  std::chrono::milliseconds timeout{60000};
  std::chrono::nanoseconds busy_poll{};  ///< of its thread
  std::string here, peer;                ///< for messages
  std::shared_ptr<TransferPlaces> places;
  RouteOutlet outlet;
};

/// The sender's end. Thread safe.
class NetworkSender {
 public:
  struct Part {
    std::uint32_t place = 0;                    ///< in its message
    at::Tensor values;                          ///< contiguous, on the device, nobody else's
    std::shared_ptr<const cuda::Event> made{};  ///< when they are there; null: they are
  };
  /// Tensors of a message.
  struct Transfer {
    std::uint64_t number = 0;
    std::vector<Part> parts = {};
  };

  explicit NetworkSender(RouteSetup setup);
  void send(Transfer transfer);  ///< does not wait
  void heard(const RouteNote& note);
  void stop() { jobs_.stop(); }  ///< ends what is under way; does not wait
  void join();                   ///< waits for that; after stop()

 private:
  void deliver(const Transfer& transfer);
  bool send_by_nccl(const Transfer& transfer);
  void transfer_by_nccl(const Transfer& transfer);
  void leave_nccl(const std::string& reason);
  void send_in_pieces(const Transfer& transfer);
  bool is_noted(const std::optional<std::uint64_t>& last, std::uint64_t transfer) const;

  const RouteSetup setup_;
  mutable std::mutex mutex_;                      // of these
  std::optional<std::uint64_t> accepted_, done_;  // the last ones
  bool receiver_closed_ = false;
  NcclEnd nccl_;
  std::optional<Staging> staging_;  // of the thread of jobs
  JobThread jobs_;                  // ends first
};

/// The receiver's end. Thread safe.
class NetworkReceiver {
 public:
  explicit NetworkReceiver(RouteSetup setup);

  Device target() const { return setup_.device; }
  /// Memory for a tensor, of libtorch's: no other process writes to it.
  at::Tensor room(at::IntArrayRef sizes, at::ScalarType dtype) const {
    return empty_on(stream_, sizes, dtype);
  }
  /// Makes the current stream wait for the tensors that have arrived so far, and their memory for it.
  std::function<void(const at::Tensor&)> wait_for_values() const { return wait_for(stream_); }

  /// The tensors of an offer.
  void receive(std::uint64_t transfer, std::vector<at::Tensor> tensors);
  void refuse(std::uint64_t transfer) const;  ///< an offer, because there is no room: nothing comes
  void heard(const RouteNote& note);          ///< open or fail
  /// Copies a piece to its tensor. `bytes` lie in host memory of libtorch's.
  void take_piece(const NetworkPiece& piece, const at::Tensor& bytes, const at::Tensor& tensor) const;
  void stop() { jobs_.stop(); }
  void join();

 private:
  void send_note(RouteNote::Step step, std::uint64_t transfer, std::string text = {}) const;
  void run(const std::function<void()>& job);
  void receive_now(std::uint64_t transfer, const std::vector<at::Tensor>& tensors);

  const RouteSetup setup_;
  const c10::Stream stream_;  // of copies and of the tensors' memory
  NcclEnd nccl_;
  JobThread jobs_;  // ends first
};

}  // namespace strata::rpc
