// SPDX-License-Identifier: Apache-2.0
#include "nvml_paths.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

namespace strata::cuda {
namespace {

/// These types repeat NVML's interface: few toolkits have its header, and only a driver has its library.
struct PciInfo {  // nvmlPciInfo_t
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};
using Gpu = struct GpuHandle*;  // nvmlDevice_t
constexpr int kSuccess = 0, kThroughNvlink = 2, kEnabled = 1;
constexpr unsigned kMostNvlinks = 18;

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), &close_library) {
    if (!library_) return;
    find(init_, "nvmlInit_v2");
    find(shutdown_, "nvmlShutdown");
    find(gpu_at_, "nvmlDeviceGetHandleByPciBusId_v2");
    find(address_of_, "nvmlDeviceGetPciInfo_v3");
    find(p2p_status_, "nvmlDeviceGetP2PStatus");
    find(nvlink_state_, "nvmlDeviceGetNvLinkState");
    find(nvlink_end_, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    find(ancestor_, "nvmlDeviceGetTopologyCommonAncestor");
    works_ = complete_ && init_() == kSuccess;
  }
  ~Nvml() {
    if (works_) shutdown_();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool works() const { return works_; }

  /// The handle of a GPU; null if NVML does not know it.
  Gpu gpu_at(const std::string& pci_address) const {
    Gpu gpu = nullptr;
    return gpu_at_(pci_address.c_str(), &gpu) == kSuccess ? gpu : nullptr;
  }

  PairFacts facts_of(Gpu from, Gpu to) const {
    PairFacts facts;
    PciInfo info{};
    if (address_of_(to, &info) == kSuccess) facts.peer = address(info);
    int value = -1;
    facts.over_nvlink = p2p_status_(from, to, kThroughNvlink, &value) == kSuccess && value == 0;
    for (unsigned link = 0; link < kMostNvlinks; ++link)
      if (nvlink_state_(from, link, &value) == kSuccess && value == kEnabled &&
          nvlink_end_(from, link, &info) == kSuccess)
        facts.nvlinks.push_back(address(info));
    if (ancestor_(from, to, &value) == kSuccess) facts.ancestor = value;
    return facts;
  }

 private:
  static void close_library(void* library) { dlclose(library); }
  static PciAddress address(const PciInfo& info) { return {info.domain, info.bus, info.device}; }

  template <typename Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_.get(), name));
    complete_ = complete_ && function != nullptr;
  }

  std::unique_ptr<void, void (*)(void*)> library_;
  bool complete_ = true, works_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*gpu_at_)(const char*, Gpu*) = nullptr;
  int (*address_of_)(Gpu, PciInfo*) = nullptr;
  int (*p2p_status_)(Gpu, Gpu, int, int*) = nullptr;
  int (*nvlink_state_)(Gpu, unsigned, int*) = nullptr;
  int (*nvlink_end_)(Gpu, unsigned, PciInfo*) = nullptr;
  int (*ancestor_)(Gpu, Gpu, int*) = nullptr;
};

}  // namespace

std::string path_of(const PairFacts& facts) {
  if (facts.over_nvlink) {
    const auto direct = std::ranges::count(facts.nvlinks, facts.peer);
    const auto lanes = direct > 0 ? direct : std::ssize(facts.nvlinks);
    return lanes > 0 ? fmt::format("NV{}", lanes) : "NVLink";
  }
  static const std::map<int, std::string> kNames{{0, "PIX"},  {10, "PIX"},  {20, "PXB"},
                                                 {30, "PHB"}, {40, "NODE"}, {50, "SYS"}};
  const auto name = kNames.find(facts.ancestor.value_or(-1));
  return name == kNames.end() ? std::string() : name->second;
}

void find_paths(std::vector<PeerLink>& links) {
  if (links.empty()) return;
  const Nvml nvml;
  if (!nvml.works()) return;
  for (PeerLink& link : links) {
    const Gpu from = nvml.gpu_at(pci_address(link.from)), to = nvml.gpu_at(pci_address(link.to));
    if (from != nullptr && to != nullptr) link.path = path_of(nvml.facts_of(from, to));
  }
}

}  // namespace strata::cuda
