// SPDX-License-Identifier: Apache-2.0
#include "cache/directory/scrubber.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/crc32c.h"
#include "base/records.h"
#include "base/units.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

constexpr std::string_view kMagic = "LEATSCR1";
constexpr size_t kStateBytes = 32, kCrcOffset = 28;
constexpr uint64_t kFolders = 256;
// Lower limit, bytes a second, for a small cache.
constexpr uint64_t kRateMin = 256 << 10;
constexpr auto kSaveEvery = std::chrono::minutes(1);
// Pause before a directory without work is checked again.
constexpr Clock::duration kShortestPeriod = std::chrono::milliseconds(100);

Counter scrubbed_total("leat_cache_scrubbed_bytes_total",
                       "Cached bytes verified against their checksums in the background");

}  // namespace

std::string ScrubState::encode() const {
  RecordWriter writer;
  writer.put_text(kMagic);
  writer.put(began_ns);
  writer.put(next_part);
  writer.pad_to(kCrcOffset);
  writer.put(crc32c(writer.span()));
  return writer.take();
}

std::optional<ScrubState> ScrubState::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != kStateBytes) return std::nullopt;
  RecordReader reader(bytes);
  if (reader.get_text(kMagic.size()) != kMagic) return std::nullopt;
  ScrubState state;
  state.began_ns = reader.get<int64_t>();
  state.next_part = reader.get<uint64_t>();
  uint32_t crc;
  std::memcpy(&crc, bytes.data() + kCrcOffset, sizeof crc);
  if (crc != crc32c(bytes.first(kCrcOffset))) return std::nullopt;
  return state;
}

Task<> Scrubber::pass(ScrubLimiter& limiter, uint64_t from_part, AfterPart after_part) {
  const auto state_to_save = [&](uint64_t next_part) {
    return after_part && !limiter.ended() ? after_part(next_part) : std::nullopt;
  };
  for (uint64_t folder = from_part; folder < kFolders && !limiter.ended(); ++folder) {
    co_await files_->scrub(static_cast<uint8_t>(folder), limiter);
    if (std::optional<ScrubState> state = state_to_save(folder + 1)) co_await save(*state);
  }
  uint64_t at = std::max(from_part, kFolders) - kFolders;
  while (!limiter.ended()) {
    std::optional<uint32_t> sequence = packed_->segment_from(at);
    if (!sequence) break;
    co_await packed_->scrub(*sequence, limiter);
    at = uint64_t{*sequence} + 1;
    if (std::optional<ScrubState> state = state_to_save(kFolders + at)) co_await save(*state);
  }
}

Result<std::optional<ScrubState>> Scrubber::load_state() const {
  LEAT_TRY(Buffer content, directory_->disk->read_file(directory_->path("scrub"), kStateBytes + 1));
  return ScrubState::decode(content.span());
}

Result<> Scrubber::save_state(const ScrubState& state) const {
  Disk& disk = *directory_->disk;
  LEAT_TRY(File file, disk.open(directory_->path("scrub.new"), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  LEAT_CHECK_OK(disk.write_now(file.fd(), Bytes::copy_of(state.encode()), 0));
  return disk.rename(directory_->path("scrub.new"), directory_->path("scrub"));
}

// If this fails, the next start begins a new pass.
Task<> Scrubber::save(ScrubState state) const {
  Result<> saved = co_await directory_->blocking([&] { return save_state(state); });
  static_cast<void>(saved);
}

Task<> Scrubber::run(std::shared_ptr<Scrubber> self, Clock::duration period) {
  const Context until = Context::background().with_cancel(self->directory_->stopping.get_token());
  period = std::max(period, kShortestPeriod);
  while (!until.cancelled()) co_await self->one_period(until, period);
}

Task<> Scrubber::one_period(Context until, Clock::duration period) {
  Result<std::optional<ScrubState>> read =
      co_await directory_->blocking([this] { return load_state(); });
  const std::optional<ScrubState> found = read ? *read : std::nullopt;
  const int64_t now = birth_now_ns(), period_ns = std::chrono::nanoseconds(period).count();
  ScrubState state = found.value_or(ScrubState{});
  // The pass is done, its clock was wrong, or it is so old that all of it is due again.
  const bool over = state.began_ns > now || now - state.began_ns >= period_ns;
  if (!found || over) state = {.began_ns = now, .next_part = 0};

  const uint64_t used = directory_->capacity->used(), corrupt_before = directory_->corrupt_blocks;
  const double seconds = std::chrono::duration<double>(period).count();
  const auto share = static_cast<uint64_t>(static_cast<double>(used) / seconds);
  // A tenth faster than needed, for bytes that arrive meanwhile.
  ScrubLimiter limiter(until, directory_->closing, std::max(kRateMin, share + share / 10));
  Clock::time_point saved_at = Clock::now();
  uint64_t counted = 0;
  auto after_part = [&](uint64_t next) -> std::optional<ScrubState> {
    state.next_part = next;
    scrubbed_total.add(limiter.bytes() - std::exchange(counted, limiter.bytes()));
    if (Clock::now() - saved_at < kSaveEvery) return std::nullopt;
    saved_at = Clock::now();
    return state;  // one page, once a minute
  };
  co_await pass(limiter, state.next_part, after_part);
  if (!until.cancelled()) state.next_part = UINT64_MAX;
  co_await save(state);
  const uint64_t corrupt = directory_->corrupt_blocks - corrupt_before;
  if (corrupt > 0) {
    log::warning("cache {}: {} blocks were dropped during the last scrub; the disk may be failing",
                 directory_->options.directory, corrupt);
  }
  if (until.cancelled()) co_return;
  const auto rest = std::chrono::nanoseconds(state.began_ns + period_ns - birth_now_ns());
  Result<> waited =
      co_await sleep_for(until, std::clamp<Clock::duration>(rest, kShortestPeriod, period));
  static_cast<void>(waited);
}

}  // namespace leat
