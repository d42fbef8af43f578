// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "growing.hpp"
#include "mini_batch_buffers.hpp"
#include "sampler_cpu.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

constexpr auto kDevice = cuda::Memory::device;

/// The header that is uploaded before a batch's arrays.
struct UploadedHeader {
  BatchKey key;
};

/// Arrays of one batch on the device.
struct UploadedArrays {
  MiniBatchBuffers buffers;
  cuda::Array<UploadedHeader> header;
  cuda::Array<Count> counts;
};

/// Host memory from which the device copies.
struct Staging {
  cuda::Array<UploadedHeader> header;
  cuda::Array<Count> counts;
  std::vector<cuda::Array<Count>> tails;  // tails of indptr, first of each hop, then of each hop's transpose
  cuda::Array<std::int32_t> padded_positions;
};

struct UploadBuffers {
  UploadedArrays padded, loose;  // arrays of padded batches never move, because recordings use them
  Staging staging;
  cuda::Event copied;
  MiniBatch batch;
};

/// The most that a batch can need; without hops if an exchange or a fanout makes it unbounded.
PaddedShape bounds_of(const store::GraphView& view, const SamplerOptions& options, bool exchanges) {
  const bool bounded = std::ranges::all_of(options.fanouts, [](int fanout) { return fanout >= 0; });
  if (exchanges || !bounded || options.chooser != nullptr) return {};
  PaddedShape shape{.nodes = {std::min(options.max_seeds, view.num_nodes)}, .entries = {}};
  for (std::size_t hop = 0; hop < options.fanouts.size(); ++hop) {
    const Count known = shape.nodes.back();
    const bool exceeds = options.method == Method::labor;  // there the fanout is only a mean
    const Count wanted = exceeds ? view.indices.size : known * options.fanouts[hop];
    const Count entries = options.replace ? wanted : std::min(wanted, view.indices.size);
    shape.entries.push_back(entries);
    const bool compacted = options.compact_inputs || hop + 1 < options.fanouts.size();
    shape.nodes.push_back(compacted ? std::min(view.num_nodes, known + entries) : known);
  }
  return shape;
}

class UploadingSampler final : public MiniBatchSampler {
 public:
  UploadingSampler(std::unique_ptr<MiniBatchSampler> sampler, const SamplerOptions& options,
                   const PaddedShape& bounds, Device device, int num_buffers)
      : sampler_(std::move(sampler)), options_(options), bounds_(bounds), device_(device) {
    for (int s = 0; s < num_buffers; ++s) {
      UploadBuffers& set = buffers_.emplace_back();
      for (UploadedArrays* arrays : {&set.padded, &set.loose}) arrays->buffers.hops.resize(num_hops());
      set.staging.tails.resize(2 * num_hops());
      set.copied = cuda::Event(device);
    }
  }

  void enqueue(std::span<const NodeId> seeds, const BatchKey& key, int index,
               const cuda::Stream& stream) override {
    const cuda::DeviceGuard guard(device_);
    UploadBuffers& set = buffers_[at(index)];
    set.copied.synchronize();  // the memory from which the set's last batch was copied is written again
    const MiniBatch sampled = sampler_->sample(seeds, key, index, {});
    MiniBatch padded = sampled;
    const bool fits = pad(padded, shape_);
    upload(sampled, key, {set.staging, fits ? set.padded : set.loose, fits ? &shape_ : nullptr, stream});
    set.batch = sampled;
    point_to(fits ? set.padded : set.loose, set.batch);
    set.copied.record(stream);
  }

  MiniBatch finish(int index) override { return buffers_[at(index)].batch; }
  ExchangeReport report() const override { return sampler_->report(); }
  void exclude(const ExcludedEntries& entries) override { sampler_->exclude(entries); }
  PaddedShape bounds() const override { return bounds_; }
  void pad_nodes(const PaddedShape& shape) override { shape_ = shape; }

 private:
  std::size_t num_hops() const { return options_.fanouts.size(); }

  /// Where a batch is uploaded, with a shape if it is padded.
  struct Upload {
    Staging& staging;
    UploadedArrays& to;
    const PaddedShape* shape;
    const cuda::Stream& stream;

    /// Copies `size` elements into room for `room`.
    template <typename T>
    void copy(cuda::Array<T>& array, const T* from, Count size, Count room) const {
      reserve(array, kDevice, std::max(size, room), 0, "an uploaded minibatch", stream);
      cuda::copy_async(array.data(), from, at(size) * sizeof(T), stream);
    }
    /// The same, and fills the rest of the room with `byte`.
    template <typename T>
    void copy_filled(cuda::Array<T>& array, const T* from, Count size, Count room, int byte) const {
      copy(array, from, size, room);
      if (room > size) cuda::fill_async(array.data() + size, byte, at(room - size) * sizeof(T), stream);
    }
    /// Copies the offsets of `size` lists, and those of empty lists up to `room`.
    void copy_offsets(cuda::Array<Count>& array, const Count* offsets, Count size, Count room,
                      cuda::Array<Count>& tail) const {
      copy(array, offsets, size + 1, room + 1);
      if (room <= size) return;
      reserve(tail, cuda::Memory::pinned, room - size, 0, "an uploaded minibatch", {});
      std::fill_n(tail.data(), room - size, offsets[size]);
      cuda::copy_async(array.data() + size + 1, tail.data(), at(room - size) * sizeof(Count), stream);
    }
  };

  void upload(const MiniBatch& batch, const BatchKey& key, const Upload& upload) const {
    MiniBatchBuffers& to = upload.to.buffers;
    const Block& input = batch.blocks.front();
    const Count room = upload.shape != nullptr ? upload.shape->nodes.back() : 0;
    upload.copy_filled(to.nodes, input.src_nodes, input.num_src, room, 0xFF);
    const Count num_original = options_.input_original_ids ? input.num_src : input.num_dst;
    upload.copy_filled(to.original_ids, input.src_original_ids, num_original, room, 0);
    if (options_.in_degrees) upload.copy_filled(to.in_degrees, input.src_in_degrees, input.num_src, room, 0);
    if (options_.sorted_inputs) upload_sorted(batch, room, upload);
    for (std::size_t hop = 0; hop < num_hops(); ++hop) upload_hop(batch, hop, upload);
    upload_header(batch, key, upload);
  }

  /// Padded nodes have the same positions as in the batch.
  void upload_sorted(const MiniBatch& batch, Count room, const Upload& upload) const {
    MiniBatchBuffers& to = upload.to.buffers;
    cuda::Array<std::int32_t>& tail = upload.staging.padded_positions;
    const Count size = batch.num_inputs();
    upload.copy_filled(to.sorted_nodes, batch.sorted_inputs, size, room, 0xFF);
    upload.copy(to.sorted_positions, batch.sorted_positions, size, room);
    if (room <= size) return;
    reserve(tail, cuda::Memory::pinned, room - size, 0, "an uploaded minibatch", {});
    std::iota(tail.data(), tail.data() + (room - size), static_cast<std::int32_t>(size));
    cuda::copy_async(to.sorted_positions.data() + size, tail.data(), at(room - size) * sizeof(std::int32_t),
                     upload.stream);
  }

  void upload_hop(const MiniBatch& batch, std::size_t hop, const Upload& upload) const {
    const Block& block = batch.blocks[num_hops() - 1 - hop];
    HopBuffers& to = upload.to.buffers.hops[hop];
    const PaddedShape* shape = upload.shape;
    const Count entries = shape != nullptr ? shape->entries[hop] : 0;
    upload.copy_offsets(to.indptr, block.indptr, block.num_dst, shape != nullptr ? shape->nodes[hop] : 0,
                        upload.staging.tails[hop]);
    upload.copy_filled(to.indices, block.indices, block.num_edges, entries, 0);
    if (options_.edge_ids) upload.copy(to.edge_ids, block.edge_ids, block.num_edges, entries);
    if (block.transposed_indptr == nullptr) return;
    upload.copy_offsets(to.transposed_indptr, block.transposed_indptr, block.num_src,
                        shape != nullptr ? shape->nodes[hop + 1] : 0, upload.staging.tails[num_hops() + hop]);
    upload.copy(to.transposed_indices, block.transposed_indices, block.num_edges, entries);
  }

  /// The key, and the counts in the order of MiniBatch::device_counts.
  void upload_header(const MiniBatch& batch, const BatchKey& key, const Upload& upload) const {
    Staging& from = upload.staging;
    const auto num_counts = static_cast<Count>(2 * num_hops() + 1);
    reserve(from.header, cuda::Memory::pinned, 1, 0, "an uploaded minibatch", {});
    reserve(from.counts, cuda::Memory::pinned, num_counts, 0, "an uploaded minibatch", {});
    from.header[0] = {key};
    for (std::size_t hop = 0; hop < num_hops(); ++hop) {
      const Block& block = batch.blocks[num_hops() - 1 - hop];
      const auto h = static_cast<Count>(hop), hops = static_cast<Count>(num_hops());
      from.counts[h] = block.num_dst;
      from.counts[h + 1] = block.num_src;
      from.counts[hops + 1 + h] = block.num_edges;
    }
    upload.copy(upload.to.header, from.header.data(), 1, 1);
    upload.copy(upload.to.counts, from.counts.data(), num_counts, num_counts);
  }

  /// Replaces the batch's pointers to host memory.
  void point_to(const UploadedArrays& arrays, MiniBatch& batch) const {
    for (std::size_t hop = 0; hop < num_hops(); ++hop) {
      Block& block = batch.blocks[num_hops() - 1 - hop];
      const HopBuffers& buffers = arrays.buffers.hops[hop];
      block.device = device_;
      block.indptr = buffers.indptr.data();
      block.indices = buffers.indices.data();
      if (block.edge_ids != nullptr) block.edge_ids = buffers.edge_ids.data();
      if (block.transposed_indptr != nullptr) {
        block.transposed_indptr = buffers.transposed_indptr.data();
        block.transposed_indices = buffers.transposed_indices.data();
      }
      block.src_nodes = arrays.buffers.nodes.data();
      block.src_original_ids = arrays.buffers.original_ids.data();
      if (block.src_in_degrees != nullptr) block.src_in_degrees = arrays.buffers.in_degrees.data();
    }
    if (options_.sorted_inputs) {
      batch.sorted_inputs = arrays.buffers.sorted_nodes.data();
      batch.sorted_positions = arrays.buffers.sorted_positions.data();
    }
    batch.device_counts = arrays.counts.data();
    batch.device_key = &arrays.header.data()->key;
  }

  std::unique_ptr<MiniBatchSampler> sampler_;
  SamplerOptions options_;
  PaddedShape bounds_, shape_;
  Device device_;
  std::vector<UploadBuffers> buffers_;
};

}  // namespace

std::unique_ptr<MiniBatchSampler> make_uploading_sampler(const store::GraphView& view,
                                                         const SamplerOptions& options,
                                                         const ExchangeContext& exchange, int num_buffers,
                                                         const UploadTarget& target) {
  check_sampler(options, view, num_buffers);
  auto sampler = make_cpu_sampler(view, options, exchange, num_buffers, *target.pool, cuda::Memory::pinned);
  const bool exchanges = exchange.topology != nullptr && exchange.topology->num_machines() > 1;
  return std::make_unique<UploadingSampler>(std::move(sampler), options, bounds_of(view, options, exchanges),
                                            target.device, num_buffers);
}

}  // namespace strata::sampling
