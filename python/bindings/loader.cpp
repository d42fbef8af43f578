// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <functional>

#include "arrays.hpp"
#include "bindings.hpp"
#include "chooser.hpp"
#include "interruptible.hpp"
#include "runtime.hpp"
#include "sm_split.hpp"
#include "strata/batches/node_loader.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/text.hpp"

namespace strata::python {
namespace {

using namespace nb::literals;
using batches::NeighborSampler;
using batches::NodeBatch;
using batches::NodeLoader;
using batches::NodeLoaderOptions;
using NoGil = nb::call_guard<nb::gil_scoped_release>;

/// Ends an owned object without the interpreter's lock, which a chooser on one of its threads may wait for.
template <typename Owned>
struct Unlocked {
  std::shared_ptr<Owned> owned;
  explicit Unlocked(std::shared_ptr<Owned> o) : owned(std::move(o)) {}
  ~Unlocked() {
    const nb::gil_scoped_release guard;
    owned.reset();
  }
};
using OpenLoader = Unlocked<NodeLoader>;

sampling::SamplerOptions sampler_options(std::vector<int> fanouts, const std::string& method, bool replace,
                                         bool layer_dependent,
                                         std::vector<std::vector<int>> relation_fanouts = {}) {
  return {.fanouts = std::move(fanouts),
          .relation_fanouts = std::move(relation_fanouts),
          .method = enum_value<sampling::Method>(method, "sampler"),
          .replace = replace,
          .layer_dependent = layer_dependent};
}

NodeLoaderOptions loader_options(std::vector<int> fanouts, std::vector<std::vector<int>> relation_fanouts,
                                 const std::optional<std::string>& split,
                                 const std::optional<HostIdArray>& nodes, Count batch_size, bool shuffle,
                                 bool drop_last, std::uint64_t seed, const std::string& sampler, bool replace,
                                 bool layer_dependent, bool merged, bool features, bool labels,
                                 bool own_nodes, bool deals, bool transposes, const nb::object& chooser,
                                 std::shared_ptr<batches::LinkOptions> links) {
  NodeLoaderOptions options{
      .links = std::move(links),
      .own_nodes = own_nodes,
      .deals = deals,
      .batch_size = batch_size,
      .shuffle = shuffle,
      .drop_last = drop_last,
      .seed = seed,
      .sampler =
          sampler_options(std::move(fanouts), sampler, replace, layer_dependent, std::move(relation_fanouts)),
      .form = merged ? NodeLoaderOptions::Form::merged : NodeLoaderOptions::Form::blocks,
      .transposes = transposes,
      .features = features,
      .labels = labels};
  if (nodes)
    options.nodes = std::vector<NodeId>(nodes->data(), nodes->data() + nodes->size());
  else if (split)
    options.nodes = enum_value<batches::Split>(*split, "input_nodes");
  if (!chooser.is_none()) options.sampler.chooser = chooser_of(chooser);
  return options;
}

std::unique_ptr<OpenLoader> make_loader(std::shared_ptr<batches::Graph> graph,
                                        const NodeLoaderOptions& options) {
  const Device device = graph->runtime().device();
  return std::make_unique<OpenLoader>(interruptible(
      device, [graph = std::move(graph), options] { return std::make_unique<NodeLoader>(graph, options); }));
}

std::unique_ptr<NeighborSampler> make_sampler(std::shared_ptr<batches::Graph> graph, std::vector<int> fanouts,
                                              const std::string& method, bool replace, bool layer_dependent,
                                              bool transposes) {
  auto options = sampler_options(std::move(fanouts), method, replace, layer_dependent);
  options.transpose = options.input_transpose = transposes;
  const nb::gil_scoped_release guard;
  return std::make_unique<NeighborSampler>(std::move(graph), options);
}

std::shared_ptr<NodeBatch> sample(NeighborSampler& sampler, const HostIdArray& nodes, std::uint64_t seed,
                                  std::uint32_t epoch, std::uint32_t step, int hop, std::uintptr_t stream) {
  const nb::gil_scoped_release guard;
  return std::const_pointer_cast<NodeBatch>(sampler.sample({nodes.data(), nodes.size()},
                                                           {.seed = seed, .epoch = epoch, .step = step}, hop,
                                                           borrow_stream(sampler.device(), stream)));
}

/// The next batch; waits in pieces, between which Python's signal handlers run.
std::shared_ptr<NodeBatch> next(OpenLoader& open, std::uintptr_t stream) {
  Interruptible::finish_left();
  NodeLoader& loader = *open.owned;
  Interruptible::Wait wait;
  for (bool ready = false; !ready; wait.go_on()) {
    const nb::gil_scoped_release guard;
    ready = loader.wait_for(Interruptible::Wait::kPiece);
  }
  const nb::gil_scoped_release guard;
  return std::const_pointer_cast<NodeBatch>(loader.next(borrow_stream(loader.device(), stream)));
}

/// A property that is an array of the batch's memory, which the array holds.
template <typename Values, typename... Extents>
auto array_property(Values values, Extents... extents) {
  return [=](nb::handle self) {
    const auto& batch = nb::cast<const NodeBatch&>(self);
    return optional_array(std::invoke(values, batch), {std::invoke(extents, batch)...}, batch.device, self);
  };
}

/// The sizes and arrays of which strata.batches.block_of() makes a Block.
nb::tuple block_of(const sampling::Block& block, nb::handle owner) {
  const auto array = [&](const auto* values, Count size) {
    return optional_array(values, {size}, block.device, owner);
  };
  return nb::make_tuple(block.num_src, block.num_dst, array(block.indptr, block.num_dst + 1),
                        array(block.indices, block.num_edges), array(block.edge_ids, block.num_edges),
                        array(block.transposed_indptr, block.num_src + 1),
                        array(block.transposed_indices, block.num_edges));
}

nb::list blocks_of(nb::handle self) {
  nb::list blocks;
  for (const sampling::Block& block : nb::cast<const NodeBatch&>(self).sample.blocks)
    blocks.append(block_of(block, self));
  return blocks;
}

/// edge_index [2, E] of the lists of a block, on whose device it lies.
void write_edge_index(const Process& process,
                      const nb::ndarray<const Count, nb::ndim<1>, nb::c_contig>& indptr,
                      const nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig>& indices,
                      const nb::ndarray<std::int64_t, nb::ndim<2>, nb::c_contig>& edge_index,
                      std::uintptr_t stream_handle) {
  const bool on_gpu = edge_index.device_type() == nb::device::cuda::value;
  const Device device = on_gpu ? process.runtime->device() : Device{};
  const sampling::Block block{.device = device,
                              .num_dst = static_cast<Count>(indptr.size()) - 1,
                              .num_edges = static_cast<Count>(indices.size()),
                              .indptr = indptr.data(),
                              .indices = indices.data()};
  const nb::gil_scoped_release guard;
  const cuda::DeviceGuard on_device(device);
  batches::expand_edges(block, {edge_index.data(), edge_index.data() + block.num_edges},
                        borrow_stream(device, stream_handle), process.runtime->caller_pool());
}

void bind_batch(nb::module_& module) {
  nb::class_<NodeBatch>(module, "NodeBatch", "A batch, whose memory lives as long as any of its arrays.")
      .def_prop_ro("num_seeds", &NodeBatch::num_seeds)
      .def_prop_ro("num_global_seeds", [](const NodeBatch& b) { return b.num_global_seeds; })
      .def_prop_ro("loss_scale", [](const NodeBatch& b) { return b.loss_scale; })
      .def_prop_ro("step", [](const NodeBatch& b) { return b.step_in_epoch; })
      .def_prop_ro("epoch", [](const NodeBatch& b) { return b.key.epoch; })
      .def_prop_ro("num_nodes", &NodeBatch::num_nodes)
      .def_prop_ro("nodes", array_property(&NodeBatch::nodes, &NodeBatch::num_nodes))
      .def_prop_ro("original_ids", array_property(&NodeBatch::original_ids, &NodeBatch::num_nodes))
      .def_prop_ro("input_ids", array_property(&NodeBatch::input_ids, &NodeBatch::num_input_ids))
      .def_prop_ro("link_sources", array_property(&NodeBatch::link_sources, &NodeBatch::num_link_sources))
      .def_prop_ro("link_destinations",
                   array_property(&NodeBatch::link_destinations, &NodeBatch::num_link_destinations))
      .def_prop_ro("link_groups",
                   array_property(&NodeBatch::link_groups, [](const NodeBatch& b) { return b.num_links; }))
      .def_prop_ro("num_link_groups", [](const NodeBatch& b) { return b.num_link_groups; })
      .def_prop_ro("features",
                   array_property(&NodeBatch::features, &NodeBatch::num_nodes, &NodeBatch::feature_cols))
      .def_prop_ro("labels", array_property(&NodeBatch::labels, &NodeBatch::num_seeds))
      .def_prop_ro("label_sets",
                   array_property(&NodeBatch::label_sets, &NodeBatch::num_seeds, &NodeBatch::num_classes))
      .def_prop_ro("edge_index", array_property(
                                     &NodeBatch::edge_index, [](const NodeBatch&) { return Count{2}; },
                                     &NodeBatch::num_edges))
      .def_prop_ro("edge_ids", array_property(&NodeBatch::edge_ids, &NodeBatch::num_edges))
      .def_prop_ro("nodes_of_hop", &NodeBatch::nodes_of_hop)
      .def_prop_ro("edges_of_hop", &NodeBatch::edges_of_hop)
      .def_prop_ro("blocks", &blocks_of);
}

}  // namespace

void bind_loader(nb::module_& module) {
  bind_batch(module);
  nb::class_<NodeLoaderOptions>(module, "LoaderOptions")
      .def_static("make", &loader_options, nb::kw_only(), "fanouts"_a,
                  "relation_fanouts"_a = std::vector<std::vector<int>>(), "split"_a, "nodes"_a,
                  "batch_size"_a, "shuffle"_a, "drop_last"_a, "seed"_a, "sampler"_a, "replace"_a,
                  "layer_dependent"_a, "merged"_a, "features"_a, "labels"_a, "own_nodes"_a = false,
                  "deals"_a = true, "transposes"_a = false, "chooser"_a = nb::none(), "links"_a = nb::none());
  nb::class_<OpenLoader>(module, "NodeLoader", "Batches of a graph; see batches/node_loader.hpp.")
      .def_static("make", &make_loader, "graph"_a, "options"_a)
      .def_prop_ro("steps_per_epoch", [](const OpenLoader& l) { return l.owned->steps_per_epoch(); })
      .def_prop_ro("num_seeds", [](const OpenLoader& l) { return l.owned->num_seeds(); })
      .def_prop_ro("failed_draws", [](const OpenLoader& l) { return l.owned->failed_draws(); })
      .def_prop_ro("batches_made", [](const OpenLoader& l) { return l.owned->memory().batches_made; })
      .def_prop_ro("batches_held", [](const OpenLoader& l) { return l.owned->memory().batches_held; })
      .def(
          "begin",
          [](const OpenLoader& l, std::uint32_t epoch) {
            interruptible(l.owned->device(), [loader = l.owned, epoch] { loader->begin(epoch); });
          },
          "epoch"_a, "Collective, unless the nodes are the rank's own.")
      .def("next", &next, "stream"_a, "The next batch, or None after the last.")
      .def(
          "end", [](OpenLoader& l) { l.owned->end(); }, NoGil())
      .def(
          "run_on", [](OpenLoader& l, const LoadingSplit& split) { l.owned->run_on(split.sms.first); },
          "split"_a, NoGil())
      .def(
          "close",
          [](const OpenLoader& l) {
            interruptible(l.owned->device(), [loader = l.owned] { loader->close(); });
          },
          "Collective.");
  module.def("write_edge_index", &write_edge_index, "process"_a, "indptr"_a.noconvert(),
             "indices"_a.noconvert(), "edge_index"_a.noconvert(), "stream"_a,
             "The edges of a block's lists as pairs, int64 [2, E].");
  nb::class_<NeighborSampler>(module, "NeighborSampler",
                              "Blocks of any nodes; see batches/neighbor_sampler.hpp.")
      .def_static("make", &make_sampler, "graph"_a, nb::kw_only(), "fanouts"_a, "sampler"_a, "replace"_a,
                  "layer_dependent"_a, "transposes"_a)
      .def("sample", &sample, "nodes"_a, nb::kw_only(), "seed"_a, "epoch"_a, "step"_a, "hop"_a, "stream"_a);
}

}  // namespace strata::python
