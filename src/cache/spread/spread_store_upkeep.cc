// SPDX-License-Identifier: Apache-2.0
// What an operator asks of a host's cache: of one directory after the other.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cache/spread/spread_store.h"

namespace leat {

// A place in the listing is the directory's number, a colon, and its own word for the place.
Task<Result<ObjectPage>> SpreadStore::objects(Context context, std::string after, size_t limit) {
  size_t number = 0;
  std::string place;
  if (!after.empty()) {
    const char* end = after.data() + after.size();
    auto [colon, failed] = std::from_chars(after.data(), end, number);
    if (failed != std::errc() || colon == end || *colon != ':') {
      co_return error(StatusCode::kInvalidArgument,
                      fmt::format("'{}' is not what an earlier page named to go on with", after));
    }
    place = after.substr(colon + 1 - after.data());
  }
  ObjectPage page;
  for (; number < members_.size() && page.objects.size() < limit; ++number) {
    LEAT_CO_CHECK_OK(context.check("listing the cache"));
    if (DirectoryStore* store = members_[number]->usable()) {
      LEAT_CO_TRY(ObjectPage part,
                  co_await store->objects(std::move(place), limit - page.objects.size()));
      std::ranges::move(part.objects, std::back_inserter(page.objects));
      page.next = std::move(part.next);
    }
    place.clear();
    if (!page.next.empty()) break;
  }
  if (number < members_.size()) page.next = fmt::format("{}:{}", number, page.next);
  co_return page;
}

Task<Result<>> SpreadStore::verify(Context context, StepListener listener) {
  Result<> first_failure;
  for (DirectoryStore* store : usable()) {
    Result<> verified = co_await store->verify(context, listener);
    if (!verified && first_failure) first_failure = verified;
  }
  co_return first_failure;
}

// From each as much as it has of the whole.
Task<uint64_t> SpreadStore::evict(std::optional<PoolId> pool, uint64_t bytes) {
  auto used_by = [&](const DirectoryStore& store) -> uint64_t {
    if (!pool) return store.stats().used_bytes;
    for (const PoolStats& one : store.pools()) {
      if (one.id == *pool) return one.used_bytes;
    }
    return 0;
  };
  uint64_t whole = 0, freed = 0;
  for (const DirectoryStore* store : usable()) whole += used_by(*store);
  bytes = std::min(bytes, whole);
  for (DirectoryStore* store : usable()) {
    const uint64_t used = used_by(*store);
    if (used == 0 || freed >= bytes) continue;
    const double share = static_cast<double>(used) / static_cast<double>(whole);
    const auto part = static_cast<uint64_t>(static_cast<double>(bytes) * share) + 1;
    freed += co_await store->evict(pool, std::min(part, used));
  }
  co_return freed;
}

}  // namespace leat
