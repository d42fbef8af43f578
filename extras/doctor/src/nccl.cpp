// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "gpus.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/comm/reducer.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/files.hpp"

namespace strata::doctor {
namespace {

/// Seconds of some work on a stream: the least of some times, of the slowest rank.
template <typename Work>
double seconds_of(const comm::Communicator& world, const cuda::Stream& stream, Work&& work) {
  constexpr int kTimes = 5;
  double least = 0;
  for (int i = 0; i <= kTimes; ++i) {  // the first connects
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    work();
    stream.synchronize();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    world.all_reduce(std::span(&seconds, 1), comm::Communicator::Op::max);
    if (i > 0) least = i == 1 ? seconds : std::min(least, seconds);
  }
  return least;
}

constexpr const char* kLogName = "strata-doctor-nccl-log";

/// The file that ask_for_nccl_log() made; empty if NCCL writes elsewhere by the user's setting.
std::string log_path() {
  const char* const path = std::getenv("NCCL_DEBUG_FILE");
  if (path == nullptr) return {};
  std::error_code failed;
  const std::string target = std::filesystem::read_symlink(path, failed).string();
  return !failed && target.find(kLogName) != std::string::npos ? path : std::string();
}

}  // namespace

void ask_for_nccl_log() {
  if (std::getenv("NCCL_DEBUG") != nullptr || std::getenv("NCCL_DEBUG_FILE") != nullptr) return;
  // A file without a name: nobody else can put a link there, and nothing stays however the process ends.
  const int log = memfd_create(kLogName, MFD_CLOEXEC);
  if (log < 0) return;
  setenv("NCCL_DEBUG", "INFO", 0);
  setenv("NCCL_DEBUG_FILE", fmt::format("/proc/self/fd/{}", log).c_str(), 0);
}

void read_nccl_log(NcclFacts& facts) {
  const std::string path = log_path();
  if (!path.empty()) parse_nccl_log(read_file(path), facts);
}

void parse_nccl_log(const std::string& log, NcclFacts& facts) {
  static const std::regex transport(" via ([A-Z0-9]+(?:/[A-Za-z]+)?)"),
      network("NET/(Socket|IB) : Using (.*)"), card("\\[\\d+\\]([^ /<]+)");
  std::set<std::string> transports, networks;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_search(line, found, transport)) transports.insert(found[1]);
    if (!std::regex_search(line, found, network)) continue;
    const std::string kind = found[1], cards = found[2];
    for (std::sregex_iterator it(cards.begin(), cards.end(), card), end; it != end; ++it)
      networks.insert(kind + " " + (*it)[1].str());
  }
  facts.transports.assign(transports.begin(), transports.end());
  facts.networks.assign(networks.begin(), networks.end());
}

NcclFacts measure_nccl(const comm::Communicator& world, const comm::Topology& topology, Device device,
                       std::int64_t bytes) {
  const auto ranks = at(world.size());
  const cuda::DeviceGuard guard(device);
  const Count each =
      bytes / world.size() / static_cast<Count>(sizeof(float)) * static_cast<Count>(sizeof(float));
  const Count all = each * world.size();
  std::optional<cuda::Stream> stream;
  cuda::Buffer send, receive;
  world.together([&] {
    stream.emplace(device);
    send = cuda::Buffer(cuda::Memory::device, at(all), "bytes to measure with", device);
    receive = cuda::Buffer(cuda::Memory::device, at(all), "bytes to measure with", device);
    cuda::fill_async(send.data(), 0, send.bytes(), *stream);
    stream->synchronize();
  });
  NcclFacts facts;
  // The rate that a link carries while all ranks sum, by the convention of nccl-tests.
  const double share = static_cast<double>(world.size() - 1) / static_cast<double>(world.size());
  const auto reducer = comm::make_all_reducer(world, topology, device);
  const Count values = all / static_cast<Count>(sizeof(float));
  facts.all_reduce = 2 * share * static_cast<double>(all) / seconds_of(world, *stream, [&] {
                       reducer->sum(static_cast<float*>(send.data()), values, *stream);
                     });
  reducer->close();
  const auto exchange = comm::make_device_exchange(world, device);
  const std::vector<Count> counts(ranks, each);
  facts.all_to_all = share * static_cast<double>(all) / seconds_of(world, *stream, [&] {
                       exchange->all_to_all(send.data(), counts, receive.data(), counts, *stream);
                     });
  exchange->close();
  return facts;
}

}  // namespace strata::doctor
