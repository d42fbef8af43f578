// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/batches/graph.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::batches {

/// How an update changes the rows that have a gradient, and the state that it keeps of each row.
enum class RowOptimizer : std::uint8_t {
  sgd,              ///< no state
  rowwise_adagrad,  ///< one sum of squares per row, of their mean over columns
  adagrad,          ///< a sum of squares per element
  adam,             ///< lazy: two moments per element, which change only with the row
};

enum class RowPlacement : std::uint8_t {
  automatic,  ///< striped where that leaves half of the free memory of GPUs, else host
  striped,    ///< in the memory of the machine's GPUs, a share on each
  host,       ///< in host memory of the machine, which GPUs read and write in place
};

struct EmbeddingOptions {
  std::string name = "embedding";  ///< for messages
  Count rows = 0, cols = 0;
  RowOptimizer optimizer = RowOptimizer::adam;
  RowPlacement placement = RowPlacement::automatic;
  /// [machines + 1] ids whose rows each machine has; empty: shares by the numbers of ranks.
  std::vector<NodeId> machine_offsets = {};
};

/// The scalars of one update.
struct RowUpdate {
  double rate = 0.01;
  double beta1 = 0.9, beta2 = 0.999;  ///< adam
  double epsilon = 1e-8;              ///< adam and both adagrads
  double scale = 1;                   ///< factor of the summed gradients
};

/// A table of rows that are learned, and the state of their optimizer; all ranks of the runtime hold it
/// together. An owner.
///
/// Rows and state are f32 ChunkTensors of one layout. A machine has the rows of a range of ids, and deals
/// them in blocks of 64 among its ranks; a rank updates its own rows where they lie. With two ranks:
///
///     ids        0..63  64..127  128..191  192..199
///     rank          0         1         0         1
///
/// Calls marked collective are made by all ranks in the same order, by those without ids, too. Ids and rows
/// lie on the runtime's device; an id that is no row's is ignored, and read as zeros. For one caller at a
/// time, on one stream or on streams that wait for each other.
class Embedding {
 public:
  /// Allocates; rows and state are undefined until initialize(). Collective. Throws InputError for values out
  /// of range and for stripes where not every rank of a machine has a GPU of its own, OutOfMemory where
  /// memory does not suffice.
  Embedding(std::shared_ptr<Runtime> runtime, const EmbeddingOptions& options);
  ~Embedding();
  Embedding(const Embedding&) = delete;
  Embedding& operator=(const Embedding&) = delete;

  const EmbeddingOptions& options() const;
  bool is_striped() const;  ///< else in host memory; of this rank's machine
  /// The tensors, of which the first is "weight"; the others are the state, as torch's optimizers call it.
  struct Part {
    std::string name;
    Count cols;
  };
  const std::vector<Part>& parts() const;
  Count updates() const;  ///< update()s, which Adam's bias correction counts
  void set_updates(Count updates);

  /// Weights uniform in [-bound, bound], keyed by seed, id and column: the same on any ranks. State and the
  /// number of updates become 0. Collective.
  void initialize(std::uint64_t seed, double bound);

  /// out[i] = row ids[i] of a part, [count, cols] f32. Asynchronous on a GPU; on several machines collective,
  /// and then it waits for other ranks.
  void gather(int part, const NodeId* ids, Count count, float* out, const cuda::Stream& stream);

  /// row ids[i] = rows[i]; of an id that is given several times the last one counts, of ranks the highest.
  /// Collective; all ranks read the new rows from then on.
  void write(int part, const NodeId* ids, Count count, const float* rows, const cuda::Stream& stream);

  /// Updates the rows of `ids` by the sums of their gradients, [count, cols]: those of one rank in an order
  /// that follows from the list, then those of ranks in theirs. Collective, with the same scalars on all
  /// ranks; all ranks read the new rows from then on. One rank alone enqueues its work on `stream` and waits
  /// for nothing.
  void update(const NodeId* ids, Count count, const float* gradients, const RowUpdate& scalars,
              const cuda::Stream& stream);

  void close();  ///< collective; before the runtime's

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::batches

namespace strata {

template <>
inline constexpr auto enum_names<batches::RowOptimizer> = std::to_array<EnumName<batches::RowOptimizer>>(
    {{batches::RowOptimizer::sgd, "sgd"},
     {batches::RowOptimizer::rowwise_adagrad, "rowwise_adagrad"},
     {batches::RowOptimizer::adagrad, "adagrad"},
     {batches::RowOptimizer::adam, "adam"}});

template <>
inline constexpr auto enum_names<batches::RowPlacement> =
    std::to_array<EnumName<batches::RowPlacement>>({{batches::RowPlacement::automatic, "auto"},
                                                    {batches::RowPlacement::striped, "striped"},
                                                    {batches::RowPlacement::host, "host"}});

}  // namespace strata
