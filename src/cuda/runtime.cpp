#include "strata/cuda/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backend.hpp"
#include "green_context.hpp"
#include "registered_blocks.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/memory.hpp"

namespace strata::cuda {

int device_count() {
  static const int count = backend::device_count();
  return count;
}
std::string device_name(int device) { return backend::device_name(device); }
std::string device_uuid(int device) { return backend::device_uuid(device); }
MemoryInfo device_memory(int device) { return backend::device_memory(device); }
int num_multiprocessors(int device) { return backend::num_multiprocessors(device); }

DeviceGuard::DeviceGuard(Device device) {
  if (!device.is_cuda()) return;
  const int current = backend::current_device();
  if (current == device.index) return;
  backend::set_device(device.index);
  previous_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ < 0) return;
  try {
    backend::set_device(previous_);
  } catch (const CudaError&) {  // the device is lost; the next call says so
  }
}

int SmGroup::num_sms() const { return context_->num_sms(); }

Stream::Stream(Device device, int priority, const SmGroup& sms)
    : device_(device), sms_(sms), priority_(priority) {
  if (!device.is_cuda()) return;
  const DeviceGuard guard(device);
  handle_ = sms.is_all() ? backend::create_stream(priority) : sms.context().create_stream(priority);
}

Stream::Stream(Stream&& other) noexcept
    : device_(other.device_),
      sms_(other.sms_),
      handle_(std::exchange(other.handle_, nullptr)),
      priority_(other.priority_),
      owned_(other.owned_) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(sms_, other.sms_);
  std::swap(handle_, other.handle_);
  std::swap(priority_, other.priority_);
  std::swap(owned_, other.owned_);
  return *this;
}

bool Stream::follow(const Stream& stream) {
  if (sms_ == stream.sms_) return false;
  Stream moved(device_, priority_, stream.sms_);
  Event reached(device_);
  reached.record(*this);
  moved.wait(reached);
  *this = std::move(moved);
  return true;
}

Stream::~Stream() {
  if (handle_ != nullptr && owned_) backend::destroy_stream(handle_);
}

Stream Stream::borrow(Device device, CUstream_st* handle) {
  Stream stream;
  stream.device_ = device;
  stream.handle_ = handle;
  stream.owned_ = false;
  return stream;
}

void Stream::synchronize() const {
  if (device_.is_cuda()) backend::synchronize(handle_);
}

void Stream::wait(const Event& event) const {
  if (device_.is_cuda() && event.get() != nullptr) backend::wait(handle_, event.get());
}

Event::Event(Device device, bool timing) {
  if (!device.is_cuda()) return;
  const DeviceGuard guard(device);
  handle_ = backend::create_event(timing);
}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ != nullptr) backend::destroy_event(handle_);
}

void Event::record(const Stream& stream) {
  if (handle_ != nullptr) backend::record(handle_, stream.get());
}
void Event::synchronize() const {
  if (handle_ != nullptr) backend::synchronize(handle_);
}
float Event::elapsed_ms(const Event& earlier) const { return backend::elapsed_ms(earlier.handle_, handle_); }

Graph Graph::record(const Stream& stream, const std::function<void()>& enqueue) {
  const DeviceGuard guard(stream.device());
  backend::begin_recording(stream.get());
  try {
    enqueue();
  } catch (...) {
    backend::discard_recording(stream.get());
    throw;
  }
  Graph graph;
  graph.handle_ = backend::end_recording(stream.get());
  return graph;
}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Graph::~Graph() {
  if (handle_ != nullptr) backend::destroy_graph(handle_);
}

void Graph::launch(const Stream& stream) const { backend::launch(handle_, stream.get()); }

namespace {

[[noreturn]] void out_of_memory(Memory memory, std::size_t bytes, const std::string& what, Device device) {
  const bool on_device = memory == Memory::device;
  const std::int64_t free = on_device ? device_memory(device.index).free_bytes : available_host_bytes();
  throw OutOfMemory(
      fmt::format("no room for {} in {} memory: wanted {}, free {}", what, on_device ? device.str() : "host",
                  format_bytes(static_cast<std::int64_t>(bytes)), format_bytes(free)),
      on_device ? "Lower --gpu-memory, --batch-size or --fanouts, or use more GPUs."
                : "Lower --batch-size or --fanouts, or use more machines.");
}

void* allocate(Memory memory, std::size_t bytes, Device device) {
  switch (memory) {
    case Memory::device: {
      const DeviceGuard guard(device);
      return backend::allocate_device(bytes);
    }
    case Memory::pinned:
      return backend::allocate_pinned(bytes);
    case Memory::host:
      break;
  }
  constexpr std::size_t kAlignment = 64;
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

Buffer::Buffer(Memory memory, std::size_t bytes, const std::string& what, Device device)
    : bytes_(bytes),
      memory_(memory == Memory::pinned && device_count() == 0 ? Memory::host : memory),
      device_(device) {
  if (bytes == 0) return;
  data_ = allocate(memory_, bytes, device);
  if (data_ == nullptr) out_of_memory(memory_, bytes, what, device);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      memory_(other.memory_),
      device_(other.device_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(memory_, other.memory_);
  std::swap(device_, other.device_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  switch (memory_) {
    case Memory::device:
      backend::free_device(data_);
      break;
    case Memory::pinned:
      backend::free_pinned(data_);
      break;
    case Memory::host:
      std::free(data_);
      break;
  }
}

bool is_device_memory(const void* data) {
  return data != nullptr && device_count() > 0 && backend::is_device_memory(data);
}

void copy_async(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  if (!stream.device().is_cuda()) {
    std::memcpy(to, from, bytes);
    return;
  }
  for_each_piece(to, from, bytes, registration_block(), [&](std::size_t offset, std::size_t size) {
    backend::copy(static_cast<std::byte*>(to) + offset, static_cast<const std::byte*>(from) + offset, size,
                  stream.get());
  });
}

namespace {

RowsCopy part_of(const RowsCopy& copy, std::size_t first, std::size_t rows) {
  RowsCopy part = copy;
  for (PitchedRows* side : {&part.to, &part.from}) side->data += first * side->pitch;
  part.rows = rows;
  return part;
}

bool crosses_any_end(const RowsCopy& copy) {
  const auto crosses = [&](const PitchedRows& side) {
    return crosses_end(side.data, (copy.rows - 1) * side.pitch + copy.row_bytes, registration_block());
  };
  return crosses(copy.to) || crosses(copy.from);
}

}  // namespace

void copy_rows_async(const RowsCopy& copy, const Stream& stream) {
  if (copy.rows == 0 || copy.row_bytes == 0) return;
  const bool dense = copy.to.pitch == copy.row_bytes && copy.from.pitch == copy.row_bytes;
  if (dense || copy.rows == 1)
    return copy_async(copy.to.data, copy.from.data, copy.rows * copy.row_bytes, stream);
  if (stream.device().is_cuda() && !crosses_any_end(copy)) return backend::copy_rows(copy, stream.get());
  const std::size_t half = copy.rows / 2;
  copy_rows_async(part_of(copy, 0, half), stream);
  copy_rows_async(part_of(copy, half, copy.rows - half), stream);
}

void fill_async(void* to, int byte, std::size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  if (stream.device().is_cuda()) {
    backend::fill(to, byte, bytes, stream.get());
  } else {
    std::memset(to, byte, bytes);
  }
}

std::size_t registration_block() {
  static const std::size_t bytes = [] {
    constexpr std::size_t kDefault = std::size_t{64} << 30, kPage = 4096;
    const char* const wanted = std::getenv("STRATA_REGISTRATION_BLOCK");
    if (wanted == nullptr) return kDefault;
    const auto block = static_cast<std::size_t>(parse_bytes(wanted));
    if (block == 0 || block % kPage != 0) {
      throw InputError(fmt::format("STRATA_REGISTRATION_BLOCK: {} is no multiple of {} bytes", wanted, kPage),
                       "Leave it out, or give a size such as 64KiB.");
    }
    return block;
  }();
  return bytes;
}

Registration::Registration(void* data, std::size_t bytes) {
  if (device_count() == 0 || bytes == 0) return;
  data_ = data;
  try {
    // bytes_ grows block by block, so that a failure unregisters what was registered.
    for_each_piece(data, data, bytes, registration_block(), [&](std::size_t offset, std::size_t size) {
      backend::register_host(static_cast<std::byte*>(data) + offset, size);
      bytes_ += size;
    });
  } catch (...) {
    *this = Registration();
    throw;
  }
}

Registration::Registration(Registration&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  Registration old(std::move(*this));
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Registration::~Registration() {
  if (bytes_ == 0) return;
  for_each_piece(data_, data_, bytes_, registration_block(), [&](std::size_t offset, std::size_t /*size*/) {
    backend::unregister_host(static_cast<std::byte*>(data_) + offset);
  });
}

Range::Range(const char* name) { backend::push_range(name); }
Range::~Range() { backend::pop_range(); }

}  // namespace strata::cuda
