// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "machine_graph_state.hpp"
#include "strata/store/open_graph.hpp"

namespace strata::store {

/// Where an OpenGraph comes from, and what there is of it. Sources make `state` with its manifest, machine
/// offsets and regions, the shape of the features, and the parts of the lists.
class GraphSource {
 public:
  GraphSource(const comm::Machine& machine, const LoadOptions& options)
      : machine_(machine), options_(options), state_(std::make_unique<GraphState>()) {}
  virtual ~GraphSource() = default;

  const comm::Machine& machine() const { return machine_; }
  const LoadOptions& options() const { return options_; }
  GraphState& state() { return *state_; }
  std::unique_ptr<GraphState> take_state() { return std::move(state_); }
  const plan::FeatureShape& features() const { return features_; }
  const std::vector<Count>& list_parts() const { return list_parts_; }

  /// Fills the rows of state().features. Collective over the machine.
  virtual void fill() = 0;
  virtual void finish() {}  ///< after fill(), when all is placed. Collective over the machine
  virtual void visit_indptr(Range, const std::function<void(NodeId, std::span<const Count>)>&) {}
  virtual void keep(HaloNodes) {}

 protected:
  const comm::Machine& machine_;
  LoadOptions options_;
  std::unique_ptr<GraphState> state_;
  plan::FeatureShape features_;
  std::vector<Count> list_parts_;
};

}  // namespace strata::store
