#pragma once
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// A NumPy array [rows, cols] f32 that all ranks fill together, each its own rows; an owner of the open file.
///
/// It is made under a temporary name and renamed by close(), so that a complete file or none has the final
/// name.
class PredictionFile {
 public:
  PredictionFile(const std::string& path, Count rows, Count cols,
                 const comm::Communicator& communicator);  ///< collective
  ~PredictionFile();
  PredictionFile(const PredictionFile&) = delete;
  PredictionFile& operator=(const PredictionFile&) = delete;

  void write_row(Count row, const float* values);  ///< buffered where rows follow each other
  void close();                                    ///< collective
  void discard();                                  ///< collective; leaves no file

 private:
  void flush();

  std::string path_, temporary_;
  const comm::Communicator& communicator_;
  Count cols_, header_bytes_ = 0;
  int fd_ = -1;
  Count pending_first_ = 0;
  std::string pending_;
};

}  // namespace strata::train
