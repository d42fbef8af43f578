#pragma once
#include <string>

#include "strata/cuda/runtime.hpp"
#include "strata/train/batch_loader.hpp"

namespace strata::train {

/// What --sm-split asks for.
struct SmSplitRequest {
  enum class Kind : std::uint8_t { automatic, off, given };
  Kind kind = Kind::automatic;
  cuda::SmShares shares = {};  ///< given: of loading, and of training
};

/// "auto", "off", or "LOAD,TRAIN" in percent. Throws InputError.
SmSplitRequest parse_sm_split(const std::string& text);

/// "10,90"; "off" where both have all.
std::string name_of(const cuda::SmShares& shares);

/// On which SMs of a GPU the stages run: at first all on all. An owner of what libtorch uses as its stream.
class StageSms {
 public:
  StageSms(Device device, BatchLoader& loader);
  ~StageSms();  ///< libtorch has its own stream again
  StageSms(const StageSms&) = delete;
  StageSms& operator=(const StageSms&) = delete;

  /// REQUIRES: the loader is between epochs, and no recorded step is replayed again. Waits for the GPU.
  /// Throws CudaError as split_sms.
  void move_to(const cuda::SmShares& shares);

  const cuda::Stream& stream() const { return stream_; }  ///< of training: libtorch's current one
  /// "loading on 16 of 132 SMs, training on 116".
  std::string describe() const;

 private:
  Device device_;
  BatchLoader& loader_;
  cuda::SmSplit split_;
  cuda::Stream whole_;   // libtorch's, of all SMs
  cuda::Stream stream_;  // whole_, or one of ours
};

}  // namespace strata::train
