// SPDX-License-Identifier: Apache-2.0
#include "call_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

#include "core.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::rpc {
namespace {

std::string_view way_of(const TensorHead& tensor) {
  // One of the two; it is known only when the tensor has arrived.
  return tensor.way == TensorHead::Way::by_network ? "nccl or tcp" : enum_name(channel_of(tensor.way));
}

std::string first_line_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    const std::string text = thrown.what();
    return text.substr(0, text.find('\n'));
  }
}

}  // namespace

bool logs_calls() { return spdlog::should_log(spdlog::level::debug); }

std::string Cargo::text() const {
  std::vector<std::string> parts;
  for (const auto& [way, bytes] : bytes_by_way)
    parts.push_back(fmt::format("{} {}", format_bytes(static_cast<std::int64_t>(bytes)), way));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Cargo cargo_of(std::size_t payload_bytes, const std::vector<TensorHead>& tensors) {
  Cargo cargo;
  cargo.bytes_by_way[enum_name(Channel::tcp)] = payload_bytes;
  for (const TensorHead& tensor : tensors) cargo.bytes_by_way[way_of(tensor)] += bytes_of(tensor);
  return cargo;
}

Cargo cargo_of(const Parcel& parcel) {
  std::uint64_t bytes = parcel.payload.size();
  for (const TensorPiece& piece : parcel.tensors) bytes += piece.values.nbytes();
  return {{{"within the process", bytes}}};
}

void Core::note_cargo(std::uint64_t call, Cargo cargo) {
  const std::lock_guard lock(mutex_);
  if (const auto found = pending_.find(call); found != pending_.end()) found->second.cargo = std::move(cargo);
}

void Core::log_end(const Pending& call, const std::string& outcome) const {
  const auto took =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - call.begun);
  spdlog::debug("rpc: {} -> {}: {}: sent {}; {} after {} us", agent(rank()).name, agent(call.to).name,
                call.what, call.cargo.text(), outcome, took.count());
}

void Core::fail(const Pending& call, const std::exception_ptr& error) const {
  if (logs_calls()) log_end(call, fmt::format("failed ({})", first_line_of(error)));
  call.answer->fail(error);
}

void Core::succeed(const Pending& call, const Head& head, Parcel parcel) const {
  if (logs_calls()) {
    const Cargo cargo = call.to == rank() ? cargo_of(parcel) : cargo_of(parcel.payload.size(), head.tensors);
    log_end(call, fmt::format("got {}", cargo.text()));
  }
  call.answer->succeed_with(std::move(parcel));
}

}  // namespace strata::rpc
