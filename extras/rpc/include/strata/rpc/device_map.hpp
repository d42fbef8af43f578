// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace strata::rpc {

/// One of the caller's devices and the callee's that stands for it, each as its own process numbers them.
struct DevicePair {
  int mine = 0, its = 0;
  bool operator==(const DevicePair&) const = default;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(mine, its);
  }
};

/// Maps this rank's devices to those of a peer that tensors go to. With {{0, 1}, {2, 0}}
///
///     arguments   cuda:0 -> cuda:1    cuda:2 -> cuda:0
///     results     cuda:1 -> cuda:0    cuda:0 -> cuda:2
///
/// and no other device has a place there, not even the one of the same number. CPU tensors stay on the CPU.
/// Results take the inverse of the caller's map, whatever the callee's own map says. A value.
class DeviceMap {
 public:
  DeviceMap() = default;
  explicit DeviceMap(std::vector<DevicePair> pairs) : pairs_(std::move(pairs)) {}

  void add(std::span<const DevicePair> pairs) { pairs_.insert(pairs_.end(), pairs.begin(), pairs.end()); }
  std::optional<int> to_peer(int mine) const;   ///< where an argument on cuda:mine goes
  std::optional<int> to_caller(int its) const;  ///< where a result on cuda:its goes
  const std::vector<DevicePair>& pairs() const { return pairs_; }
  std::string text() const;  ///< "cuda:0 -> cuda:1, cuda:2 -> cuda:0", or "nothing"

 private:
  std::vector<DevicePair> pairs_;
};

/// What an agent sends the others at the start.
struct AgentFacts {
  std::string name;
  std::string host;
  int num_devices = 0;
  struct Map {
    std::string peer;  ///< as its user wrote it
    std::vector<DevicePair> pairs;
    template <typename Archive>
    void serialize(Archive& archive) {
      archive(peer, pairs);
    }
  };
  std::vector<Map> maps;  ///< one per set_device_map()
  /// The UUIDs of its devices, which identify GPUs across processes, whatever their numbers are.
  std::vector<std::string> gpus = {};
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(name, host, num_devices, maps, gpus);
  }
};

/// The rank that `name` means: a name, or "rank:R". Throws InputError with the nearest name if there is none.
int rank_of(const std::string& name, std::span<const AgentFacts> agents);

/// The maps of agents[rank] for each rank, those for the same peer put together.
std::vector<DeviceMap> maps_of(int rank, std::span<const AgentFacts> agents);

/// Throws InputError that lists all that is wrong with names and maps: a name that is taken, too long or has
/// other characters than letters, digits, `_`, `:` and `-`; a map for an unknown agent, a device that either
/// side does not have, a device mapped twice, two devices mapped to one.
void check_agents(std::span<const AgentFacts> agents);

}  // namespace strata::rpc
