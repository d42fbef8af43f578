// SPDX-License-Identifier: Apache-2.0
#include "facts.hpp"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include "strata/comm/launcher.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/system.hpp"

namespace strata::doctor {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::int64_t number_in(const fs::path& path, std::int64_t otherwise) {
  std::ifstream file(path);
  std::int64_t number = otherwise;
  return file >> number ? number : otherwise;
}

/// A field of /proc/meminfo, without its unit; 0 if there is none.
std::int64_t meminfo(const fs::path& root, const std::string& field) {
  std::ifstream file(root / "proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1));
  return 0;
}

/// "Open MPI v4.1.4" -> "MPI", with the whole text as the version.
std::string library_of(const std::string& version) {
  for (const char* name : {"CUDA driver", "CUDA", "NCCL"})
    if (version.starts_with(name)) return name;
  return "MPI";
}

std::map<std::string, std::string> find_versions() {
  std::map<std::string, std::string> versions{{"Strata", "Strata " + build_version()},
                                              {"glibc", std::string("glibc ") + gnu_get_libc_version()}};
  for (const std::string& version : comm::library_versions()) versions[library_of(version)] = version;
  for (const std::string& version : cuda::library_versions()) versions[library_of(version)] = version;
  return versions;
}

std::int64_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return RankFacts::kUnlimited;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

void read_limits(const fs::path& root, RankFacts& facts) {
  facts.locked_bytes = limit_of(RLIMIT_MEMLOCK);
  facts.open_files = limit_of(RLIMIT_NOFILE);
  struct statvfs shm {};
  if (statvfs((root / "dev/shm").c_str(), &shm) == 0) {
    facts.shm_bytes = static_cast<std::int64_t>(shm.f_blocks * shm.f_frsize);
    facts.shm_free_bytes = static_cast<std::int64_t>(shm.f_bavail * shm.f_frsize);
  }
  constexpr std::int64_t kKibi = 1024;
  facts.huge_free_bytes = meminfo(root, "HugePages_Free") * meminfo(root, "Hugepagesize") * kKibi;
  facts.host_memory_bytes = meminfo(root, "MemTotal") * kKibi;
  facts.overcommit = static_cast<int>(number_in(root / "proc/sys/vm/overcommit_memory", 0));
  facts.huge_pages = chosen_word(first_line(root / "sys/kernel/mm/transparent_hugepage/enabled"));
}

double own_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void watch_processors(const fs::path& root, RankFacts& facts) {
  constexpr std::chrono::milliseconds kMoment{300};
  const auto start = std::chrono::steady_clock::now();
  const std::vector<double> before = busy_seconds(facts.processors, root);
  const double own_before = own_cpu_seconds();
  if (before.empty()) return;
  std::this_thread::sleep_for(kMoment);
  const std::vector<double> after = busy_seconds(facts.processors, root);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  facts.own_cores = (own_cpu_seconds() - own_before) / seconds;
  for (std::size_t i = 0; i < after.size(); ++i)
    facts.busy.push_back(std::clamp((after[i] - before[i]) / seconds, 0.0, 1.0));
}

std::map<std::string, std::string> find_namespaces(const fs::path& root) {
  std::map<std::string, std::string> names;
  for (const char* kind : {"pid", "mnt", "ipc"}) {
    std::error_code failed;
    const fs::path name = fs::read_symlink(root / "proc/self/ns" / kind, failed);
    if (!failed) names[kind] = name.string();
  }
  return names;
}

int count_entries(const fs::path& folder) {
  std::error_code failed;
  const fs::directory_iterator entries(folder, failed);
  return failed ? 0 : static_cast<int>(std::distance(begin(entries), end(entries)));
}

/// "100 Gb/sec (4X EDR)" -> 1e11
double rdma_rate(const std::string& text) {
  double rate = 0;
  std::istringstream words(text);
  return words >> rate ? rate * 1e9 : 0;
}

void add_rdma_ports(const fs::path& root, std::vector<Interface>& found) {
  std::error_code failed;
  for (const auto& device : fs::directory_iterator(root / "sys/class/infiniband", failed)) {
    for (const auto& port : fs::directory_iterator(device.path() / "ports", failed)) {
      if (first_line(port.path() / "state").find("ACTIVE") == std::string::npos) continue;
      constexpr std::int64_t kWord = 4;  // in which ports count
      found.push_back({.name = device.path().filename().string() + ":" + port.path().filename().string(),
                       .bits_per_second = rdma_rate(first_line(port.path() / "rate")),
                       .sent_bytes = kWord * number_in(port.path() / "counters/port_xmit_data", 0),
                       .rdma = true});
    }
  }
}

}  // namespace

std::string chosen_word(const std::string& line) {
  const std::size_t begin = line.find('['), end = line.find(']');
  return begin < end && end != std::string::npos ? line.substr(begin + 1, end - begin - 1) : std::string();
}

std::vector<int> parse_processors(const std::string& list) {
  std::vector<int> processors;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = 0, last = 0;
    const char* const end = range.data() + range.size();
    const auto [rest, failed] = std::from_chars(range.data(), end, first);
    if (failed != std::errc()) continue;
    last = first;
    if (rest != end && *rest == '-') std::from_chars(rest + 1, end, last);
    for (int processor = first; processor <= last; ++processor) processors.push_back(processor);
  }
  return processors;
}

std::vector<double> busy_seconds(const std::vector<int>& processors, const fs::path& root) {
  constexpr std::array kBusy{true,  true, true, false,
                             false, true, true, true};  // user to steal; idle, iowait
  std::map<int, double> seconds;
  std::ifstream stat(root / "proc/stat");
  for (std::string line; std::getline(stat, line);) {
    const bool of_one = line.starts_with("cpu") && line.size() > 3 && std::isdigit(line[3]) != 0;
    if (!of_one) continue;  // "cpu  " is the sum
    const int processor = std::atoi(line.c_str() + 3);
    std::istringstream columns(line.substr(line.find(' ')));
    std::int64_t ticks = 0;
    for (const bool busy : kBusy)
      if (columns >> ticks && busy)
        seconds[processor] += static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  std::vector<double> wanted;
  for (const int processor : processors) {
    const auto found = seconds.find(processor);
    if (found == seconds.end()) return {};
    wanted.push_back(found->second);
  }
  return wanted;
}

int node_of_device(const std::string& pci_address, const fs::path& root) {
  std::string name = pci_address;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return static_cast<int>(number_in(root / "sys/bus/pci/devices" / name / "numa_node", -1));
}

std::vector<int> processors_of_node(int node, const fs::path& root) {
  return parse_processors(first_line(root / fmt::format("sys/devices/system/node/node{}/cpulist", node)));
}

std::vector<Interface> find_interfaces(const fs::path& root) {
  std::vector<Interface> found;
  // This lists the process's own network namespace; /sys may be mounted from another one.
  std::ifstream table(root / "proc/self/net/dev");
  for (std::string line; std::getline(table, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    Interface entry;
    std::istringstream(line.substr(0, colon)) >> entry.name;
    if (entry.name == "lo") continue;
    constexpr int kReceivedColumns = 8;
    std::istringstream columns(line.substr(colon + 1));
    std::int64_t skipped = 0;
    for (int column = 0; column < kReceivedColumns; ++column) columns >> skipped;
    columns >> entry.sent_bytes;
    const fs::path folder = root / "sys/class/net" / entry.name;
    if (first_line(folder / "operstate") == "down") continue;
    entry.bits_per_second =
        1e6 * static_cast<double>(std::max<std::int64_t>(0, number_in(folder / "speed", 0)));
    found.push_back(entry);
  }
  add_rdma_ports(root, found);
  return found;
}

RankFacts gather_facts(const fs::path& root) {
  RankFacts facts{.versions = find_versions()};
  comm::TransportFacts transport = comm::transport_facts();
  facts.mpi_components = std::move(transport.components);
  facts.cuda_aware = transport.cuda_aware;
  facts.processors = HostLimits().processors();
  facts.host_processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  watch_processors(root, facts);
  facts.namespaces = find_namespaces(root);
  read_limits(root, facts);
  facts.interfaces = find_interfaces(root);
  facts.visible_gpus = cuda::device_count();
  facts.driver_gpus = count_entries(root / "proc/driver/nvidia/gpus");
  return facts;
}

}  // namespace strata::doctor
