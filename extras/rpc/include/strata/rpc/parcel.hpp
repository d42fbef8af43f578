// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cereal/archives/binary.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/tuple.hpp>
#include <cereal/types/unordered_map.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "strata/cuda/stream.hpp"
#include "strata/rpc/bounded_input.hpp"
#include "strata/util/error.hpp"
#include "strata/util/types.hpp"

/// The contents of calls: tensors in a list, handles in another, and the rest as one binary payload that
/// cereal writes. A struct travels if it names its fields once:
///
///     template <typename Archive> void serialize(Archive& archive) { archive(rows, name, tensors); }
namespace strata::rpc {

class Core;
class Holding;
class Room;
class GpuRoom;

/// Names an object that handles refer to.
struct ObjectId {
  int owner = -1, creator = -1;  ///< ranks
  std::uint64_t number = 0;
  auto operator<=>(const ObjectId&) const = default;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(owner, creator, number);
  }
};

/// Names a forward pass that crosses ranks; see AutogradContext.
struct ContextId {
  int creator = -1;  ///< rank; -1: no context
  std::uint64_t number = 0;
  auto operator<=>(const ContextId&) const = default;
  explicit operator bool() const { return creator >= 0; }
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(creator, number);
  }
};

/// A tensor on its way: its values in host memory, or on a GPU where it goes from GPU to GPU or stays within
/// one process.
struct TensorPiece {
  at::Tensor values;
  Device destination;
  bool requires_grad = false;
  at::Tensor source = {};  ///< on its sender, where gradients come back to; undefined without a context
  /// The room of values in memory of both; on its sender. See Options::channels.
  std::shared_ptr<Room> room = {};
  /// The way to the receiver's GPU, if it takes one; on its sender.
  std::optional<std::uint32_t> gpu_route = {};
  std::shared_ptr<GpuRoom> gpu_room = {};  ///< there, with the values; null: they go in pieces
  /// The way to a GPU that only a network joins to this one, if it takes one; on its sender.
  std::optional<std::uint32_t> network_route = {};
  /// The event after which values on a GPU that follow their message are there; on its sender.
  std::shared_ptr<const cuda::Event> made = {};
  /// Makes the receiver's current stream wait for values on a GPU.
  std::function<void(const at::Tensor& values)> wait = {};
};

/// The contents of a request or of its answer.
struct Parcel {
  std::string payload = {};
  std::vector<TensorPiece> tensors = {};
  std::vector<std::shared_ptr<Holding>> handles = {};
  ContextId context = {};  ///< that it was sent in
  std::uint64_t link = 0;  ///< its sender's number for its tensors that require gradients; 0: none
};

/// The destination of a parcel, and its kind.
struct Destination {
  int rank = 0;
  std::string function;
  bool is_answer = false;
  bool copies = false;  ///< CPU tensors may be changed as soon as they are packed
  bool as_one = false;  ///< all arguments are packed as one value, so that messages do not number them
};

/// An archive of cereal's that knows for whom it works, so that tensors and handles find their lists.
template <typename Owner, typename Archive>
class ArchiveOf : public Archive {
 public:
  template <typename Bytes>
  ArchiveOf(Owner& owner, Bytes& bytes) : Archive(bytes), owner_(owner) {}
  Owner& owner() const { return owner_; }

 private:
  Owner& owner_;
};
template <typename Owner, typename Archive>
Owner& owner_of(Archive& archive) {
  return dynamic_cast<ArchiveOf<Owner, Archive>&>(archive).owner();
}

/// Fills a parcel. CPU tensors are read until the parcel was sent, unless they are copied; tensors on a GPU
/// are copied after what the current stream has to do.
class Packing {
 public:
  Packing(Core& core, Destination destination) : core_(core), destination_(std::move(destination)) {}

  template <typename... Values>
  Parcel pack(const Values&... values) {
    std::ostringstream stream;
    ArchiveOf<Packing, cereal::BinaryOutputArchive> archive(*this, stream);
    (pack_one(archive, values), ...);
    known_.clear();
    parcel_.payload = std::move(stream).str();
    return std::move(parcel_);
  }

  /// The time for which nobody writes to a tensor on a GPU.
  enum class Unchanged : std::uint8_t { until_packed, until_sent };
  /// These return the place in the list; -1 for none.
  std::int32_t add(const at::Tensor& tensor, Unchanged unchanged = Unchanged::until_packed);
  std::int32_t add(std::shared_ptr<Holding> handle);

 private:
  bool send_on_gpu(const at::Tensor& tensor, Unchanged unchanged, TensorPiece& piece);
  bool send_by_network(const at::Tensor& tensor, Unchanged unchanged, TensorPiece& piece);
  template <typename Archive, typename Value>
  void pack_one(Archive& archive, const Value& value) {
    ++argument_;
    archive(value);
  }

  Core& core_;
  const Destination destination_;
  int argument_ = 0;
  Parcel parcel_;
  struct Known {
    at::Tensor tensor;  // kept, because another one could get the address of one that was a temporary
    std::int32_t place = 0;
  };
  std::unordered_map<const void*, Known> known_;  // the same tensor twice is one piece
};

/// Reads a parcel. Tensors for a GPU are copied there on the current stream, or it waits for them.
class Unpacking {
 public:
  explicit Unpacking(Parcel parcel) : parcel_(std::move(parcel)), unpacked_(parcel_.tensors.size()) {}

  template <typename... Values>
  std::tuple<Values...> unpack() {
    const std::string payload = std::exchange(parcel_.payload, {});
    ArchiveOf<Unpacking, BoundedInput> archive(*this, payload);
    std::tuple<Values...> values;
    try {
      std::apply([&](auto&... each) { (archive(each), ...); }, values);
    } catch (const cereal::Exception& error) {
      throw CommError(std::string("the values of a call cannot be read: ") + error.what(),
                      "All ranks must register the same functions, classes and methods.");
    }
    return values;
  }

  at::Tensor tensor(std::int32_t place);
  /// Leaves for the tensors that require gradients. After that tensor() gives what follows from them, which
  /// may be changed in place, as a leaf may not. Once, and before tensor().
  std::vector<at::Tensor> leaves();
  const std::shared_ptr<Holding>& handle(std::int32_t place) const;

 private:
  Parcel parcel_;
  std::vector<at::Tensor> unpacked_;
};

}  // namespace strata::rpc

namespace cereal {

template <typename Archive>
void save(Archive& archive, const at::Tensor& tensor) {
  archive(strata::rpc::owner_of<strata::rpc::Packing>(archive).add(tensor));
}
template <typename Archive>
void load(Archive& archive, at::Tensor& tensor) {
  std::int32_t place = -1;
  archive(place);
  tensor = strata::rpc::owner_of<strata::rpc::Unpacking>(archive).tensor(place);
}
template <typename Archive>
void serialize(Archive& archive, strata::Device& device) {
  archive(device.kind, device.index);
}

}  // namespace cereal
