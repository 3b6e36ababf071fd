// SPDX-License-Identifier: Apache-2.0
#include "cache/evictor.h"

#include "telemetry/log.h"

namespace leat {

void Evictor::start() {
  if (directory_->closing || running_.exchange(true)) return;
  directory_->spawn(run_in_background(shared_from_this()));
}

Task<> Evictor::run_in_background(std::shared_ptr<Evictor> self) {
  bool again = true;
  while (again) {
    bool progress = co_await self->run();
    self->running_ = false;
    // Whoever asked between the end of the run and here was turned away.
    again = progress && self->directory_->capacity->pressed() && !self->running_.exchange(true);
  }
}

Task<bool> Evictor::run() {
  co_await look_at_free_space();
  Capacity& capacity = *directory_->capacity;
  // Counted here and not read from the capacity: what is unlinked but held is given back later.
  const uint64_t wanted = capacity.excess();
  uint64_t freed = 0;
  while (freed < wanted && !directory_->closing) {
    uint64_t bytes = co_await evict_one();
    if (bytes == 0) break;
    freed += bytes;
  }
  capacity.eviction_ran();
  co_return freed > 0;
}

Task<> Evictor::look_at_free_space() {
  CacheDirectory* directory = directory_.get();
  Result<DiskUsage> usage = co_await directory->executor.blocking(
      [directory] { return directory->disk->usage(directory->options.directory); });
  if (!usage) {
    log::warning("cache {}: {}", directory->options.directory, usage.error().to_string());
    co_return;
  }
  directory->capacity->set_room(static_cast<int64_t>(usage->free_bytes) -
                                static_cast<int64_t>(directory->options.free_bytes_min));
}

Task<uint64_t> Evictor::evict_one() {
  auto file_birth = files_->oldest_birth();
  auto segment_birth = packed_->oldest_birth();
  bool files_first = file_birth && (!segment_birth || *file_birth <= *segment_birth);
  if (files_first) {
    uint64_t bytes = co_await files_->evict_one();
    if (bytes > 0) co_return bytes;
  }
  uint64_t bytes = co_await packed_->evict_one();
  if (bytes == 0 && !files_first) bytes = co_await files_->evict_one();
  co_return bytes;
}

}  // namespace leat
