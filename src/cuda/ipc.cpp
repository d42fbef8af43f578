// SPDX-License-Identifier: Apache-2.0
#include "strata/cuda/ipc.hpp"

#include <cstdlib>
#include <string_view>

#include "backend.hpp"
#include "default_stream.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"

namespace strata::cuda {
namespace {

void check_size(const std::string& handle) {
  if (handle.size() != kIpcHandleBytes) throw CudaError("what another process sent is no handle of CUDA");
}

}  // namespace

bool peer_access_is_off() {
  const char* requested = std::getenv("STRATA_PEER_ACCESS");
  return requested != nullptr && std::string_view(requested) == "off";
}

std::string ipc_handle(const void* data) { return backend::export_memory(data); }

MappedMemory::MappedMemory(Device device, const std::string& handle) : device_(device) {
  check_size(handle);
  const DeviceGuard guard(device);
  data_ = backend::import_memory(handle);
}

MappedMemory::~MappedMemory() {
  if (data_ == nullptr) return;
  try {
    const DeviceGuard guard(device_);
    backend::close_imported(data_);
  } catch (const CudaError&) {  // the device is lost, and its mappings with it
  }
}

IpcEvent::IpcEvent(Device device) : device_(device) {
  const DeviceGuard guard(device);
  handle_ = backend::create_ipc_event();
}
IpcEvent::IpcEvent(Device device, const std::string& handle) : device_(device) {
  check_size(handle);
  const DeviceGuard guard(device);
  handle_ = backend::import_event(handle);
}
IpcEvent::~IpcEvent() {
  if (handle_ != nullptr) backend::destroy_event(handle_);
}

/// Makes the device current, because the driver ends the process where another one without a context is.
std::string IpcEvent::handle() const {
  const DeviceGuard guard(device_);
  return backend::export_event(handle_);
}
void IpcEvent::record(const Stream& stream) {
  const DeviceGuard guard(device_to_call_with(stream));
  backend::record(handle_, stream.get());
}
void IpcEvent::make_wait(const Stream& stream) const {
  const DeviceGuard guard(device_to_call_with(stream));
  backend::wait(stream.get(), handle_);
}
bool IpcEvent::is_complete() const { return backend::is_complete(handle_); }

}  // namespace strata::cuda
