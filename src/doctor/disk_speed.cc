// SPDX-License-Identifier: Apache-2.0
#include "doctor/disk_speed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "base/units.h"
#include "runtime/disk.h"

namespace leat {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kPiece = kMiB;
constexpr uint64_t kPiecesMax = 64;
constexpr size_t kSmallReads = 64;
constexpr auto kTimeEach = std::chrono::milliseconds(700);
// Below these a cache on this disk slows training down: a slow network volume, a single old disk, a
// throttled cloud disk.
constexpr double kSlowBytesPerSecond = 100e6;
constexpr double kSlowSmallReadMs = 10;

double seconds_since(Clock::time_point begun) {
  return std::max(std::chrono::duration<double>(Clock::now() - begun).count(), 1e-9);
}

}  // namespace

std::optional<DiskSpeed> measure_disk(int fd) {
  const std::string self = fmt::format("/proc/self/fd/{}", fd);
  const File direct(::open(self.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!direct) return std::nullopt;
  Buffer buffer(kPiece);
  std::ranges::fill(buffer.span(), std::byte{0x5a});
  DiskSpeed speed;
  uint64_t pieces = 0;
  const auto write_begun = Clock::now();
  while (pieces < kPiecesMax && Clock::now() - write_begun < kTimeEach) {
    const auto at = static_cast<off_t>(pieces * kPiece);
    if (::pwrite(direct.fd(), buffer.data(), kPiece, at) != ssize_t{kPiece}) return std::nullopt;
    ++pieces;
  }
  if (::fdatasync(direct.fd()) != 0) return std::nullopt;
  speed.write_bytes_per_second = static_cast<double>(pieces * kPiece) / seconds_since(write_begun);

  uint64_t read = 0;
  const auto read_begun = Clock::now();
  while (read < pieces && Clock::now() - read_begun < kTimeEach) {
    const auto at = static_cast<off_t>(read * kPiece);
    if (::pread(direct.fd(), buffer.data(), kPiece, at) != ssize_t{kPiece}) return std::nullopt;
    ++read;
  }
  speed.read_bytes_per_second = static_cast<double>(read * kPiece) / seconds_since(read_begun);

  std::vector<std::chrono::duration<double>> times;
  std::minstd_rand random(1);  // offsets, not secrets; the same in each run
  const auto small_begun = Clock::now();
  while (times.size() < kSmallReads && Clock::now() - small_begun < kTimeEach) {
    const uint64_t page = random() % (pieces * kPiece / 4096);
    const auto begun = Clock::now();
    if (::pread(direct.fd(), buffer.data(), 4096, static_cast<off_t>(page * 4096)) != 4096) {
      return std::nullopt;
    }
    times.emplace_back(Clock::now() - begun);
  }
  std::ranges::sort(times);
  speed.small_read = times[times.size() / 2];
  return speed;
}

Finding speed_finding(const std::string& directory, const DiskSpeed& speed) {
  auto rate = [](double bytes) { return format_bytes(static_cast<uint64_t>(bytes)) + "/s"; };
  const double small_ms = speed.small_read.count() * 1e3;
  Finding finding{.name = "cache.speed", .subject = directory};
  finding.what =
      fmt::format("writes {}, reads {}, 4 KiB somewhere in {:.2f} ms",
                  rate(speed.write_bytes_per_second), rate(speed.read_bytes_per_second), small_ms);
  const bool slow = speed.write_bytes_per_second < kSlowBytesPerSecond ||
                    speed.read_bytes_per_second < kSlowBytesPerSecond;
  if (!slow && small_ms < kSlowSmallReadMs) return finding;
  finding.level = Level::kNote;
  finding.what += "; this disk is slow";
  finding.cost = "cached reads come no faster than that, and a cold cache fills no faster";
  finding.action = "a local NVMe or SSD: leat mount --cache-dir DIR, or cache.directory";
  return finding;
}

}  // namespace leat
