// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/codec_cache.h"

#include <fmt/format.h>

#include <cstdlib>

#include "http/json_fields.h"

namespace leat {
namespace {

std::string pool_text(PoolId id) {
  return fmt::format("{:016x}", static_cast<uint64_t>(id));
}

Json pool_json(const PoolStats& pool) {
  Json json = {{"id", pool_text(pool.id)},
               {"used_bytes", pool.used_bytes},
               {"unlinked_bytes", pool.unlinked_bytes},
               {"quota_bytes", pool.policy.quota_bytes},
               {"ttl_seconds", std::chrono::duration<double>(pool.policy.ttl).count()},
               {"priority", to_string(pool.policy.priority)},
               {"pinned", pool.policy.pinned},
               {"cyclic", pool.cyclic}};
  put_bytes(json, "mount", pool.policy.name);
  return json;
}

PoolStats pool_from(const Json& json) {
  PoolStats pool{};
  std::string id, priority;
  double ttl_seconds = 0;
  get(json, "id", id);
  pool.id = PoolId{std::strtoull(id.c_str(), nullptr, 16)};
  get_bytes(json, "mount", pool.policy.name);
  get(json, "used_bytes", pool.used_bytes);
  get(json, "unlinked_bytes", pool.unlinked_bytes);
  get(json, "quota_bytes", pool.policy.quota_bytes);
  get(json, "ttl_seconds", ttl_seconds);
  pool.policy.ttl =
      std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(ttl_seconds));
  get(json, "priority", priority);
  pool.policy.priority = priority_named(priority).value_or(Priority::kNormal);
  get(json, "pinned", pool.policy.pinned);
  get(json, "cyclic", pool.cyclic);
  return pool;
}

Json stats_json(const PageStoreStats& stats) {
  return {{"capacity_bytes", stats.capacity_bytes},
          {"used_bytes", stats.used_bytes},
          {"unlinked_bytes", stats.unlinked_bytes},
          {"files", stats.files},
          {"packed_objects", stats.packed_objects},
          {"segments", stats.segments},
          {"evicted_bytes", stats.evicted_bytes},
          {"corrupt_blocks", stats.corrupt_blocks},
          {"admission_rejected_bytes", stats.rejected_bytes}};
}

PageStoreStats stats_from(const Json& json) {
  PageStoreStats stats{};
  get(json, "capacity_bytes", stats.capacity_bytes);
  get(json, "used_bytes", stats.used_bytes);
  get(json, "unlinked_bytes", stats.unlinked_bytes);
  get(json, "files", stats.files);
  get(json, "packed_objects", stats.packed_objects);
  get(json, "segments", stats.segments);
  get(json, "evicted_bytes", stats.evicted_bytes);
  get(json, "corrupt_blocks", stats.corrupt_blocks);
  get(json, "admission_rejected_bytes", stats.rejected_bytes);
  return stats;
}

DirectoryStats directory_from(const Json& json) {
  DirectoryStats directory{.path = "", .why = "", .stats = stats_from(json)};
  std::string state;
  get_bytes(json, "path", directory.path);
  get(json, "state", state);
  get(json, "why", directory.why);
  for (DirectoryState one : {DirectoryState::kUnstable, DirectoryState::kDown}) {
    if (state == to_string(one)) directory.state = one;
  }
  return directory;
}

}  // namespace

Json to_json(const CacheView& cache) {
  Json json = stats_json(cache.stats);
  json["pools"] = Json::array();
  for (const PoolStats& pool : cache.pools) json["pools"].push_back(pool_json(pool));
  json["directories"] = Json::array();
  for (const DirectoryStats& directory : cache.directories) {
    Json one = stats_json(directory.stats);
    put_bytes(one, "path", directory.path);
    one["state"] = to_string(directory.state);
    if (!directory.why.empty()) one["why"] = directory.why;
    json["directories"].push_back(std::move(one));
  }
  return json;
}

void decode(const Json& json, CacheView& cache) {
  cache.stats = stats_from(json);
  for (const Json& pool : json.value("pools", Json::array())) {
    cache.pools.push_back(pool_from(pool));
  }
  for (const Json& directory : json.value("directories", Json::array())) {
    cache.directories.push_back(directory_from(directory));
  }
}

CachedObjectView view_of(const CachedObject& object, std::string mount) {
  return {.key = object.ref.key,
          .size = object.ref.size,
          .cached_bytes = object.cached_bytes,
          .version = object.ref.version.to_string(),
          .store = object.ref.store.to_hex(),
          .pool = object.ref.pool,
          .mount = std::move(mount),
          .packed = object.packed,
          .complete = object.complete,
          .directory = object.directory};
}

Json to_json(const CachedObjectView& object) {
  Json json = {{"size", object.size},
               {"cached_bytes", object.cached_bytes},
               {"version", object.version},
               {"store", object.store},
               {"pool", pool_text(object.pool)},
               {"packed", object.packed},
               {"complete", object.complete}};
  put_bytes(json, "key", object.key);
  put_bytes(json, "mount", object.mount);
  put_bytes(json, "directory", object.directory);
  return json;
}

Json to_json(const CachedListView& list) {
  Json objects = Json::array();
  for (const CachedObjectView& object : list.objects) objects.push_back(to_json(object));
  Json json = {{"objects", objects}};
  if (!list.next.empty()) json["next"] = list.next;
  return json;
}

void decode(const Json& json, CachedListView& list) {
  for (const Json& one : json.at("objects")) {
    CachedObjectView object;
    std::string pool;
    require_bytes(one, "key", object.key);
    get(one, "size", object.size);
    get(one, "cached_bytes", object.cached_bytes);
    get(one, "version", object.version);
    get(one, "store", object.store);
    get(one, "pool", pool);
    object.pool = PoolId{std::strtoull(pool.c_str(), nullptr, 16)};
    get_bytes(one, "mount", object.mount);
    get(one, "packed", object.packed);
    get(one, "complete", object.complete);
    get_bytes(one, "directory", object.directory);
    list.objects.push_back(std::move(object));
  }
  get(json, "next", list.next);
}

Json to_json(const EvictRequest& request) {
  Json json = Json::object();
  if (!request.mount.empty()) put_bytes(json, "mount", request.mount);
  if (request.bytes) json["bytes"] = *request.bytes;
  return json;
}

void decode(const Json& json, EvictRequest& request) {
  get_bytes(json, "mount", request.mount);
  auto bytes = json.find("bytes");
  if (bytes != json.end()) request.bytes = bytes->get<uint64_t>();
}

Json to_json(const SnapshotView& snapshot) {
  Json json = {{"name", snapshot.name},
               {"created", format_time(snapshot.created)},
               {"files", snapshot.files},
               {"directories", snapshot.directories},
               {"bytes", snapshot.bytes},
               {"skipped", snapshot.skipped},
               {"file_bytes", snapshot.file_bytes},
               {"used_by", snapshot.used_by}};
  put_bytes(json, "file", snapshot.file);
  put_bytes(json, "source", snapshot.source);
  if (!snapshot.broken.empty()) json["broken"] = snapshot.broken;
  return json;
}

void decode(const Json& json, SnapshotView& snapshot) {
  snapshot.name = json.at("name").get<std::string>();
  std::string created;
  get(json, "created", created);
  if (auto time = parse_time(created)) snapshot.created = *time;
  get(json, "files", snapshot.files);
  get(json, "directories", snapshot.directories);
  get(json, "bytes", snapshot.bytes);
  get(json, "skipped", snapshot.skipped);
  get(json, "file_bytes", snapshot.file_bytes);
  get(json, "used_by", snapshot.used_by);
  get_bytes(json, "file", snapshot.file);
  get_bytes(json, "source", snapshot.source);
  get(json, "broken", snapshot.broken);
}

Json to_json(const SnapshotUse& use) {
  Json json = {{"name", use.name}};
  put_bytes(json, "path", use.path);
  return json;
}

void decode(const Json& json, SnapshotUse& use) {
  require_bytes(json, "path", use.path);
  get(json, "name", use.name);
}

Json to_json(const EvictView& view) {
  return {{"bytes", view.bytes}};
}

void decode(const Json& json, EvictView& view) {
  get(json, "bytes", view.bytes);
}

}  // namespace leat
