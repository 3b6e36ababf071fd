// SPDX-License-Identifier: Apache-2.0
// Scrubber: compares everything that a cache directory holds on its disk with its checksums, over
// and over, slowly: each byte once in a period. What is wrong goes, as if a reader had found it.
// Where a pass is, is kept in the directory (docs/formats/cache.md), so that restarts do not begin
// anew.
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
#include "cache/upkeep/scrub_pace.h"

namespace leat {

// How far a pass is. Parts are the 256 folders of files, then segments by their number.
struct ScrubState {
  int64_t began_ns = 0;  // since the epoch
  uint64_t next_part = 0;

  std::string encode() const;
  static std::optional<ScrubState> decode(std::span<const std::byte> bytes);
};

class Scrubber {
 public:
  Scrubber(std::shared_ptr<CacheDirectory> directory, std::shared_ptr<FileStore> files,
           std::shared_ptr<PackedStore> packed)
      : directory_(std::move(directory)), files_(std::move(files)), packed_(std::move(packed)) {}

  // Everything once, from that part on. `after_part` is told the part that would be next, and says
  // what is to be kept of the pass where it is time for that.
  using AfterPart = std::function<std::optional<ScrubState>(uint64_t next_part)>;
  Task<> pass(ScrubPace& pace, uint64_t from_part, AfterPart after_part = nullptr);

  // Passes, one in each period, until the directory stops.
  static Task<> keep_scrubbing(std::shared_ptr<Scrubber> self, Clock::duration period);

 private:
  Result<std::optional<ScrubState>> load_state() const;
  Result<> save_state(const ScrubState& state) const;
  Task<> keep(ScrubState state) const;
  Task<> one_period(Context until, Clock::duration period);

  const std::shared_ptr<CacheDirectory> directory_;
  const std::shared_ptr<FileStore> files_;
  const std::shared_ptr<PackedStore> packed_;
};

}  // namespace leat
