// SPDX-License-Identifier: Apache-2.0
// Operator commands for a host's cache, run on one directory after the other.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cache/multi_dir/multi_dir_store.h"

namespace leat {

// A position in the listing is the directory's number, a colon, and the directory's own position.
Task<Result<ObjectPage>> MultiDirStore::objects(Context context, std::string after, size_t limit) {
  size_t number = 0;
  std::string position;
  if (!after.empty()) {
    const char* end = after.data() + after.size();
    auto [colon, failed] = std::from_chars(after.data(), end, number);
    if (failed != std::errc() || colon == end || *colon != ':') {
      co_return error(StatusCode::kInvalidArgument,
                      fmt::format("'{}' is not the 'next' of an earlier page", after));
    }
    position = after.substr(colon + 1 - after.data());
  }
  ObjectPage page;
  for (; number < directories_.size() && page.objects.size() < limit; ++number) {
    LEAT_CO_CHECK_OK(context.check("listing the cache"));
    ManagedDirectory& directory = *directories_[number];
    if (directory.usable() != nullptr) {
      LEAT_CO_TRY(ObjectPage part,
                  co_await directory.objects(std::move(position), limit - page.objects.size()));
      std::ranges::move(part.objects, std::back_inserter(page.objects));
      page.next = std::move(part.next);
    }
    position.clear();
    if (!page.next.empty()) break;
  }
  if (number < directories_.size()) page.next = fmt::format("{}:{}", number, page.next);
  co_return page;
}

Task<Result<>> MultiDirStore::verify(Context context, StepListener listener) {
  Result<> first_failure;
  for (ManagedDirectory* directory : usable()) {
    Result<> verified = co_await directory->verify(context, listener);
    if (!verified && first_failure) first_failure = verified;
  }
  co_return first_failure;
}

// Evicts from each directory in proportion to its share of the used bytes.
Task<uint64_t> MultiDirStore::evict(std::optional<PoolId> pool, uint64_t bytes) {
  auto used_by = [&](const ManagedDirectory& directory) -> uint64_t {
    const DirectoryStore* store = directory.store();
    if (store == nullptr) return 0;
    if (!pool) return store->stats().used_bytes;
    for (const PoolStats& one : store->pools()) {
      if (one.id == *pool) return one.used_bytes;
    }
    return 0;
  };
  uint64_t whole = 0, freed = 0;
  for (const ManagedDirectory* directory : usable()) whole += used_by(*directory);
  bytes = std::min(bytes, whole);
  for (ManagedDirectory* directory : usable()) {
    const uint64_t used = used_by(*directory);
    if (used == 0 || freed >= bytes) continue;
    const double share = static_cast<double>(used) / static_cast<double>(whole);
    const auto part = static_cast<uint64_t>(static_cast<double>(bytes) * share) + 1;
    Result<uint64_t> went = co_await directory->evict(pool, std::min(part, used));
    freed += went.value_or(0);
  }
  co_return freed;
}

}  // namespace leat
