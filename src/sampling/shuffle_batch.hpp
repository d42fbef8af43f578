#pragma once
#include <cstdint>
#include <vector>

#include "strata/util/random.hpp"

namespace strata::sampling {

/// Evaluates many keyed permutations at once, with vector instructions where the processor has them.
///
/// A walk of the network is a chain of dependent multiplications: computed one by one, or node by node, it
/// waits most of the time. Here every slot of a batch of nodes is a lane; all lanes walk together, and those
/// that landed outside walk again.
class ShuffleBatch {
 public:
  /// Appends the positions 0 .. count - 1 of `shuffle`; returns the index of the first in positions().
  ///
  /// REQUIRES: count <= shuffle.size, 2 <= shuffle.size < 2^32.
  std::size_t add(const Shuffle& shuffle, int count);
  void run();  ///< computes all that was added
  void clear() { size_ = num_lanes_ = 0; }

  /// positions()[add(shuffle, n) + j] == shuffle(j) after run().
  const std::uint32_t* positions() const { return positions_.data(); }

  static constexpr std::size_t kBlock = 32;  ///< lanes that walk side by side

 private:
  /// One lane a column, an array a parameter.
  struct Lanes {
    std::vector<std::uint32_t> position, size, low_bits, low_mask, high_mask, k0, k1;

    void resize(std::size_t count);
    void copy(std::size_t to, std::size_t from);
  };
  void grow(std::size_t size);
  std::size_t settle(std::size_t num_lanes);

  static constexpr std::size_t kGroup = 16;  // lanes are filled this many at a time

  std::size_t size_ = 0;       // positions asked for
  std::size_t num_lanes_ = 0;  // those that the network computes; decks are dealt at once
  Lanes lanes_;
  std::vector<std::uint32_t> slots_;    // which position a lane computes
  std::vector<std::uint32_t> outside_;  // lanes that have to walk again
  std::vector<std::uint32_t> positions_;
};

}  // namespace strata::sampling
