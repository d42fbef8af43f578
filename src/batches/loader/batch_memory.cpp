// SPDX-License-Identifier: Apache-2.0
#include "loader/batch_memory.hpp"

#include <exception>
#include <utility>

#include "strata/cuda/device.hpp"

namespace strata::batches {

struct BatchMemory::Returned {
  explicit Returned(Device d) : device(d) {}
  const Device device;
  std::mutex mutex;
  std::vector<std::unique_ptr<BatchPiece>> pieces;
  Count made = 0, held = 0;
  bool closed = false;

  /// A batch may go when its process ends, and CUDA with it; its memory then goes, too.
  void put_back(std::unique_ptr<BatchPiece> piece) noexcept {
    try {
      const cuda::DeviceGuard guard(device);
      piece->read.record(piece->stream);
      const std::lock_guard lock(mutex);
      --held;
      if (!closed) pieces.push_back(std::move(piece));
    } catch (const std::exception&) {
      piece.reset();
    }
  }
};

BatchMemory::BatchMemory(Device device) : returned_(std::make_shared<Returned>(device)) {}

BatchMemory::~BatchMemory() {
  const std::lock_guard lock(returned_->mutex);
  returned_->closed = true;
  returned_->pieces.clear();
}

std::shared_ptr<BatchPiece> BatchMemory::take(const cuda::Stream& stream) {
  std::unique_ptr<BatchPiece> piece;
  {
    const std::lock_guard lock(returned_->mutex);
    ++returned_->held;
    if (returned_->pieces.empty()) {
      ++returned_->made;
    } else {
      piece = std::move(returned_->pieces.back());
      returned_->pieces.pop_back();
    }
  }
  if (!piece) {
    piece = std::make_unique<BatchPiece>();
    piece->read = cuda::Event(returned_->device);
  } else {
    stream.wait(piece->read);
  }
  piece->stream = cuda::Stream::borrow(stream.device(), stream.get());
  return {piece.release(), [returned = returned_](BatchPiece* gone) {
            returned->put_back(std::unique_ptr<BatchPiece>(gone));
          }};
}

Count BatchMemory::made() const {
  const std::lock_guard lock(returned_->mutex);
  return returned_->made;
}
Count BatchMemory::held() const {
  const std::lock_guard lock(returned_->mutex);
  return returned_->held;
}

}  // namespace strata::batches
