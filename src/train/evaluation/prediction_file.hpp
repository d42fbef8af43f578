// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// A NumPy file of an array [rows, cols] f32 that all ranks fill together, each with its own rows. An owner
/// of the open file.
///
/// It is made under a temporary name and renamed by close(), so that only a complete file gets the final
/// name. Its disk space is reserved at the start if the file system can do that.
class PredictionFile {
 public:
  /// Collective. Throws IoError on all ranks if the disk has no room, the file cannot be made, or a rank does
  /// not see the file that the first rank made.
  PredictionFile(const std::string& path, Count rows, Count cols, const comm::Communicator& communicator);
  ~PredictionFile();  ///< removes the file unless it was closed
  PredictionFile(const PredictionFile&) = delete;
  PredictionFile& operator=(const PredictionFile&) = delete;

  void write_row(Count row, const float* values);  ///< consecutive rows are buffered
  void close();                                    ///< collective; throws IoError on all ranks

 private:
  void create(const std::string& header, Count bytes, const std::string& mark);
  void open(Count bytes, const std::string& mark);
  void flush();
  void remove();

  std::string path_, temporary_;
  const comm::Communicator& communicator_;
  Count cols_, header_bytes_ = 0;
  int fd_ = -1;
  Count pending_first_ = 0;
  std::string pending_;
};

}  // namespace strata::train
