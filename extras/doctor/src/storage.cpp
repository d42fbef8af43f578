// SPDX-License-Identifier: Apache-2.0
#include "storage.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::doctor {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlock = std::size_t{4} << 20;

/// An open file; an owner.
class File {
 public:
  explicit File(const fs::path& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT)) {
    direct_ = fd_ >= 0;
    if (!direct_) fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) throw IoError(fmt::format("{} cannot be opened", path.string()));
    if (!direct_) (void)posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool direct() const { return direct_; }
  ssize_t read(void* to, off_t offset) const { return pread(fd_, to, kBlock, offset); }

 private:
  int fd_;
  bool direct_ = false;
};

std::string digest_of(const graph::PartitionRecord& record) {
  const std::string text = graph::format_manifest(record);
  return hex64(hash_bytes(text.data(), text.size()));
}

}  // namespace

StorageFacts look_at_parts(const std::string& folder) {
  StorageFacts facts;
  try {
    const graph::PartitionRecord record = graph::read_partition_record(folder);
    facts.build_id = record.manifest.build_id;
    facts.digest = digest_of(record);
    for (const graph::PartRecord& part : record.parts) {
      const fs::path path = fs::path(folder) / part.file;
      std::error_code failed;
      const auto bytes = static_cast<std::int64_t>(fs::file_size(path, failed));
      if (failed) throw InputError(fmt::format("{}: {}", path.string(), failed.message()));
      if (bytes != part.bytes)
        throw InputError(
            fmt::format("{} has {} bytes; the manifest says {}", path.string(), bytes, part.bytes));
      facts.part_bytes += bytes;
    }
  } catch (const Error& error) {
    facts.error = error.what();
  }
  return facts;
}

ReadRate read_parts(const std::string& folder, std::chrono::milliseconds duration) {
  constexpr std::size_t kPage = 4096;
  const graph::PartitionRecord record = graph::read_partition_record(folder);
  // O_DIRECT wants whole pages.
  std::vector<std::byte> memory(kBlock + kPage);
  void* block = memory.data();
  std::size_t room = memory.size();
  std::align(kPage, kBlock, block, room);
  std::minstd_rand random(std::random_device{}());
  ReadRate rate{.direct = true};
  std::int64_t bytes = 0;
  const auto begin = Clock::now();
  while (Clock::now() - begin < duration) {
    const graph::PartRecord& part = record.parts[random() % record.parts.size()];
    const File file(fs::path(folder) / part.file);
    const std::int64_t blocks = part.bytes / static_cast<std::int64_t>(kBlock) + 1;
    const auto offset = static_cast<off_t>(random() % static_cast<std::uint64_t>(blocks) * kBlock);
    const ssize_t read = file.read(block, offset);
    if (read < 0) throw IoError(fmt::format("{}/{} cannot be read", folder, part.file));
    if (read == 0 && part.bytes == 0) break;
    rate.direct = rate.direct && file.direct();
    bytes += read;
  }
  rate.bytes_per_second =
      static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - begin).count();
  return rate;
}

OutputFacts look_at_output(const std::string& folder) {
  std::error_code failed;
  fs::path path = fs::absolute(folder.empty() ? fs::path(".") : fs::path(folder), failed);
  std::string obstacle;
  while (!fs::is_directory(path, failed) && path.has_parent_path() && path != path.parent_path()) {
    if (fs::exists(path, failed)) obstacle = path.lexically_normal().string();
    path = path.parent_path();
  }
  return {.folder = path.lexically_normal().string(),
          .writable = can_write_file(path / "strata-doctor"),
          .free_bytes = free_disk_bytes(path),
          .obstacle = obstacle};
}

}  // namespace strata::doctor
