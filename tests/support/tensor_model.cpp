// SPDX-License-Identifier: Apache-2.0
#include "support/tensor_model.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"
#include "support/random_dataset.hpp"

namespace strata::test {
namespace {

using tensor::Stratum;

using Random = std::mt19937_64;
constexpr int kModelPoison = 0xFB;
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64,
                            DType::i8,  DType::u8,  DType::i32,  DType::i64};

Count below(Random& random, Count bound) {
  return static_cast<Count>(random() % static_cast<std::uint64_t>(bound));
}

template <typename T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof(value));
}

/// Ids of a gather as the tensor gets them.
struct Ids {
  std::vector<NodeId> values = {};
  NodeId first = 0;
  bool wide = true, sorted = false;
  Count count = 0;  // how many count
};

Ids random_ids(Random& random, Count rows) {
  Ids ids{.first = random() % 2 ? 0 : 1'000'000, .wide = random() % 2 == 0, .sorted = random() % 2 == 0};
  if (ids.wide) ids.first *= 5'000'000;
  const Count size = below(random, 1500);
  for (Count i = 0; i < size; ++i)
    ids.values.push_back(rows == 0 || random() % 9 == 0 ? -1 : ids.first + below(random, rows));
  if (ids.sorted) std::ranges::sort(ids.values);
  ids.count = random() % 2 ? size : below(random, size + 1);
  return ids;
}

/// Arrays on the device of a test.
class OnDevice {
 public:
  explicit OnDevice(Device device)
      : device_(device), stream_(device.is_cuda() ? cuda::Stream(device) : cuda::Stream()) {}
  const cuda::Stream& stream() const { return stream_; }

  cuda::Buffer put(const void* data, std::size_t bytes) const {
    cuda::Buffer buffer(cuda::memory_on(device_), bytes + 16, "test", device_);
    cuda::copy_async(buffer.data(), data, bytes, stream_);
    return buffer;
  }
  cuda::Buffer put_ids(const Ids& ids) const {
    if (ids.wide) return put(ids.values.data(), ids.values.size() * sizeof(NodeId));
    const std::vector<std::int32_t> narrow(ids.values.begin(), ids.values.end());
    cuda::Buffer buffer = put(narrow.data(), narrow.size() * sizeof(std::int32_t));
    stream_.synchronize();  // `narrow` ends here
    return buffer;
  }
  cuda::Buffer poisoned(std::size_t bytes) const {
    cuda::Buffer buffer(cuda::memory_on(device_), bytes, "test", device_);
    cuda::fill_async(buffer.data(), kModelPoison, bytes, stream_);
    return buffer;
  }
  std::vector<std::byte> get(const void* data, std::size_t bytes) const {
    std::vector<std::byte> copy(bytes);
    cuda::copy_async(copy.data(), data, bytes, stream_);
    stream_.synchronize();
    return copy;
  }

 private:
  Device device_;
  cuda::Stream stream_;
};

struct Fixture {
  const comm::Machine& machine;
  OnDevice on_device;
  ThreadPool pool{2};
  tensor::ChunkTensor& tensor;
  TensorModel& model;
  Random& common;  // the same on all ranks
  Random own;

  const tensor::TensorSpec& spec() const { return tensor.spec(); }

  void expect_contents(const char* after) {
    std::vector<std::byte> bytes(model.all().size() + 8, std::byte{0xEE});
    tensor.read_rows(0, spec().rows, bytes.data());
    bytes.resize(model.all().size());
    EXPECT_TRUE(bytes == model.all()) << "contents differ after " << after;
  }

  tensor::RowIds row_ids(const Ids& ids, const cuda::Buffer& data, const cuda::Buffer& count,
                         bool counted) const {
    return {.data = data.data(),
            .size = std::ssize(ids.values),
            .first = ids.first,
            .wide = ids.wide,
            .sorted = ids.sorted,
            .count = counted ? static_cast<const Count*>(count.data()) : nullptr};
  }

  void check_gather() {
    const Ids ids = random_ids(own, spec().rows);
    const DType stored = spec().dtype;
    const DType out = own() % 3 == 0                                              ? DType::f32
                      : own() % 2 == 0 && tensor::can_gather(stored, DType::bf16) ? DType::bf16
                                                                                  : stored;
    const auto pitch = own() % 2 ? spec().cols : spec().cols + below(own, 9);
    const auto offset = static_cast<std::size_t>(below(own, 5)) * size_of(out);
    const std::size_t row = static_cast<std::size_t>(pitch) * size_of(out), rows = ids.values.size();
    const cuda::Buffer data = on_device.put_ids(ids), count = on_device.put(&ids.count, sizeof(ids.count));
    const cuda::Buffer buffer = on_device.poisoned(offset + rows * row + 256);
    tensor.gather(row_ids(ids, data, count, true),
                  {.data = static_cast<std::byte*>(buffer.data()) + offset, .dtype = out, .pitch = pitch},
                  on_device.stream(), pool);
    std::vector<std::byte> expected(buffer.bytes(), std::byte{kModelPoison});
    for (Count i = 0; i < ids.count; ++i) {
      const NodeId id = ids.values[static_cast<std::size_t>(i)];
      const auto values = model.row_as(id == -1 ? -1 : id - ids.first, out);
      std::ranges::copy(
          values, expected.begin() + static_cast<std::ptrdiff_t>(offset + static_cast<std::size_t>(i) * row));
    }
    EXPECT_TRUE(on_device.get(buffer.data(), buffer.bytes()) == expected)
        << "gather of " << ids.count << " of " << rows << " ids as " << name_of(out) << ", pitch " << pitch
        << ", wide " << ids.wide << ", sorted " << ids.sorted;
  }

  tensor::Stratum stratum_of(Count row) const {
    for (const tensor::Segment& s : tensor.placement().segments) {
      if (row < s[Stratum::replicated]) return Stratum::replicated;
      if (row < s[Stratum::replicated] + s[Stratum::striped]) return Stratum::striped;
      if (row < s.rows()) return Stratum::host;
      row -= s.rows();
    }
    ADD_FAILURE() << "no row";
    return Stratum::host;
  }

  void check_counts() {
    const Ids ids = random_ids(own, spec().rows);
    std::array<Count, tensor::kNumStrata> expected = {5, 6, 7};
    const cuda::Buffer data = on_device.put_ids(ids), count = on_device.put(&ids.count, sizeof(ids.count)),
                       counts = on_device.put(expected.data(), sizeof(expected));
    for (int twice = 0; twice < 2; ++twice)
      tensor.count_strata(row_ids(ids, data, count, true), static_cast<Count*>(counts.data()),
                          on_device.stream());
    for (Count i = 0; i < ids.count; ++i) {
      const NodeId id = ids.values[static_cast<std::size_t>(i)];
      if (id != -1) expected[static_cast<std::size_t>(stratum_of(id - ids.first))] += 2;
    }
    EXPECT_EQ(read<decltype(expected)>(on_device.get(counts.data(), sizeof(expected)).data()), expected);
  }

  /// Each rank scatters its own rows; which they are and what they hold, all ranks know.
  void check_scatter() {
    const TensorModel fresh(spec(), common());
    Ids own_rows{.wide = common() % 2 == 0};
    const auto row_bytes = static_cast<Count>(spec().row_bytes());
    std::vector<std::byte> values;
    for (Count row = 0; row < spec().rows; ++row) {
      if (common() % 3 != 0) continue;
      const std::byte* bytes = fresh.bytes() + row * row_bytes;
      model.set_row(row, bytes);
      if (static_cast<int>(common() % static_cast<unsigned>(machine.size())) != machine.rank()) continue;
      own_rows.values.push_back(row);
      values.insert(values.end(), bytes, bytes + row_bytes);
      if (own() % 4 == 0) {
        own_rows.values.push_back(-1);
        values.insert(values.end(), static_cast<std::size_t>(row_bytes), std::byte{0x55});
      }
    }
    own_rows.count = std::ssize(own_rows.values);
    const cuda::Buffer data = on_device.put_ids(own_rows), rows = on_device.put(values.data(), values.size());
    tensor.scatter(row_ids(own_rows, data, data, false), {.data = rows.data()}, on_device.stream(), pool);
    tensor.fence(machine, on_device.stream());
    expect_contents("scatter");
    machine.barrier();
  }

  void check_bad_ids() {
    if (spec().rows < 3) return;
    tensor.check_ids(true);
    Ids ids;
    ids.values = {1, -1, spec().rows, 2, spec().rows + 7};
    const cuda::Buffer data = on_device.put_ids(ids),
                       out = on_device.poisoned(5 * static_cast<std::size_t>(spec().cols) * 8 + 8);
    const auto gather_and_verify = [&] {
      tensor.gather(row_ids(ids, data, data, false), {.data = out.data(), .dtype = spec().dtype},
                    on_device.stream(), pool);
      tensor.verify(on_device.stream());
    };
    try {
      gather_and_verify();
      ADD_FAILURE() << "an id out of range was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format("id {} ", spec().rows)));
    }
    tensor.check_ids(false);
    EXPECT_NO_THROW(gather_and_verify());
    const auto rows = on_device.get(out.data(), 3 * spec().row_bytes());
    EXPECT_TRUE(std::all_of(rows.begin() + static_cast<std::ptrdiff_t>(spec().row_bytes()), rows.end(),
                            [](std::byte b) { return b == std::byte{0}; }));
    machine.barrier();
  }

  void check_fill() {
    tensor.fill(machine, 3, pool);
    std::vector<std::byte> bytes(model.all().size());
    tensor.read_rows(0, spec().rows, bytes.data());
    const std::size_t width = size_of(spec().dtype);
    for (std::size_t at = 0; at < bytes.size(); at += width)
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(width),
                             bytes.begin() + static_cast<std::ptrdiff_t>(at)));
    if (bytes.empty()) return;
    if (spec().dtype == DType::f32) {
      EXPECT_EQ(read<float>(bytes.data()), 3.0f);
    } else if (spec().dtype == DType::i64) {
      EXPECT_EQ(read<std::int64_t>(bytes.data()), 3);
    }
  }
};

}  // namespace

TensorModel::TensorModel(const tensor::TensorSpec& spec, std::uint64_t seed)
    : spec_(spec), bytes_(random_values(spec.rows * spec.cols, spec.dtype, seed).bytes) {}

void TensorModel::set_row(Count row, const std::byte* bytes) {
  std::memcpy(bytes_.data() + static_cast<std::size_t>(row) * spec_.row_bytes(), bytes, spec_.row_bytes());
}

float TensorModel::element(Count index) const {
  const std::byte* at = bytes_.data() + static_cast<std::size_t>(index) * size_of(spec_.dtype);
  switch (spec_.dtype) {
    case DType::f32:
      return read<float>(at);
    case DType::f16:
      return f16_to_f32(read<std::uint16_t>(at));
    case DType::bf16:
      return bf16_to_f32(read<std::uint16_t>(at));
    case DType::f64:
      return static_cast<float>(read<double>(at));
    case DType::i8:
      return static_cast<float>(read<std::int8_t>(at)) * spec_.scale;
    case DType::u8:
      return static_cast<float>(read<std::uint8_t>(at));
    case DType::i32:
      return static_cast<float>(read<std::int32_t>(at));
    case DType::i64:
      return static_cast<float>(read<std::int64_t>(at));
  }
  return 0;
}

std::vector<std::byte> TensorModel::row_as(Count row, DType out) const {
  const auto width = static_cast<std::size_t>(spec_.cols) * size_of(out);
  if (row < 0) return std::vector<std::byte>(width, std::byte{0});
  if (out == spec_.dtype) {
    const std::byte* begin = bytes_.data() + static_cast<std::size_t>(row) * spec_.row_bytes();
    return {begin, begin + spec_.row_bytes()};
  }
  std::vector<std::byte> values;
  for (Count c = 0; c < spec_.cols; ++c) {
    const float value = element(row * spec_.cols + c);
    if (out == DType::bf16) {
      append(values, f32_to_bf16(value));
    } else {
      append(values, value);
    }
  }
  return values;
}

RandomTensor::RandomTensor(std::uint64_t seed) {
  Random random(seed);
  constexpr Count kCols[] = {1, 2, 3, 5, 8, 16, 25, 32, 33, 64, 100, 128, 129, 250, 256, 600};
  spec = {.name = "random",
          .cols = kCols[random() % std::size(kCols)],
          .dtype = kTypes[random() % std::size(kTypes)],
          .scale = 0.25f,
          .scatters = random() % 2 == 0,
          .padded = random() % 4 == 0};
  const Count kinds = below(random, 5);  // all strata, or one alone
  const Count segments = random() % 8 == 0 ? 20 : 1 + below(random, 3);
  for (Count s = 0; s < segments; ++s) {
    tensor::Segment segment{{Stratum::replicated, below(random, 400)},
                            {Stratum::striped, below(random, 400)},
                            {Stratum::host, below(random, 400)}};
    if (kinds == 1) segment = {{Stratum::replicated, segment[Stratum::replicated]}};
    if (kinds == 2) segment = {{Stratum::striped, segment[Stratum::striped]}};
    if (kinds == 3) segment = {{Stratum::host, segment[Stratum::host]}};
    placement.segments.push_back(segment);
    spec.rows += segment.rows();
  }
  placement.stripe_rows = random() % 3 == 0 ? 1 + below(random, 300) : Count{1} << below(random, 8);
  placement.idle_gpus = random() % 2 == 0;
}

std::string RandomTensor::str() const {
  std::string text =
      fmt::format("{} x {} of {}{}{}, stripes of {}:", spec.rows, spec.cols, name_of(spec.dtype),
                  spec.scatters ? ", scatters" : "", spec.padded ? ", padded" : "", placement.stripe_rows);
  for (const tensor::Segment& s : placement.segments)
    text += fmt::format(" {{{}, {}, {}}}", s[Stratum::replicated], s[Stratum::striped], s[Stratum::host]);
  return text;
}

void check_random_tensor(const comm::Machine& machine, Device device, std::uint64_t seed) {
  const RandomTensor made(seed);
  SCOPED_TRACE(fmt::format("seed {}: {}", seed, made.str()));
  const cuda::DeviceGuard guard(device);
  tensor::ChunkTensor tensor = tensor::ChunkTensor::create(machine, made.spec, made.placement);
  TensorModel model(made.spec, seed);
  tensor.write_rows(0, made.spec.rows, model.bytes());  // all ranks the same
  machine.barrier();
  Random common(seed * 7 + 1);
  Fixture fixture{.machine = machine,
                  .on_device = OnDevice(device),
                  .tensor = tensor,
                  .model = model,
                  .common = common,
                  .own = Random(seed * 31 + static_cast<std::uint64_t>(machine.rank()))};
  fixture.expect_contents("write");
  fixture.check_counts();
  for (const tensor::HostPath path : {tensor::HostPath::automatic, tensor::HostPath::zero_copy,
                                      tensor::HostPath::threads, tensor::HostPath::both}) {
    tensor.configure({.host_path = path,
                      .threads = 2,
                      .threads_share = path == tensor::HostPath::both ? 0.5 : 0,
                      .multiprocessors = static_cast<int>(common() % 3) * 7,
                      .aligned_reads = common() % 2 == 0});
    for (int i = 0; i < 2; ++i) fixture.check_gather();
  }
  machine.barrier();
  const bool has_replicas = std::ranges::any_of(
      tensor.placement().segments, [](const tensor::Segment& s) { return s[Stratum::replicated] > 0; });
  if (made.spec.scatters || !has_replicas) fixture.check_scatter();
  fixture.check_gather();
  fixture.check_bad_ids();
  fixture.check_fill();
  tensor.close(machine);
}

}  // namespace strata::test
