// SPDX-License-Identifier: Apache-2.0
// NCCL's functions, found when the first of them is called, so that programs and the Python package start
// where no NCCL is. The symbols stay inside this library: a process has one NCCL, that of torch's wheel.
#include <dlfcn.h>

#include <string>

#pragma GCC visibility push(hidden)
#include <nccl.h>
#pragma GCC visibility pop

#include "strata/util/error.hpp"

namespace {

void* load_nccl() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  throw strata::CommError(std::string("NCCL, over which GPUs exchange, cannot be loaded: ") + dlerror(),
                          "It comes with torch for CUDA 13: pip install torch==2.11. In an environment "
                          "without it, train on one GPU or choose --exchange mpi.");
}

void* find_symbol(const char* name) {
  static void* const library = load_nccl();
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) throw strata::CommError(std::string("this NCCL has no function ") + name);
  return symbol;
}

/// NCCL's own function of the type and name of the one below that calls this.
template <typename Function>
Function* original(const char* name, Function* /*of_this_type*/) {
  return reinterpret_cast<Function*>(find_symbol(name));
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  static const auto call = original("ncclGetVersion", &ncclGetVersion);
  return call(version);
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static const auto call = original("ncclGetUniqueId", &ncclGetUniqueId);
  return call(id);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  static const auto call = original("ncclCommInitRankConfig", &ncclCommInitRankConfig);
  return call(comm, ranks, id, rank, config);
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  static const auto call = original("ncclCommFinalize", &ncclCommFinalize);
  return call(comm);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  static const auto call = original("ncclCommDestroy", &ncclCommDestroy);
  return call(comm);
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  static const auto call = original("ncclCommAbort", &ncclCommAbort);
  return call(comm);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  static const auto call = original("ncclCommGetAsyncError", &ncclCommGetAsyncError);
  return call(comm, error);
}
const char* ncclGetErrorString(ncclResult_t result) {
  static const auto call = original("ncclGetErrorString", &ncclGetErrorString);
  return call(result);
}
const char* ncclGetLastError(ncclComm_t comm) {
  static const auto call = original("ncclGetLastError", &ncclGetLastError);
  return call(comm);
}
ncclResult_t ncclGroupStart() {
  static const auto call = original("ncclGroupStart", &ncclGroupStart);
  return call();
}
ncclResult_t ncclGroupEnd() {
  static const auto call = original("ncclGroupEnd", &ncclGroupEnd);
  return call();
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  static const auto call = original("ncclSend", &ncclSend);
  return call(data, count, type, peer, comm, stream);
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  static const auto call = original("ncclRecv", &ncclRecv);
  return call(data, count, type, peer, comm, stream);
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  static const auto call = original("ncclAllReduce", &ncclAllReduce);
  return call(from, to, count, type, op, comm, stream);
}
