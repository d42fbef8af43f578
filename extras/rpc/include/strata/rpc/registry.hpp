// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>

#include "strata/rpc/parcel.hpp"

namespace strata::rpc {

/// A value of any type that handles refer to.
struct Object {
  std::shared_ptr<void> value;
  std::type_index type = typeid(void);
  Parcel (*pack)(const void* value, Packing& packing) = nullptr;  ///< null if it cannot travel
};

/// Whether a result of this type can be sent. One that cannot stays where it was made, behind a handle.
template <typename T>
inline constexpr bool kTravels =
    cereal::traits::is_output_serializable<T, cereal::BinaryOutputArchive>::value;

/// Makes an Object of a value.
template <typename T>
Object object_of(std::shared_ptr<T> value) {
  Object object{.value = value, .type = typeid(T)};
  if constexpr (kTravels<T>)
    object.pack = [](const void* kept, Packing& packing) {
      return packing.pack(*static_cast<const T*>(kept));
    };
  return object;
}

/// The functions, classes and methods that other ranks may call, each by a name. All ranks of a run make the
/// same one, usually in one function that main calls:
///
///     rpc::Registry registry;
///     registry.function("add", &add);
///     registry.constructor<Shard, Device>("Shard");
///     registry.method("Shard::forward", &Shard::forward);
///
/// Arguments and results are values: numbers, strings, vectors, maps, tuples, optionals, devices, tensors,
/// handles, and structs of them. A result may be anything else if callers keep it where it is, with remote().
/// A value.
class Registry {
 public:
  /// The functions behind a name on its rank.
  struct Entry {
    /// null: what it makes cannot travel
    std::function<Parcel(void* self, Unpacking& arguments, Packing& answer)> answer;
    std::function<Object(void* self, Unpacking& arguments)> keep;  ///< null: returns nothing
  };

  /// Throws InputError if the name is taken, here and below.
  template <typename R, typename... A>
  Registry& function(const std::string& name, R (*function)(A...)) {
    return add(name, function, entry<R, A...>([function](void*, auto&&... arguments) -> R {
                 return function(std::forward<decltype(arguments)>(arguments)...);
               }));
  }
  template <typename T, typename... A>
  Registry& constructor(const std::string& name) {
    Entry entry;
    entry.keep = [](void*, Unpacking& packed) {
      auto arguments = packed.unpack<std::decay_t<A>...>();
      return std::apply([](auto&... each) { return object_of(std::make_shared<T>(std::move(each)...)); },
                        arguments);
    };
    return add(name, &typeid(T), std::move(entry));
  }
  template <typename T, typename R, typename... A>
  Registry& method(const std::string& name, R (T::*method)(A...)) {
    return add(name, method, method_entry<T, R, A...>(method));
  }
  template <typename T, typename R, typename... A>
  Registry& method(const std::string& name, R (T::*method)(A...) const) {
    return add(name, method, method_entry<T, R, A...>(method));
  }

  /// Sets a translator for exceptions of other languages: it gets what a call threw on this rank, and throws
  /// the RemoteError for the caller, with rank -1 for this rank; or returns, if it does not know the
  /// exception.
  Registry& exception_translator(std::function<void(const std::exception_ptr& thrown)> translate) {
    translate_ = std::move(translate);
    return *this;
  }
  std::exception_ptr translated(std::exception_ptr thrown) const;

  /// Throws InputError with the nearest name.
  const Entry& at(const std::string& name) const;

  /// The name that this function or method was registered by. Throws InputError if it was not.
  template <typename Callable>
  const std::string& name_of(Callable callable) const {
    return find_name(typeid(Callable), bytes_of(callable));
  }
  /// The name of the class's constructor.
  template <typename T>
  const std::string& name_of_class() const {
    return name_of(&typeid(T));
  }

 private:
  using Key = std::pair<std::type_index, std::string>;

  // Pointers to members cannot be ordered; their bytes can.
  template <typename Callable>
  static std::string bytes_of(const Callable& callable) {
    static_assert(std::is_trivially_copyable_v<Callable>);
    std::string bytes(sizeof(Callable), '\0');
    std::memcpy(bytes.data(), &callable, sizeof(Callable));
    return bytes;
  }

  template <typename R, typename... A, typename Call>
  static Entry entry(Call call) {
    Entry entry;
    if constexpr (std::is_void_v<R> || kTravels<std::decay_t<R>>) {
      entry.answer = [call](void* self, Unpacking& packed, Packing& answer) {
        auto arguments = packed.unpack<std::decay_t<A>...>();
        return std::apply(
            [&](auto&... each) {
              if constexpr (std::is_void_v<R>) {
                call(self, std::move(each)...);
                return Parcel{};
              } else {
                return answer.pack(call(self, std::move(each)...));
              }
            },
            arguments);
      };
    }
    if constexpr (!std::is_void_v<R>) {
      entry.keep = [call](void* self, Unpacking& packed) {
        auto arguments = packed.unpack<std::decay_t<A>...>();
        return std::apply(
            [&](auto&... each) {
              return object_of(std::make_shared<std::decay_t<R>>(call(self, std::move(each)...)));
            },
            arguments);
      };
    }
    return entry;
  }
  template <typename T, typename R, typename... A, typename Method>
  static Entry method_entry(Method method) {
    return entry<R, A...>([method](void* self, auto&&... arguments) -> R {
      return (static_cast<T*>(self)->*method)(std::forward<decltype(arguments)>(arguments)...);
    });
  }

  template <typename Callable>
  Registry& add(const std::string& name, Callable callable, Entry entry) {
    insert(name, {typeid(Callable), bytes_of(callable)}, std::move(entry));
    return *this;
  }
  void insert(const std::string& name, Key key, Entry entry);
  const std::string& find_name(std::type_index type, const std::string& bytes) const;

  std::map<std::string, Entry> entries_;
  std::map<Key, std::string> names_;
  std::function<void(const std::exception_ptr&)> translate_;
};

}  // namespace strata::rpc
