// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <cstring>

#include "backend.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/ipc.hpp"

namespace strata::cuda::backend {

#define STRATA_CUDA_CHECK(call) ::strata::cuda::check((call), #call)

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // no driver or no device; a later check must not see this error
  return 0;
}

namespace {

cudaDeviceProp properties(int device) {
  cudaDeviceProp prop{};
  STRATA_CUDA_CHECK(cudaGetDeviceProperties(&prop, device));
  return prop;
}

}  // namespace

std::string device_name(int device) { return properties(device).name; }

std::string device_uuid(int device) {
  std::string text;
  for (const char byte : properties(device).uuid.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

MemoryInfo device_memory(int device) {
  const DeviceGuard guard({Device::Kind::cuda, device});
  std::size_t free = 0, total = 0;
  STRATA_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

int num_multiprocessors(int device) {
  int count = 0;
  STRATA_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

int current_device() {
  int device = 0;
  STRATA_CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

void set_device(int device) { STRATA_CUDA_CHECK(cudaSetDevice(device)); }

CUstream_st* create_stream(int priority) {
  cudaStream_t stream = nullptr;
  STRATA_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return stream;
}
void destroy_stream(CUstream_st* stream) { cudaStreamDestroy(stream); }
void synchronize(CUstream_st* stream) { STRATA_CUDA_CHECK(cudaStreamSynchronize(stream)); }
void wait(CUstream_st* stream, CUevent_st* event) {
  STRATA_CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0));
}

CUevent_st* create_event(bool timing) {
  cudaEvent_t event = nullptr;
  STRATA_CUDA_CHECK(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming));
  return event;
}
void destroy_event(CUevent_st* event) { cudaEventDestroy(event); }
void record(CUevent_st* event, CUstream_st* stream) { STRATA_CUDA_CHECK(cudaEventRecord(event, stream)); }
void synchronize(CUevent_st* event) { STRATA_CUDA_CHECK(cudaEventSynchronize(event)); }
bool is_complete(CUevent_st* event) {
  const cudaError_t code = cudaEventQuery(event);
  if (code == cudaErrorNotReady) {
    cudaGetLastError();  // an answer, which a later check must not take for an error
    return false;
  }
  check(code, "cudaEventQuery");
  return true;
}
float elapsed_ms(CUevent_st* earlier, CUevent_st* later) {
  float ms = 0;
  STRATA_CUDA_CHECK(cudaEventElapsedTime(&ms, earlier, later));
  return ms;
}

void begin_recording(CUstream_st* stream) {
  STRATA_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}
CUgraphExec_st* end_recording(CUstream_st* stream) {
  cudaGraph_t recorded = nullptr;
  STRATA_CUDA_CHECK(cudaStreamEndCapture(stream, &recorded));
  cudaGraphExec_t graph = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&graph, recorded, 0);
  cudaGraphDestroy(recorded);
  check(code, "cudaGraphInstantiate");
  return graph;
}
void discard_recording(CUstream_st* stream) {
  cudaGraph_t recorded = nullptr;
  cudaStreamEndCapture(stream, &recorded);
  if (recorded != nullptr) cudaGraphDestroy(recorded);
  cudaGetLastError();
}
void launch(CUgraphExec_st* graph, CUstream_st* stream) { STRATA_CUDA_CHECK(cudaGraphLaunch(graph, stream)); }
void destroy_graph(CUgraphExec_st* graph) { cudaGraphExecDestroy(graph); }

namespace {

void* null_if_out_of_memory(cudaError_t code, void* data, const char* call) {
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(code, call);
  return data;
}

}  // namespace

void* allocate_device(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, bytes);
  return null_if_out_of_memory(code, data, "cudaMalloc");
}
void* allocate_pinned(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t code = cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  return null_if_out_of_memory(code, data, "cudaHostAlloc");
}
void free_device(void* data) { cudaFree(data); }
void free_pinned(void* data) { cudaFreeHost(data); }

namespace {

template <typename Handle>
std::string text_of(const Handle& handle) {
  static_assert(sizeof(Handle) == kIpcHandleBytes);
  return {reinterpret_cast<const char*>(&handle), sizeof(handle)};
}
template <typename Handle>
Handle handle_of(const std::string& text) {
  Handle handle{};
  std::memcpy(&handle, text.data(), sizeof(handle));
  return handle;
}

/// Such an error is found at once and handled; a later check must not see it.
void check_handled(cudaError_t code, const char* call) {
  if (code != cudaSuccess) cudaGetLastError();
  check(code, call);
}

}  // namespace

std::string export_memory(const void* data) {
  cudaIpcMemHandle_t handle{};
  check_handled(cudaIpcGetMemHandle(&handle, const_cast<void*>(data)), "cudaIpcGetMemHandle");
  return text_of(handle);
}
void* import_memory(const std::string& handle) {
  void* data = nullptr;
  check_handled(
      cudaIpcOpenMemHandle(&data, handle_of<cudaIpcMemHandle_t>(handle), cudaIpcMemLazyEnablePeerAccess),
      "cudaIpcOpenMemHandle");
  return data;
}
void close_imported(void* data) { cudaIpcCloseMemHandle(data); }
CUevent_st* create_ipc_event() {
  cudaEvent_t event = nullptr;
  check_handled(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess),
                "cudaEventCreateWithFlags");
  return event;
}
std::string export_event(CUevent_st* event) {
  cudaIpcEventHandle_t handle{};
  check_handled(cudaIpcGetEventHandle(&handle, event), "cudaIpcGetEventHandle");
  return text_of(handle);
}
CUevent_st* import_event(const std::string& handle) {
  cudaEvent_t event = nullptr;
  check_handled(cudaIpcOpenEventHandle(&event, handle_of<cudaIpcEventHandle_t>(handle)),
                "cudaIpcOpenEventHandle");
  return event;
}

bool is_device_memory(const void* data) {
  cudaPointerAttributes attributes{};
  STRATA_CUDA_CHECK(cudaPointerGetAttributes(&attributes, data));
  return attributes.type == cudaMemoryTypeDevice;
}

void copy(void* to, const void* from, std::size_t bytes, CUstream_st* stream) {
  STRATA_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}
void copy_rows(const RowsCopy& copy, CUstream_st* stream) {
  STRATA_CUDA_CHECK(cudaMemcpy2DAsync(copy.to.data, copy.to.pitch, copy.from.data, copy.from.pitch,
                                      copy.row_bytes, copy.rows, cudaMemcpyDefault, stream));
}
void fill(void* to, int byte, std::size_t bytes, CUstream_st* stream) {
  STRATA_CUDA_CHECK(cudaMemsetAsync(to, byte, bytes, stream));
}

void register_host(void* data, std::size_t bytes) {
  const cudaError_t code = cudaHostRegister(data, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw CudaError(
      fmt::format("cudaHostRegister of {} bytes: {}", bytes, cudaGetErrorString(code)),
      "Raise the limit of locked memory (ulimit -l unlimited), or lower what lies in host memory.");
}
void unregister_host(void* data) { cudaHostUnregister(data); }

void push_range(const char* name) { nvtxRangePushA(name); }
void pop_range() { nvtxRangePop(); }

}  // namespace strata::cuda::backend
