// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <vector>

#include "rows/direct_rows.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/kernels.cuh"
#include "strata/cuda/stream.hpp"
#include "strata/store/halo.hpp"

namespace strata::batches {
namespace {

constexpr auto kDevice = cuda::Memory::device;
constexpr const char* kWhat = "rows of other machines";

/// Numbers on the device: of this fetch, then of all fetches.
enum Number : int { kOverflow, kRemote, kKept, kNumNumbers };

/// The nodes of this machine, and those of others whose rows follow.
struct Here {
  NodeId first, end;
  store::NodeIndexView halo;
};

/// Splits ids into the rows that this machine has, by the place where they are wanted, and the ids to ask
/// others for, in the order given.
__global__ void locate_rows(FetchedIds wanted, Here here, NodeId* local_ids, NodeId* asked, Count* num_kept) {
  std::uint32_t kept_here = 0;
  for (Count i = cuda::first_item<Count>(); i < wanted.count; i += cuda::item_stride<Count>()) {
    const bool sorted = wanted.sorted != nullptr;
    const NodeId id = sorted ? wanted.sorted[i] : wanted.ids[i];
    const Count position = sorted ? wanted.sorted_positions[i] : i;
    const bool own = id < 0 || (id >= here.first && id < here.end);
    const Count kept = own ? -1 : here.halo.find(id);
    kept_here += kept >= 0;
    local_ids[position] = own ? id : kept >= 0 ? here.end + kept : -1;
    asked[i] = own || kept >= 0 ? -1 : id;
  }
  cuda::add_to_total(num_kept, kept_here);
}

class CudaDirectRows final : public DirectRows {
 public:
  CudaDirectRows(const LocalRows& local, const RowExchangeContext& exchange, Device device);

  void set_cap(Count rows) override;
  bool ready() const override { return cap_ >= 0; }
  bool fetch(const FetchedIds& ids, float* out, const cuda::Stream& stream) override;
  void add_to(RowExchangeReport& report) const override;

 private:
  void locate(const FetchedIds& ids, const cuda::Stream& stream);
  void bring();
  void launch(cuda::Graph& recorded, const std::function<void()>& enqueue);
  void take_times();
  void count_messages();
  Count sent_row_bytes() const { return local_.sent_row_bytes(sent_type_); }

  const LocalRows& local_;
  comm::DeviceExchange& wire_;
  comm::LaunchOrder* order_;
  comm::LaunchOrder::Turn turn_;
  Device device_;
  NodeId end_of_machine_;
  DType sent_type_;
  Count cap_ = -1;
  comm::IdSegments<NodeId> segments_;
  cuda::Stream stream_;  // for what crosses machines; other work must not hold it up
  cuda::Event located_, placed_;
  cuda::Event sending_, gathered_, arrived_;  // with timing
  cuda::Graph requests_, answers_;            // what crosses machines, whose addresses and sizes stay
  bool warm_ = false;                         // they can be recorded: all memory is there

  store::DeviceNodeIndex halo_;  // this and all below: device memory
  cuda::Array<NodeId> local_ids_, asked_;
  cuda::Array<Count> numbers_;                         // see Number
  cuda::Array<Count> overflow_;                        // pinned
  cuda::Array<std::byte> served_rows_, arrived_rows_;  // of sent_type_

  RowExchangeReport report_;
};

CudaDirectRows::CudaDirectRows(const LocalRows& local, const RowExchangeContext& exchange, Device device)
    : local_(local),
      wire_(*exchange.on_devices),
      order_(exchange.order),
      turn_(exchange.turn()),
      device_(device),
      end_of_machine_(exchange.machine_offsets[static_cast<std::size_t>(exchange.machine) + 1]),
      sent_type_(local.sent_type(exchange)),
      segments_(
          comm::SegmentPeers::of(*exchange.topology, exchange.machine_offsets, exchange.communicator->rank()),
          wire_, device),
      stream_(device, cuda::kHighestPriority),
      located_(device),
      placed_(device),
      sending_(device, true),
      gathered_(device, true),
      arrived_(device, true),
      halo_(exchange.halo, device),
      numbers_(kDevice, kNumNumbers, kWhat, device),
      overflow_(cuda::Memory::pinned, 1, kWhat, device) {
  cuda::fill_async(numbers_.data(), 0, numbers_.span().size_bytes(), stream_);
  stream_.synchronize();
}

/// Where the rows lie: local_ids_ for the gather, and the segments for the other machines.
void CudaDirectRows::locate(const FetchedIds& ids, const cuda::Stream& stream) {
  local_ids_.reserve(kDevice, ids.count, "row ids", device_);
  asked_.reserve(kDevice, ids.count, "row ids", device_);
  locate_rows<<<cuda::blocks_for(ids.count), cuda::kThreads, 0, stream.get()>>>(
      ids, Here{local_.first_node(), end_of_machine_, halo_.view()}, local_ids_.data(), asked_.data(),
      numbers_.data() + kKept);
  cuda::check_launch("locate_rows");
  cuda::fill_async(numbers_.data() + kOverflow, 0, sizeof(Count), stream);
  segments_.pack({.ids = asked_.data(),
                  .bound = ids.count,
                  .positions = ids.sorted == nullptr ? nullptr : ids.sorted_positions},
                 cap_, {.remote = numbers_.data() + kRemote, .overflow = numbers_.data() + kOverflow},
                 stream);
}

void CudaDirectRows::set_cap(Count rows) {
  stream_.synchronize();
  cap_ = rows;
  requests_ = {};
  answers_ = {};
  warm_ = false;
}

void CudaDirectRows::launch(cuda::Graph& recorded, const std::function<void()>& enqueue) {
  if (!warm_) return enqueue();
  if (!recorded) recorded = cuda::Graph::record(stream_, enqueue);
  recorded.launch(stream_);
}

/// The rows that were asked for, into arrived_rows_, and whether all ranks' requests fitted.
void CudaDirectRows::bring() {
  const Count served = segments_.num_served();
  served_rows_.reserve(kDevice, served * sent_row_bytes() + kWireSlack, "rows for other machines", device_);
  arrived_rows_.reserve(kDevice, segments_.num_asked() * sent_row_bytes(), kWhat, device_);
  if (cap_ > 0) launch(requests_, [this] { segments_.request(stream_); });
  if (served > 0) {
    local_.count(segments_.served(), served, stream_);
    local_.gather(segments_.served(), served, {.data = served_rows_.data(), .dtype = sent_type_}, stream_);
  }
  launch(answers_, [this] {
    const comm::IdSegments<NodeId>::Answer rows{served_rows_.data(), arrived_rows_.data(),
                                                cap_ * sent_row_bytes()};
    if (cap_ > 0) segments_.answer({&rows, 1}, stream_);
    wire_.max(numbers_.data() + kOverflow, 1, stream_);
    cuda::copy_async(overflow_.data(), numbers_.data() + kOverflow, sizeof(Count), stream_);
  });
  warm_ = wire_.can_be_recorded();
}

bool CudaDirectRows::fetch(const FetchedIds& ids, float* out, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(device_);
  stream.wait(placed_);  // the fetch before may have had another stream
  locate(ids, stream);
  located_.record(stream);
  local_.count(local_ids_.data(), ids.count, stream);
  local_.gather(local_ids_.data(), ids.count, {.data = out}, stream);
  gathered_.record(stream);

  if (order_ != nullptr) order_->begin_exchange(turn_, stream_);
  stream_.wait(located_);
  sending_.record(stream_);
  bring();
  arrived_.record(stream_);
  if (order_ != nullptr) order_->end_exchange(turn_, stream_);

  stream.wait(arrived_);
  local_.place({.rows = arrived_rows_.data(),
                .dtype = sent_type_,
                .positions = segments_.positions(),
                .count = segments_.num_asked(),
                .cols = local_.cols()},
               out, stream);
  placed_.record(stream);
  take_times();
  if (cap_ > 0) count_messages();
  const bool fits = overflow_[0] == 0;
  if (!fits) set_cap(comm::grown_cap(cap_));
  return fits;
}

/// Waits until all rows are there.
void CudaDirectRows::take_times() {
  arrived_.synchronize();
  gathered_.synchronize();
  constexpr double kMillisecond = 1e-3;
  const double seconds = arrived_.elapsed_ms(sending_) * kMillisecond;
  report_.seconds += seconds;
  report_.waited_seconds += std::clamp(arrived_.elapsed_ms(gathered_) * kMillisecond, 0.0, seconds);
}

void CudaDirectRows::count_messages() {
  const Count sent = segments_.bytes_sent(cap_ * sent_row_bytes()), requested = segments_.bytes_sent(0);
  report_.bytes_sent += sent;
  report_.bytes_received += segments_.bytes_received(cap_ * sent_row_bytes());
  report_.request_messages += segments_.num_asked() / cap_;
  report_.request_bytes += requested;
  report_.row_messages += segments_.num_served() / cap_;
  report_.row_bytes += sent - requested;
  report_.rows_sent += segments_.num_served();
  report_.rows_received += segments_.num_asked();
  report_.rounds += 2;
}

void CudaDirectRows::add_to(RowExchangeReport& report) const {
  std::vector<Count> numbers(kNumNumbers);
  cuda::copy_async(numbers.data(), numbers_.data(), numbers.size() * sizeof(Count), stream_);
  stream_.synchronize();
  report += report_;
  report.remote_rows += numbers[kRemote] + numbers[kKept];
  report.cached_rows += numbers[kKept];
}

}  // namespace

std::unique_ptr<DirectRows> make_direct_rows(const LocalRows& local, const RowExchangeContext& exchange,
                                             Device device) {
  if (exchange.on_devices == nullptr || !device.is_cuda()) return nullptr;
  return std::make_unique<CudaDirectRows>(local, exchange, device);
}

}  // namespace strata::batches
