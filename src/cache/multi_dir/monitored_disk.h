// SPDX-License-Identifier: Apache-2.0
// MonitoredDisk: the Disk of one opening of a cache directory. Reports failed calls to a
// DirectoryHealth and records when calls began. After fence_off() it lets no call through.
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <type_traits>

#include "cache/multi_dir/directory_health.h"
#include "cache/multi_dir/inflight_calls.h"
#include "runtime/disk.h"

namespace leat {

class MonitoredDisk : public Disk {
 public:
  MonitoredDisk(std::shared_ptr<Disk> disk, std::shared_ptr<DirectoryHealth> health)
      : disk_(std::move(disk)), health_(std::move(health)) {}

  // A disk silent for so long must not block a caller's thread.
  static constexpr auto kSlow = std::chrono::seconds(1);
  bool is_slow() const { return calls_.stalled_for(Clock::now()) > kSlow; }
  const InflightCalls& calls() const { return calls_; }
  // From now on calls fail with kUnavailable: this opening changes nothing more in a directory that
  // may be reopened. A call in flight still takes effect; its end is not reported.
  void fence_off() { fenced_off_ = true; }

  BlockingPool& threads() override { return disk_->threads(); }
  Task<Result<size_t>> read(Context context, int fd, std::span<std::byte> into,
                            uint64_t offset) override;
  Result<> write_now(int fd, const Bytes& data, uint64_t offset) override;
  Result<size_t> read_now(int fd, std::span<std::byte> into, uint64_t offset) override;
  Result<> sync_now(int fd) override;
  std::optional<size_t> try_read(int fd, std::span<std::byte> into, uint64_t offset) override;
  bool is_cold(int fd, uint64_t offset, uint64_t size) override;
  Result<uint64_t> read_ahead(int fd, uint64_t offset, uint64_t size) override;
  Result<File> open(const std::string& path, int flags, mode_t mode) override;
  Result<> unlink(const std::string& path) override;
  Result<> rename(const std::string& from, const std::string& to) override;
  Result<> truncate(int fd, uint64_t size) override;
  Result<> make_directory(const std::string& path) override;
  Result<> sync_directory(const std::string& path) override;
  Result<std::vector<DirectoryItem>> list_directory(const std::string& path) override;
  Result<Buffer> read_file(const std::string& path, size_t bytes_max) override;
  Result<DiskUsage> usage(const std::string& path) override;

 private:
  void note_end(InflightCalls::Slot slot, const Status* failure);
  template <class Call>
  std::invoke_result_t<Call> monitored(const Call& call);

  const std::shared_ptr<Disk> disk_;
  const std::shared_ptr<DirectoryHealth> health_;
  InflightCalls calls_{Clock::now()};
  std::atomic<bool> fenced_off_ = false;
};

// Durably writes a page into the directory, reads it again and removes it. A full disk passes.
// Blocks.
Result<> probe_directory(Disk& disk, const std::string& directory);

}  // namespace leat
