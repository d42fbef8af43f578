// SPDX-License-Identifier: Apache-2.0
// Measures whether to compress neighbor lists on disk: bytes per entry of gaps in whole bytes, the time to
// decode them, the time of a pass of label propagation, and what the disk reads meanwhile. See README.md.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "multilevel/cluster.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/options.hpp"
#include "strata/util/text.hpp"

namespace {

using namespace strata;

struct Options {
  std::string input;
  std::filesystem::path folder = "/tmp";
  Count scale = 1;
  int runs = 5;
};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double fastest(int runs, const std::function<void()>& work) {
  double least = std::numeric_limits<double>::max();
  for (int run = 0; run < runs; ++run) least = std::min(least, seconds_of(work));
  return least;
}

/// Neighbor lists as the partitioner scans them: offsets, and ids of 32 bits.
struct Lists {
  std::vector<Count> begin;
  std::vector<std::int32_t> ids;

  Count num_nodes() const { return std::ssize(begin) - 1; }
};

/// Reads lists without self-loops, and each neighbor once.
Lists read_lists(const std::string& input) {
  const graph::Graph graph = graph::read_graph(
      input,
      {.self_loops = graph::EdgePolicy::remove, .direction = graph::ReadOptions::Direction::undirected});
  if (graph.num_nodes() > std::numeric_limits<std::int32_t>::max())
    throw InputError("ids of more than 32 bits are not compressed here", "Use a smaller graph.");
  return {graph.structure.indptr, {graph.structure.indices.begin(), graph.structure.indices.end()}};
}

/// The first id of each list and then the gaps, each `scale` times what it is; zeros in the end make the
/// number of all a multiple of four.
std::vector<std::uint32_t> gaps_of(const Lists& lists, Count scale) {
  if (lists.num_nodes() * scale > std::numeric_limits<std::uint32_t>::max())
    throw InputError("--scale makes ids of more than 32 bits", "Give less.");
  std::vector<std::uint32_t> gaps((lists.ids.size() + 3) / 4 * 4);
  for (Count v = 0; v < lists.num_nodes(); ++v)
    for (Count e = lists.begin[at(v)], last = 0; e < lists.begin[at(v + 1)]; last = lists.ids[at(e++)])
      gaps[at(e)] = static_cast<std::uint32_t>((lists.ids[at(e)] - last) * scale);
  return gaps;
}

/// A code with 7 bits of a number per byte; the highest bit means that more follow.
struct Varint {
  static constexpr const char* kName = "bytes of 7 bits";

  static std::vector<std::uint8_t> encode(const std::vector<std::uint32_t>& numbers) {
    std::vector<std::uint8_t> bytes;
    for (std::uint32_t number : numbers) {
      for (; number >= 0x80; number >>= 7) bytes.push_back(static_cast<std::uint8_t>(number | 0x80));
      bytes.push_back(static_cast<std::uint8_t>(number));
    }
    return bytes;
  }

  static void decode(const std::vector<std::uint8_t>& bytes, std::vector<std::uint32_t>& numbers) {
    const std::uint8_t* from = bytes.data();
    for (std::uint32_t& number : numbers) {
      number = *from & 0x7F;
      for (int shift = 7; *from++ >= 0x80; shift += 7)
        number |= static_cast<std::uint32_t>(*from & 0x7F) << shift;
    }
  }
};

/// A code with 1 to 4 bytes per number; before each four of them a byte with their lengths.
struct GroupVarint {
  static constexpr const char* kName = "groups of four";

  static std::vector<std::uint8_t> encode(const std::vector<std::uint32_t>& numbers) {
    std::vector<std::uint8_t> bytes;
    for (std::size_t first = 0; first < numbers.size(); first += 4) {
      const std::size_t lengths = bytes.size();
      bytes.push_back(0);
      for (std::size_t i = 0; i < 4; ++i) {
        const std::uint32_t number = numbers[first + i];
        const auto more = at((std::bit_width(number | 1) - 1) / 8);
        bytes[lengths] = static_cast<std::uint8_t>(bytes[lengths] | more << 2 * i);
        for (std::size_t byte = 0; byte <= more; ++byte)
          bytes.push_back(static_cast<std::uint8_t>(number >> 8 * byte));
      }
    }
    bytes.resize(bytes.size() + sizeof(std::uint32_t));  // the last number is read as a whole word
    return bytes;
  }

  static void decode(const std::vector<std::uint8_t>& bytes, std::vector<std::uint32_t>& numbers) {
    constexpr std::array<std::uint32_t, 4> kMask{0xFF, 0xFFFF, 0xFF'FFFF, 0xFFFF'FFFF};
    const std::uint8_t* from = bytes.data();
    for (std::size_t first = 0; first < numbers.size(); first += 4) {
      const unsigned lengths = *from++;
      for (std::size_t i = 0; i < 4; ++i) {
        const unsigned more = lengths >> 2 * i & 3;
        std::memcpy(&numbers[first + i], from, sizeof(std::uint32_t));
        numbers[first + i] &= kMask[more];
        from += more + 1;
      }
    }
  }
};

struct Coded {
  const char* name;
  double bytes_per_entry, seconds;
};

template <typename Code>
Coded measure(const std::vector<std::uint32_t>& gaps, int runs) {
  const std::vector<std::uint8_t> bytes = Code::encode(gaps);
  std::vector<std::uint32_t> decoded(gaps.size());
  const double seconds = fastest(runs, [&] { Code::decode(bytes, decoded); });
  if (decoded != gaps) throw Error(fmt::format("{}: decoding gives other numbers", Code::kName));
  return {Code::kName, static_cast<double>(bytes.size()) / static_cast<double>(gaps.size()), seconds};
}

/// One round of label propagation over lists in memory, on one thread.
double seconds_of_pass(const Lists& lists, int runs) {
  partition::LevelGraph level;
  level.num_nodes = lists.num_nodes();
  level.begin = lists.begin.data();
  level.ids = lists.ids.data();
  ThreadPool one{1};
  return fastest(runs, [&] {
    partition::propagate(level, {.limits = {std::max<Count>(level.num_nodes / 256, 1)}, .rounds = 1}, one);
  });
}

/// Bytes per second that the folder's disk reads of a file which is not in memory.
double disk_rate(const std::filesystem::path& folder, const std::vector<std::int32_t>& ids) {
  const std::filesystem::path path = folder / fmt::format("benchmark-gaps-{}", getpid());
  const std::string_view bytes{reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0])};
  write_file_atomically(path, bytes);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::filesystem::remove(path);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  std::vector<char> piece(std::size_t{1} << 20);
  const double seconds = seconds_of([&] {
    while (read(file, piece.data(), piece.size()) > 0) {
    }
  });
  close(file);
  return static_cast<double>(bytes.size()) / seconds;
}

void run(const Options& options) {
  const Lists lists = read_lists(options.input);
  const auto entries = static_cast<double>(lists.ids.size());
  const std::vector<std::uint32_t> gaps = gaps_of(lists, options.scale);
  const auto nanoseconds = [&](double seconds) { return fmt::format("{:.2f} ns", 1e9 * seconds / entries); };
  const double rate = disk_rate(options.folder, lists.ids);
  Table table({"per entry", "bytes", "decode", "read at the disk's rate", "a pass", "pays below"});
  table.row({"ids of 32 bits", "4.00", "-", nanoseconds(4 * entries / rate),
             nanoseconds(seconds_of_pass(lists, options.runs)), "-"});
  for (const Coded& coded : {measure<Varint>(gaps, options.runs), measure<GroupVarint>(gaps, options.runs)}) {
    const double saved_bytes = entries * (4 - coded.bytes_per_entry);
    table.row({coded.name, fmt::format("{:.2f}", coded.bytes_per_entry), nanoseconds(coded.seconds),
               nanoseconds(coded.bytes_per_entry * entries / rate), "",
               saved_bytes > 0 ? format_bytes(static_cast<std::int64_t>(saved_bytes / coded.seconds)) + "/s"
                               : "never"});
  }
  fmt::print("{} nodes, {} entries, gaps times {}; the disk reads {}/s\n{}", format_count(lists.num_nodes()),
             format_count(std::ssize(lists.ids)), options.scale,
             format_bytes(static_cast<std::int64_t>(rate)), table.str());
}

}  // namespace

int main(int argc, char** argv) {
  Options wanted;
  try {
    options::OptionTable table;
    table.add("input", wanted.input, "A graph, as strata-partition names it").required();
    table.add_as<options::Integer<Count, 1, 1 << 20>>(
        "scale", wanted.scale,
        "Take gaps this many times as large, as a graph of so many times the nodes has");
    table.add("folder", wanted.folder, "A folder on the disk that is measured");
    table.add_as<options::Integer<int, 1, 100>>("runs", wanted.runs, "Runs; the fastest counts");
    const std::string help = options::read_words(
        "benchmark-gaps", "Measures neighbor lists of gaps beside lists of 32-bit ids, on one thread\n\n",
        table, {argv + 1, argv + argc});
    if (!help.empty()) return fmt::print("{}", help), 0;
    run(wanted);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", format_error("benchmark-gaps", error));
    return static_cast<int>(exit_code(error));
  }
}
