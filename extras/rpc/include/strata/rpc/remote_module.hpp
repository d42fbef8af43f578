// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/rpc/agent.hpp"
#include "strata/rpc/pipeline.hpp"

/// Modules of libtorch that live on another rank.
namespace strata::rpc {

/// The common part of modules of all classes.
namespace detail {

/// "worker1/cuda:1".
struct Place {
  std::string peer;
  Device device;
};
/// Throws InputError for a text that is no place, and for a device that the peer does not have.
Place parse_place(const Agent& agent, const std::string& text);

at::Device torch_device(Device device);
/// Notes the device of the call that this thread runs, for RemoteError::device().
void note_device(at::Device device);
std::vector<Ref<at::Tensor>> handles_of(const torch::nn::Module& module);
void save(const torch::nn::Module& module, const std::string& path);
void load(torch::nn::Module& module, const std::string& path);

/// Moves an input that can be moved: a tensor, or a struct with a to(at::Device).
template <typename T>
T on_device(const T& value, at::Device device) {
  if constexpr (std::same_as<T, at::Tensor>)
    return value.defined() ? value.to(device) : value;
  else if constexpr (requires {
                       { value.to(device) } -> std::convertible_to<T>;
                     })
    return value.to(device);
  else
    return value;
}

template <typename Method>
struct ForwardOf;

}  // namespace detail

/// A module on its own rank, for a class with R forward(P...).
template <typename M, typename R, typename... P>
class HostedModule {
 public:
  HostedModule(std::shared_ptr<M> module, Device device)
      : module_(std::move(module)), device_(detail::torch_device(device)) {
    detail::note_device(device_);
    module_->to(device_);
  }

  R forward(const P&... inputs) const {
    detail::note_device(device_);
    return module_->forward(detail::on_device(inputs, device_)...);
  }
  std::vector<Ref<at::Tensor>> parameters() const { return detail::handles_of(*module_); }
  void train() const { module_->train(); }
  void eval() const { module_->eval(); }
  void save(const std::string& path) const { detail::save(*module_, path); }
  void load(const std::string& path) const { detail::load(*module_, path); }
  StageRun begin_stage() const requires std::same_as<R(P...), at::Tensor(at::Tensor)> {
    return StageRun([self = *this](const at::Tensor& x) { return self.forward(x); });
  }

 private:
  std::shared_ptr<M> module_;
  at::Device device_;
};

namespace detail {

template <typename R, typename C, typename... P>
struct ForwardOf<R (C::*)(P...)> {
  using Output = std::decay_t<R>;
  template <typename M>
  using Hosted = HostedModule<M, Output, std::decay_t<P>...>;
};
template <typename R, typename C, typename... P>
struct ForwardOf<R (C::*)(P...) const> : ForwardOf<R (C::*)(P...)> {};

template <typename M>
using Hosted = typename ForwardOf<decltype(&M::forward)>::template Hosted<M>;

/// A class, so that the address of make() names one function.
template <typename M, typename... A>
struct Maker {
  static Hosted<M> make(const Device& device, const A&... arguments) {
    return Hosted<M>(std::make_shared<M>(arguments...), device);
  }
};

}  // namespace detail

/// Lets RemoteModules of class M, a torch::nn::Module with one forward(), live on the ranks that have this
/// registry. A... are the types of its constructor's arguments.
///
///     rpc::register_module<Encoder, EncoderOptions>(registry, "Encoder");
template <typename M, typename... A>
void register_module(Registry& registry, const std::string& name) {
  using Hosted = detail::Hosted<M>;
  registry.function(name, &detail::Maker<M, A...>::make);
  registry.method(name + "::forward", &Hosted::forward).method(name + "::parameters", &Hosted::parameters);
  registry.method(name + "::train", &Hosted::train).method(name + "::eval", &Hosted::eval);
  registry.method(name + "::save", &Hosted::save).method(name + "::load", &Hosted::load);
  if constexpr (requires { &Hosted::begin_stage; })
    registry.method(name + "::begin_stage", &Hosted::begin_stage);
}

/// A module that lives on another rank, or on this one. A handle: copies name the same module, which dies
/// with the last of them.
///
///     rpc::RemoteModule<Encoder> encoder(agent, "worker1/cuda:1", EncoderOptions{.width = 256});
///     const at::Tensor h = encoder.forward(x);
///     rpc::DistributedOptimizer optimizer(agent, encoder.parameters(), {.learning_rate = 0.01});
///
/// Inputs on the CPU are moved to the module's device there, and so are structs with a to(at::Device); inputs
/// on a GPU travel by this rank's device map. The output stays where the module made it and comes back by the
/// same map. Calls may run at once on the owner: M has to allow that where they are not waited for.
template <typename M>
class RemoteModule {
  using Hosted = detail::Hosted<M>;

 public:
  using Output = typename detail::ForwardOf<decltype(&M::forward)>::Output;

  /// Makes it, without waiting, at "worker1/cuda:1", "worker1/cpu" or "worker1", which is the CPU. The
  /// arguments must have the very types that register_module() was given.
  ///
  /// Throws InputError for a place that does not exist, and for a class or types that were not registered.
  /// What M's constructor throws is thrown when the module is used.
  template <typename... A>
  RemoteModule(Agent& agent, const std::string& place, const A&... arguments)
      : RemoteModule(agent, detail::parse_place(agent, place), arguments...) {}

  template <typename... A>
  Output forward(const A&... inputs) const {
    return module_.sync(&Hosted::forward, inputs...);
  }
  template <typename... A>
  Future<Output> forward_async(const A&... inputs) const {
    return module_.async(&Hosted::forward, inputs...);
  }
  /// The output stays with the module; every holder of the handle can fetch it from there.
  template <typename... A>
  Ref<Output> forward_remote(const A&... inputs) const {
    return module_.remote(&Hosted::forward, inputs...);
  }

  std::vector<Ref<at::Tensor>> parameters() const { return module_.sync(&Hosted::parameters); }
  void train() const { module_.sync(&Hosted::train); }  ///< as torch::nn::Module::train(), eval()
  void eval() const { module_.sync(&Hosted::eval); }

  /// Parameters and buffers under their names, as a safetensors file that the owner writes or reads, on its
  /// own machine. Throws RemoteError of nn::write_tensors(), nn::read_tensors() and nn::load_weights().
  void save(const std::string& path) const { module_.sync(&Hosted::save, path); }
  void load(const std::string& path) const { module_.sync(&Hosted::load, path); }

  const Ref<Hosted>& handle() const { return module_; }
  /// The stage for pipeline(), if forward() maps a tensor to a tensor.
  Stage stage() const {
    return [module = module_] { return module.remote(&Hosted::begin_stage); };
  }

 private:
  template <typename... A>
  RemoteModule(Agent& agent, const detail::Place& place, const A&... arguments)
      : module_(agent.remote(place.peer, &detail::Maker<M, std::decay_t<A>...>::make, place.device,
                             arguments...)) {}

  Ref<Hosted> module_;
};

}  // namespace strata::rpc
