// SPDX-License-Identifier: Apache-2.0
// Measures useful bytes per second of ChunkTensor::gather against the hardware's best. See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "limits.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/plan/placement.hpp"
#include "strata/plan/rates.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/tensor/path_rates.hpp"
#include "strata/util/error.hpp"
#include "strata/util/options.hpp"
#include "strata/util/text.hpp"

namespace strata::benchmark {
namespace {

using tensor::HostPath;
using tensor::Stratum;

struct Arguments {
  std::vector<std::string> cases{"local", "convert", "codes", "striped", "host", "mixed", "planned"};
  std::vector<Count> row_bytes{16, 32, 64, 128, 256, 400, 512, 1024, 2048, 4096};
  std::vector<Count> num_rows{1'000'000, 100'000};
  std::vector<Count> host_row_bytes{128, 400, 512, 1024};
  std::vector<std::string> host_paths{"zero-copy", "threads", "both"};
  std::vector<int> threads{0};
  std::vector<double> shares{0};
  std::vector<int> multiprocessors{0};
  double local_gib = 8, host_gib = 64;
  Timing timing;
  std::string json;
};

std::string read(Arguments& a, const std::vector<std::string>& words) {
  options::OptionTable table;
  table.add("cases", a.cases, "Cases of local, convert, codes, striped, host, mixed, planned");
  table.add("row-bytes", a.row_bytes, "Bytes per row");
  table.add("rows", a.num_rows, "Rows that are gathered at once");
  table.add("host-row-bytes", a.host_row_bytes, "Bytes per row in host memory");
  table.add("host-paths", a.host_paths, "How host rows travel: zero-copy, threads, both");
  table.add("threads", a.threads, "CPU threads per rank (0: the default)");
  table.add("shares", a.shares, "Shares of the rows for the threads; 0: measured");
  table.add("multiprocessors", a.multiprocessors, "Multiprocessors of the GPU; 0: the default");
  table.add("local-gib", a.local_gib, "Size of the table on each GPU");
  table.add("host-gib", a.host_gib, "Size of the table in host memory");
  table.add_as<options::Integer<int, 1>>("runs", a.timing.runs, "Runs of each case");
  table.add("json", a.json, "File for the results");
  return options::read_words("benchmark_gather", "Rates of gathering rows from every stratum\n\n", table,
                             words);
}

/// The result of one row of the table.
struct Result {
  std::string where, order, how;
  Count row_bytes = 0, rows = 0;
  double useful = 0;  ///< bytes per second of one GPU
  double limit = 0;   ///< that the ratio refers to, for the same bytes
  double cores = 0;   ///< CPU seconds per second and rank
};

/// Everything the cases share.
class Benchmark {
 public:
  Benchmark(const comm::Machine& machine, const Arguments& arguments)
      : machine_(machine),
        arguments_(arguments),
        stream_(machine.device()),
        limits_(measure_limits(machine, stream_, arguments.timing)) {}

  void run() {
    for (const std::string& name : arguments_.cases) {
      if (name == "local") local();
      if (name == "convert") convert();
      if (name == "codes") codes();
      if (name == "striped") striped();
      if (name == "host") host();
      if (name == "mixed") mixed();
      if (name == "planned") planned();
    }
  }
  const Limits& limits() const { return limits_; }
  const std::vector<Result>& results() const { return results_; }
  double created_seconds_per_gib() const { return created_seconds_per_gib_; }

 private:
  static constexpr Count kBatches = 8;
  struct Gather {
    std::string where, how;
    bool sorted = false;
    Count rows = 0;
    DType out = DType::f32;
    double limit = 0;
    bool last_half = false;  ///< only the last half of the tensor's rows
    double skew = 0;         ///< s of a heat that falls with the row number as its power -s
  };

  using Ids = std::vector<std::int64_t>;

  /// Draws kBatches times as many ids of rows [first, end) as a gather takes.
  Ids random_ids(const Gather& gather, Count first, Count end) const {
    std::mt19937_64 random(static_cast<std::uint64_t>(gather.rows + machine_.rank()));
    Ids ids(at(gather.rows * kBatches));
    for (auto& id : ids) id = first + static_cast<Count>(random() % static_cast<std::uint64_t>(end - first));
    for (Count batch = 0; gather.sorted && batch < kBatches; ++batch)
      std::sort(ids.begin() + batch * gather.rows, ids.begin() + (batch + 1) * gather.rows);
    return ids;
  }

  /// The distinct rows that `draws` draws find, in random order; row numbers are drawn as their power -skew.
  static Ids distinct_ids(Count draws, double skew, Count table_rows, std::mt19937_64& random) {
    std::uniform_real_distribution<double> uniform;
    const double exponent = 1 / (1 - skew);
    Ids ids(at(draws));
    for (auto& id : ids)
      id = static_cast<Count>(static_cast<double>(table_rows) * std::pow(uniform(random), exponent));
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    std::ranges::shuffle(ids, random);
    return ids;
  }

  cuda::Array<std::int64_t> on_device(const Ids& ids) const {
    cuda::Array<std::int64_t> copy(cuda::Memory::device, std::ssize(ids), "ids", machine_.device());
    cuda::copy_async(copy.data(), ids.data(), ids.size() * sizeof(std::int64_t), stream_);
    stream_.synchronize();
    return copy;
  }

  /// Measures several batches of different ids, one after the other on the stream as in training: so launches
  /// do not dominate small ones, and none finds its rows in the cache.
  double measure(const tensor::ChunkTensor& tensor, const Gather& gather) {
    const Count all_rows = tensor.spec().rows;
    return measure(tensor, gather, random_ids(gather, gather.last_half ? all_rows / 2 : 0, all_rows));
  }
  double measure(const tensor::ChunkTensor& tensor, const Gather& gather, const Ids& host_ids) {
    const auto ids = on_device(host_ids);
    const std::size_t out_bytes = at(gather.rows * tensor.spec().cols) * size_of(gather.out);
    const cuda::Buffer out(cuda::Memory::device, out_bytes, "gathered rows", machine_.device());
    const auto gather_all = [&] {
      for (Count batch = 0; batch < kBatches; ++batch)
        tensor.gather(
            {.data = ids.data() + batch * gather.rows, .size = gather.rows, .sorted = gather.sorted},
            {.data = out.data(), .dtype = gather.out}, stream_, pool_);
    };
    const Median median = median_of(machine_, stream_, timing_for(tensor.settings()), gather_all);
    const auto row_bytes = static_cast<Count>(tensor.spec().row_bytes());
    add({.where = gather.where,
         .order = gather.sorted ? "sorted" : "random",
         .how = gather.how,
         .row_bytes = row_bytes,
         .rows = gather.rows,
         .useful = static_cast<double>(kBatches * gather.rows * row_bytes) / median.seconds,
         .limit = gather.limit,
         .cores = median.cores});
    return median.seconds;
  }

  /// Repetitions of a measurement: a search for the threads' share learns from one gather at a time; it takes
  /// 21.
  Timing timing_for(const tensor::GatherSettings& settings) const {
    constexpr int kSearch = 30;
    Timing timing = arguments_.timing;
    if (settings.host_path == HostPath::both && settings.threads_share == 0) timing.warm_up = kSearch;
    return timing;
  }

  void add(const Result& result) {
    results_.push_back(result);
    if (machine_.rank() == 0)
      fmt::print(stderr, "{:<10} {:<7} {:<22} {:>5} B x {:>9}: {:7.1f} GB/s, {:.3f} of the limit\n",
                 result.where, result.order, result.how, result.row_bytes, result.rows, result.useful / 1e9,
                 result.useful / result.limit);
  }

  tensor::ChunkTensor table(double gib, Count row_bytes, DType dtype,
                            const std::function<tensor::Placement(Count)>& place) {
    const Count rows = static_cast<Count>(gib * 1073741824.0) / row_bytes;
    const auto start = std::chrono::steady_clock::now();
    tensor::ChunkTensor tensor =
        tensor::ChunkTensor::create(machine_,
                                    {.name = "table",
                                     .rows = rows,
                                     .cols = row_bytes / static_cast<Count>(size_of(dtype)),
                                     .dtype = dtype},
                                    place(rows));
    created_seconds_per_gib_ =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / gib;
    return tensor;
  }

  void local() {
    for (const Count bytes : arguments_.row_bytes) {
      tensor::ChunkTensor tensor =
          table(arguments_.local_gib, bytes, DType::f32, tensor::Placement::replicated);
      for (const Count rows : arguments_.num_rows)
        for (const bool sorted : {false, true})
          measure(tensor, {.where = "local",
                           .how = "",
                           .sorted = sorted,
                           .rows = rows,
                           .limit = limits_.device_copy / 2});
      tensor.close(machine_);
    }
  }

  /// Measures conversions: half as many bytes are read as written; the limit is the time of moving both.
  void convert() {
    for (const Count bytes : {128, 256, 512}) {
      tensor::ChunkTensor tensor =
          table(arguments_.local_gib, bytes, DType::bf16, tensor::Placement::replicated);
      measure(tensor, {.where = "local",
                       .how = "bf16 as it is",
                       .rows = 1'000'000,
                       .out = DType::bf16,
                       .limit = limits_.device_copy / 2});
      measure(tensor, {.where = "local",
                       .how = "bf16 to f32",
                       .rows = 1'000'000,
                       .out = DType::f32,
                       .limit = limits_.device_copy / 3});
      tensor.close(machine_);
    }
  }

  static RowCode code_of(RowCode::Kind kind, Count cols) {
    RowCode code{.kind = kind, .cols = cols};
    const auto entries = at(code.num_groups() * RowCode::kEntries * RowCode::kGroupCols);
    if (kind == RowCode::Kind::vq) code.codebooks = std::make_shared<std::vector<float>>(entries);
    return code;
  }

  /// Measures rows of 128 floats that are decoded to f32. On the GPU the limit is the time of moving the code
  /// and the floats; from the host it is that of the bytes of the code.
  void codes() {
    constexpr Count kCols = 128;
    for (const auto kind : {RowCode::Kind::i8, RowCode::Kind::e4m3, RowCode::Kind::i4, RowCode::Kind::vq}) {
      const RowCode code = code_of(kind, kCols);
      const auto coded = static_cast<double>(code.row_bytes()),
                 floats = static_cast<double>(kCols * sizeof(float));
      const std::string how = fmt::format("{} to f32", name_of(kind));
      tensor::ChunkTensor local = coded_table(arguments_.local_gib, code, tensor::Placement::replicated);
      for (const Count rows : arguments_.num_rows)
        measure(local, {.where = "local",
                        .how = how,
                        .rows = rows,
                        .limit = limits_.device_copy * coded / (coded + floats)});
      local.close(machine_);
      tensor::ChunkTensor host = coded_table(arguments_.host_gib, code, tensor::Placement::on_host);
      for (const std::string& path : arguments_.host_paths) {
        host.configure({.host_path = enum_value<HostPath>(path, "--host-paths")});
        for (const Count rows : arguments_.num_rows)
          measure(host,
                  {.where = "host", .how = how + ", " + path, .rows = rows, .limit = limits_.host_to_device});
      }
      host.close(machine_);
    }
  }

  tensor::ChunkTensor coded_table(double gib, const RowCode& code,
                                  const std::function<tensor::Placement(Count)>& place) {
    const Count rows = static_cast<Count>(gib * 1073741824.0) / code.row_bytes();
    return tensor::ChunkTensor::create(
        machine_, {.name = "table", .rows = rows, .cols = code.cols, .dtype = DType::u8, .code = code},
        place(rows));
  }

  void striped() {
    for (const Count bytes : arguments_.row_bytes) {
      tensor::ChunkTensor tensor =
          table(arguments_.local_gib * machine_.size(), bytes, DType::f32, tensor::Placement::striped);
      const double limit = machine_.size() > 1 ? limits_.all_to_all * machine_.size() / (machine_.size() - 1)
                                               : limits_.device_copy / 2;
      for (const int multiprocessors : arguments_.multiprocessors) {
        tensor.configure({.multiprocessors = multiprocessors});
        for (const Count rows : arguments_.num_rows)
          for (const bool sorted : {false, true})
            measure(tensor, {.where = "striped",
                             .how = multiprocessors > 0 ? fmt::format("{} SMs", multiprocessors) : "",
                             .sorted = sorted,
                             .rows = rows,
                             .limit = limit});
      }
      tensor.close(machine_);
    }
  }

  void host() {
    for (const Count bytes : arguments_.host_row_bytes) {
      tensor::ChunkTensor tensor = table(arguments_.host_gib, bytes, DType::f32, tensor::Placement::on_host);
      for (const std::string& path : arguments_.host_paths)
        for (const int threads : path == "zero-copy" ? std::vector<int>{0} : arguments_.threads)
          for (const double share : path == "both" ? arguments_.shares : std::vector<double>{0})
            for (const int multiprocessors : arguments_.multiprocessors) {
              tensor.configure({.host_path = enum_value<HostPath>(path, "--host-paths"),
                                .threads = threads,
                                .threads_share = share,
                                .multiprocessors = multiprocessors});
              host_gathers(tensor, path);
            }
      tensor.close(machine_);
    }
  }

  /// Measures half of the rows on the host and the others on the GPUs; the limit is the rate of only the
  /// host's half.
  void mixed() {
    for (const Count bytes : arguments_.host_row_bytes) {
      const auto halves = [](Count rows) {
        return tensor::Placement{.segments = {{{Stratum::replicated, rows / 4},
                                               {Stratum::striped, rows / 2 - rows / 4},
                                               {Stratum::host, rows - rows / 2}}}};
      };
      tensor::ChunkTensor tensor = table(arguments_.host_gib, bytes, DType::f32, halves);
      for (const Count rows : arguments_.num_rows)
        for (const bool sorted : {false, true}) {
          const double host_alone = measure(tensor, {.where = "host half",
                                                     .how = "",
                                                     .sorted = sorted,
                                                     .rows = rows / 2,
                                                     .limit = limits_.host_to_device,
                                                     .last_half = true});
          const double host_rate = static_cast<double>(kBatches * rows * bytes) / host_alone;
          measure(tensor, {.where = "mixed", .how = "", .sorted = sorted, .rows = rows, .limit = host_rate});
        }
      tensor.close(machine_);
    }
  }

  /// Measures a planned placement; the limit is the planner's expectation.
  void planned() {
    for (const Count bytes : arguments_.host_row_bytes)
      for (const double skew : {0.0, 0.5, 0.8})
        for (const Count draws : arguments_.num_rows) planned_gather(bytes, skew, draws);
  }

  /// The heat by a sample of batches.
  static plan::HeatCurve sampled_heat(Ids batch, Count table_rows) {
    constexpr int kPoints = 400;
    std::ranges::sort(batch);
    plan::HeatCurve curve;
    for (int point = 1; point <= kPoints; ++point) {
      const double share = std::pow(static_cast<double>(point) / kPoints, 4);
      const Count rows = std::max<Count>(point, static_cast<Count>(share * static_cast<double>(table_rows)));
      const auto below = std::ranges::lower_bound(batch, rows) - batch.begin();
      curve.points.push_back({rows, static_cast<double>(below)});
    }
    return curve;
  }

  void planned_gather(Count row_bytes, double skew, Count draws) {
    const auto bytes_of = [](double gib) { return static_cast<std::int64_t>(gib * 1073741824.0); };
    const Count table_rows = bytes_of(arguments_.host_gib) / row_bytes;
    std::mt19937_64 random(static_cast<std::uint64_t>(machine_.rank() + 1)), common(0);
    const Ids sample = distinct_ids(draws, skew, table_rows, common);
    const Count rows = std::ssize(sample) * 95 / 100;  // what every batch has
    Ids ids;
    for (Count batch = 0; batch < kBatches; ++batch) {
      const Ids drawn = distinct_ids(draws, skew, table_rows, random);
      ids.insert(ids.end(), drawn.begin(), drawn.begin() + rows);
    }
    const std::int64_t lengths[] = {row_bytes};
    const tensor::MeasuredPaths measured = tensor::measure_path_rates(machine_, lengths).front();
    plan::TensorDemand demand{.name = "table", .row_bytes = row_bytes, .rates = measured.rates};
    demand.segments.push_back(sampled_heat({sample.begin(), sample.begin() + rows}, table_rows));
    demand.rates[Stratum::host] = plan::host_rate_of_table(measured, bytes_of(arguments_.host_gib));
    const plan::MachinePlan plan = plan::plan_tensors(
        std::span(&demand, 1), {.gpu_bytes = bytes_of(arguments_.local_gib), .num_gpus = machine_.size()});
    tensor::ChunkTensor tensor =
        table(arguments_.host_gib, row_bytes, DType::f32, [&](Count) { return plan.tensors[0].placement; });
    const double expected_rate = static_cast<double>(rows * row_bytes) / plan.seconds.batch();
    print_rates(measured, plan);
    measure(tensor,
            {.where = "planned",
             .how = fmt::format("heat ~ row^-{:.1f}", skew),
             .rows = rows,
             .limit = expected_rate},
            ids);
    tensor.close(machine_);
  }

  /// Prints the rates behind the expectation.
  void print_rates(const tensor::MeasuredPaths& measured, const plan::MachinePlan& plan) const {
    if (machine_.rank() > 0) return;
    fmt::print(stderr,
               "GB/s: own {:.0f}, peers {:.0f}, zero copy {:.1f}, threads {:.1f}, both {:.1f} after {}; "
               "expected: own {}, "
               "peers {}, host {};",
               measured.rates[Stratum::replicated].bytes_per_second / 1e9,
               measured.rates[Stratum::striped].bytes_per_second / 1e9,
               measured.rates[Stratum::host].bytes_per_second / 1e9, measured.host_threads / 1e9,
               measured.host_both / 1e9, format_seconds(measured.host_start),
               format_seconds(plan.seconds[Stratum::replicated]),
               format_seconds(plan.seconds[Stratum::striped]), format_seconds(plan.seconds[Stratum::host]));
    for (const plan::StratumEstimate& s : plan.tensors[0].strata)
      fmt::print(stderr, " {} rows with {:.1f} %", format_count(s.rows), 100 * s.share);
    fmt::print(stderr, "\n");
  }

  void host_gathers(const tensor::ChunkTensor& tensor, const std::string& path) {
    const tensor::GatherSettings& s = tensor.settings();
    std::string how = path;
    if (s.threads > 0) how += fmt::format(", {} threads", s.threads);
    if (s.threads_share > 0) how += fmt::format(", {:.2f}", s.threads_share);
    if (s.multiprocessors > 0) how += fmt::format(", {} SMs", s.multiprocessors);
    for (const Count rows : arguments_.num_rows)
      for (const bool sorted : {false, true})
        measure(
            tensor,
            {.where = "host", .how = how, .sorted = sorted, .rows = rows, .limit = limits_.host_to_device});
  }

  const comm::Machine& machine_;
  const Arguments& arguments_;
  cuda::Stream stream_;
  ThreadPool pool_{1};
  Limits limits_;
  std::vector<Result> results_;
  double created_seconds_per_gib_ = 0;  // of the table made last
};

nlohmann::json to_json(const Benchmark& benchmark, const comm::Machine& machine) {
  const Limits& l = benchmark.limits();
  nlohmann::json rows = nlohmann::json::array();
  for (const Result& r : benchmark.results())
    rows.push_back({{"where", r.where},
                    {"order", r.order},
                    {"how", r.how},
                    {"row_bytes", r.row_bytes},
                    {"rows", r.rows},
                    {"bytes_per_second", r.useful},
                    {"cores", r.cores},
                    {"share_of_limit", r.useful / r.limit}});
  return {{"gpu", cuda::device_name(machine.device().index)},
          {"gpus", machine.size()},
          {"limits",
           {{"device_copy", l.device_copy},
            {"host_to_device", l.host_to_device},
            {"peer_copy", l.peer_copy},
            {"all_to_all", l.all_to_all}}},
          {"seconds_a_gib_to_create_the_last_table", benchmark.created_seconds_per_gib()},
          {"results", rows}};
}

void print_table(const Benchmark& benchmark, int gpus) {
  const Limits& l = benchmark.limits();
  fmt::print(
      "{} GPUs; limits a GPU in GB/s: device copy {:.0f} (read + written), host to device {:.1f}, peer copy "
      "{:.0f}, NCCL all-to-all {:.0f}\n",
      gpus, l.device_copy / 1e9, l.host_to_device / 1e9, l.peer_copy / 1e9, l.all_to_all / 1e9);
  Table table({"where", "order", "how", "row bytes", "rows", "GB/s a GPU", "of the limit", "cores"});
  for (const Result& r : benchmark.results())
    table.row({r.where, r.order, r.how, format_count(r.row_bytes), format_count(r.rows),
               fmt::format("{:.1f}", r.useful / 1e9), fmt::format("{:.3f}", r.useful / r.limit),
               fmt::format("{:.1f}", r.cores)});
  fmt::print("{}creating the last table took {:.3f} s a GiB\n", table.str(),
             benchmark.created_seconds_per_gib());
}

void write_file(const std::string& path, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
  if (!file || std::fputs(text.c_str(), file.get()) < 0) throw IoError("cannot write " + path);
}

void run(const Arguments& arguments, const comm::World& world) {
  const comm::Topology topology =
      comm::discover(world.communicator(), {.compute = comm::TopologyOptions::Compute::cuda});
  comm::Machine machine(world.communicator(), topology);
  {
    const cuda::DeviceGuard guard(machine.device());
    Benchmark benchmark(machine, arguments);
    benchmark.run();
    if (machine.rank() == 0) {
      print_table(benchmark, machine.size());
      if (!arguments.json.empty()) write_file(arguments.json, to_json(benchmark, machine).dump(2));
    }
  }
  machine.close();
}

}  // namespace
}  // namespace strata::benchmark

int main(int argc, char** argv) {
  strata::benchmark::Arguments arguments;
  try {
    if (const std::string help = strata::benchmark::read(arguments, {argv + 1, argv + argc}); !help.empty())
      return fmt::print("{}", help), 0;
    const strata::comm::World world(&argc, &argv);
    strata::benchmark::run(arguments, world);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}", strata::format_error("benchmark_gather", error));
    return static_cast<int>(strata::exit_code(error));
  }
}
