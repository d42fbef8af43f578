// SPDX-License-Identifier: Apache-2.0
#include "strata/cuda/stream.hpp"

#include "backend.hpp"
#include "default_stream.hpp"
#include "green_context.hpp"
#include "strata/cuda/device.hpp"

namespace strata::cuda {

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
  if (!device_.is_cuda()) return;
  const DeviceGuard guard(device_to_call_with(*this));
  backend::synchronize(handle_);
}

void Stream::wait(const Event& event) const {
  if (!device_.is_cuda() || event.get() == nullptr) return;
  const DeviceGuard guard(device_to_call_with(*this));
  backend::wait(handle_, event.get());
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
  if (handle_ == nullptr) return;
  const DeviceGuard guard(device_to_call_with(stream));
  backend::record(handle_, stream.get());
}
void Event::synchronize() const {
  if (handle_ != nullptr) backend::synchronize(handle_);
}
bool Event::is_complete() const { return handle_ == nullptr || backend::is_complete(handle_); }
float Event::elapsed_ms(const Event& earlier) const { return backend::elapsed_ms(earlier.handle_, handle_); }

}  // namespace strata::cuda
