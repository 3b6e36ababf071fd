// SPDX-License-Identifier: Apache-2.0
// Scrubber: compares everything that a cache directory has on disk with its checksums, each byte
// once in a period. Wrong bytes are handled as if a reader had found them. The position of a pass
// is kept in the directory (docs/formats/cache.md), so that a restart continues it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cache/cache_directory.h"
#include "cache/files/file_store.h"
#include "cache/packed/packed_store.h"
#include "cache/scrub_limiter.h"

namespace leat {

// Progress of a pass. Parts are the 256 folders of files, then segments by their number.
struct ScrubState {
  int64_t began_ns = 0;  // since the Unix epoch
  uint64_t next_part = 0;

  std::string encode() const;
  static std::optional<ScrubState> decode(std::span<const std::byte> bytes);
};

class Scrubber {
 public:
  Scrubber(std::shared_ptr<CacheDirectory> directory, std::shared_ptr<FileStore> files,
           std::shared_ptr<PackedStore> packed)
      : directory_(std::move(directory)), files_(std::move(files)), packed_(std::move(packed)) {}

  // Makes one pass from `from_part` on. `after_part` receives the next part, and returns the state
  // to save when a save is due.
  using AfterPart = std::function<std::optional<ScrubState>(uint64_t next_part)>;
  Task<> pass(ScrubLimiter& limiter, uint64_t from_part, AfterPart after_part = nullptr);

  // Makes one pass in each period, until the directory stops.
  static Task<> run(std::shared_ptr<Scrubber> self, Clock::duration period);

 private:
  Result<std::optional<ScrubState>> load_state() const;
  Result<> save_state(const ScrubState& state) const;
  Task<> save(ScrubState state) const;
  Task<> one_period(Context until, Clock::duration period);

  const std::shared_ptr<CacheDirectory> directory_;
  const std::shared_ptr<FileStore> files_;
  const std::shared_ptr<PackedStore> packed_;
};

}  // namespace leat
