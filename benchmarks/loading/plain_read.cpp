// SPDX-License-Identifier: Apache-2.0
#include "plain_read.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "strata/util/error.hpp"

namespace strata::benchmark {
namespace {

constexpr Count kBlockBytes = Count{4} << 20;

[[noreturn]] void fail(const std::filesystem::path& path, const char* call) {
  throw IoError(path.string() + ": " + call + " failed: " + std::strerror(errno));
}

/// Fresh pages, as malloc returns for anything large; an owner.
class Memory {
 public:
  explicit Memory(Count bytes) : bytes_(at(std::max<Count>(bytes, 1))) {
    void* data = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw OutOfMemory("no room for the plain read");
    data_ = static_cast<std::byte*>(data);
  }
  ~Memory() { ::munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace

PlainRead::PlainRead(const std::vector<std::filesystem::path>& paths) {
  files_.reserve(paths.size());
  for (const std::filesystem::path& path : paths) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail(path, "open");
    files_.push_back({path, descriptor});
    const auto size = static_cast<Count>(std::filesystem::file_size(path));
    for (Count offset = 0; offset < size; offset += kBlockBytes)
      blocks_.push_back({&files_.back(), offset, std::min(kBlockBytes, size - offset)});
    total_bytes_ += size;
  }
}

PlainRead::~PlainRead() {
  for (const File& file : files_) ::close(file.descriptor);
}

void PlainRead::read(const Block& block, std::byte* out) const {
  for (Count done = 0; done < block.bytes;) {
    const auto got = ::pread(block.file->descriptor, out + done, at(block.bytes - done), block.offset + done);
    if (got <= 0) fail(block.file->path, "read");
    done += got;
  }
}

double PlainRead::run(const comm::Machine& machine, ThreadPool& pool) const {
  const auto blocks = std::ssize(blocks_);
  const Count first = blocks * machine.rank() / machine.size(),
              end = blocks * (machine.rank() + 1) / machine.size();
  machine.barrier();
  const auto start = std::chrono::steady_clock::now();
  const Memory memory((end - first) * kBlockBytes);
  pool.parallel_for(end - first, 1, [&](Count begin, Count stop) {
    for (Count i = begin; i < stop; ++i) read(blocks_[at(first + i)], memory.data() + i * kBlockBytes);
  });
  machine.barrier();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace strata::benchmark
