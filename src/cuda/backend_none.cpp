// SPDX-License-Identifier: Apache-2.0
#include "backend.hpp"
#include "green_context.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"

namespace strata::cuda::backend {
namespace {

[[noreturn]] void refuse() {
  throw CudaError("this build has no CUDA",
                  "Build with nvcc at hand (launch/setup --cuda), or use --device cpu.");
}

}  // namespace

int device_count() { return 0; }
std::string device_name(int) { refuse(); }
std::string device_uuid(int) { refuse(); }
MemoryInfo device_memory(int) { refuse(); }
int num_multiprocessors(int) { refuse(); }
int current_device() { refuse(); }
void set_device(int) { refuse(); }
CUstream_st* create_stream(int) { refuse(); }
void destroy_stream(CUstream_st*) {}
void synchronize(CUstream_st*) { refuse(); }
void wait(CUstream_st*, CUevent_st*) { refuse(); }
CUevent_st* create_event(bool) { refuse(); }
void destroy_event(CUevent_st*) {}
void record(CUevent_st*, CUstream_st*) { refuse(); }
void synchronize(CUevent_st*) { refuse(); }
bool is_complete(CUevent_st*) { refuse(); }
float elapsed_ms(CUevent_st*, CUevent_st*) { refuse(); }
void begin_recording(CUstream_st*) { refuse(); }
CUgraphExec_st* end_recording(CUstream_st*) { refuse(); }
void discard_recording(CUstream_st*) {}
void launch(CUgraphExec_st*, CUstream_st*) { refuse(); }
void destroy_graph(CUgraphExec_st*) {}
void* allocate_device(std::size_t) { refuse(); }
void* allocate_pinned(std::size_t) { refuse(); }
void free_device(void*) {}
void free_pinned(void*) {}
std::string export_memory(const void*) { refuse(); }
void* import_memory(const std::string&) { refuse(); }
void close_imported(void*) {}
CUevent_st* create_ipc_event() { refuse(); }
std::string export_event(CUevent_st*) { refuse(); }
CUevent_st* import_event(const std::string&) { refuse(); }
bool is_device_memory(const void*) { return false; }
void copy(void*, const void*, std::size_t, CUstream_st*) { refuse(); }
void copy_rows(const RowsCopy&, CUstream_st*) { refuse(); }
void fill(void*, int, std::size_t, CUstream_st*) { refuse(); }
void register_host(void*, std::size_t) { refuse(); }
void unregister_host(void*) {}
void push_range(const char*) {}
void pop_range() {}
GreenContext::~GreenContext() = default;
CUstream_st* GreenContext::create_stream(int) const { refuse(); }

}  // namespace strata::cuda::backend

namespace strata::cuda {

SmSplit split_sms(Device, const SmShares&) { backend::refuse(); }

}  // namespace strata::cuda
