// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"

struct CUgraphExec_st;

/// What the owners of this module need of CUDA. backend_cuda.cpp implements it; backend_none.cpp replaces it
/// in builds without nvcc. All functions except device_count() throw CudaError; `free_*`, `destroy_*` and
/// `unregister_host` ignore errors, because destructors call them.
namespace strata::cuda::backend {

int device_count();
std::string device_name(int device);
std::string device_uuid(int device);
MemoryInfo device_memory(int device);
int num_multiprocessors(int device);
int current_device();
void set_device(int device);

CUstream_st* create_stream(int priority);
void destroy_stream(CUstream_st* stream);
void synchronize(CUstream_st* stream);
void wait(CUstream_st* stream, CUevent_st* event);

CUevent_st* create_event(bool timing);
void destroy_event(CUevent_st* event);
void record(CUevent_st* event, CUstream_st* stream);
void synchronize(CUevent_st* event);
bool is_complete(CUevent_st* event);
float elapsed_ms(CUevent_st* earlier, CUevent_st* later);

void begin_recording(CUstream_st* stream);
/// Ends the recording and returns it, ready to launch.
CUgraphExec_st* end_recording(CUstream_st* stream);
/// Ends a recording after an error in it; ignores errors.
void discard_recording(CUstream_st* stream);
void launch(CUgraphExec_st* graph, CUstream_st* stream);
void destroy_graph(CUgraphExec_st* graph);

/// Allocates; null if there is not enough memory.
void* allocate_device(std::size_t bytes);
void* allocate_pinned(std::size_t bytes);
void free_device(void* data);
void free_pinned(void* data);

std::string export_memory(const void* data);
/// Handles have the right size.
void* import_memory(const std::string& handle);
void close_imported(void* data);
CUevent_st* create_ipc_event();
std::string export_event(CUevent_st* event);
CUevent_st* import_event(const std::string& handle);

bool is_device_memory(const void* data);
void copy(void* to, const void* from, std::size_t bytes, CUstream_st* stream);
void copy_rows(const RowsCopy& copy, CUstream_st* stream);
void fill(void* to, int byte, std::size_t bytes, CUstream_st* stream);
void register_host(void* data, std::size_t bytes);
void unregister_host(void* data);

void push_range(const char* name);
void pop_range();

}  // namespace strata::cuda::backend
