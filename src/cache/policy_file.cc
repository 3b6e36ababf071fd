// SPDX-License-Identifier: Apache-2.0
#include "cache/policy_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/crc32c.h"
#include "base/records.h"
#include "base/units.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr std::string_view kMagic = "LEATPOL1";
constexpr uint32_t kFormatVersion = 1;
constexpr size_t kHeaderBytes = 16, kFixedBytes = 32, kCrcBytes = 4;
constexpr size_t kFileBytesMax =
    kHeaderBytes + kPolicyPoolsMax * (kFixedBytes + kPolicyNameBytesMax) + kCrcBytes;
constexpr const char* kName = "pools";
constexpr const char* kNewName = "pools.new";
constexpr const char* kDamagedName = "pools.bad";

std::string_view stored_name(const PoolPolicy& policy) {
  return std::string_view(policy.name).substr(0, kPolicyNameBytesMax);
}

bool decode_one(RecordReader& reader, PoolPolicies& into) {
  const PoolId id{reader.get<uint64_t>()};
  PoolPolicy policy;
  policy.quota_bytes = reader.get<uint64_t>();
  policy.ttl = std::chrono::nanoseconds(reader.get<int64_t>());
  const auto priority = reader.get<int8_t>();
  const auto pinned = reader.get<uint8_t>();
  reader.get<uint16_t>();
  const auto name_bytes = reader.get<uint32_t>();
  if (!reader.ok() || name_bytes > kPolicyNameBytesMax || priority < -1 || priority > 1 ||
      pinned > 1 || policy.ttl.count() < 0) {
    return false;
  }
  policy.priority = static_cast<Priority>(priority);
  policy.pinned = pinned == 1;
  policy.name = reader.get_text(name_bytes);
  reader.get_text(align_up(name_bytes, 8) - name_bytes);
  return reader.ok() && into.emplace(id, std::move(policy)).second;
}

}  // namespace

std::string encode_policies(const PoolPolicies& policies) {
  RecordWriter writer;
  writer.put_text(kMagic);
  writer.put(kFormatVersion);
  writer.put(static_cast<uint32_t>(policies.size()));
  for (const auto& [id, policy] : policies) {
    const std::string_view name = stored_name(policy);
    writer.put(static_cast<uint64_t>(id));
    writer.put(policy.quota_bytes);
    writer.put<int64_t>(policy.ttl.count());
    writer.put(static_cast<int8_t>(policy.priority));
    writer.put<uint8_t>(policy.pinned ? 1 : 0);
    writer.put<uint16_t>(0);
    writer.put(static_cast<uint32_t>(name.size()));
    writer.put_text(name);
    writer.pad_to(align_up(writer.size(), 8));
  }
  writer.put(crc32c(writer.span()));
  return writer.take();
}

std::optional<PoolPolicies> decode_policies(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes + kCrcBytes || bytes.size() > kFileBytesMax) return std::nullopt;
  const std::span<const std::byte> body = bytes.first(bytes.size() - kCrcBytes);
  RecordReader crc(bytes.last(kCrcBytes));
  if (crc.get<uint32_t>() != crc32c(body)) return std::nullopt;
  RecordReader reader(body);
  if (reader.get_text(kMagic.size()) != kMagic) return std::nullopt;
  if (reader.get<uint32_t>() != kFormatVersion) return std::nullopt;
  const auto count = reader.get<uint32_t>();
  if (count > kPolicyPoolsMax) return std::nullopt;
  PoolPolicies policies;
  size_t used = kHeaderBytes;
  for (uint32_t i = 0; i < count; ++i) {
    if (!decode_one(reader, policies)) return std::nullopt;
  }
  for (const auto& [id, policy] : policies) used += kFixedBytes + align_up(policy.name.size(), 8);
  if (used != body.size()) return std::nullopt;
  return policies;
}

PolicyFile::PolicyFile(std::shared_ptr<CacheDirectory> directory)
    : directory_(std::move(directory)), charge_(directory_->capacity) {}

void PolicyFile::load() {
  Disk& disk = *directory_->disk;
  Result<Buffer> aside = disk.read_file(directory_->path(kDamagedName), kFileBytesMax);
  if (aside) directory_->capacity->count(align_up(aside->size(), kPageBytes));
  Result<Buffer> content = disk.read_file(directory_->path(kName), kFileBytesMax + 1);
  if (!content && content.error().code() == StatusCode::kNotFound) return;
  if (!content) {
    // Kept under another name, as a damaged file is, before a new one replaces it.
    Result<> renamed = disk.rename(directory_->path(kName), directory_->path(kDamagedName));
    static_cast<void>(renamed);
    log::warning(
        "cache {}: cannot read the policies of its mounts, which are unknown until mounted: {}",
        directory_->options.directory, content.error().to_string());
    return;
  }
  const uint64_t pages = align_up(content->size(), kPageBytes);
  std::optional<PoolPolicies> policies = decode_policies(content->span());
  if (!policies) {
    directory_->capacity->count(pages);
    Result<> renamed = disk.rename(directory_->path(kName), directory_->path(kDamagedName));
    log::warning(
        "cache {}: {} is damaged, {}; the policies of the mounts are unknown until they are "
        "mounted",
        directory_->options.directory, kName,
        renamed ? std::string("renamed to ") + kDamagedName : renamed.error().to_string());
    return;
  }
  charge_.count(2 * pages);
  written_.assign(reinterpret_cast<const char*>(content->data()), content->size());
  for (const auto& [id, policy] : *policies) directory_->pools.get(id)->set_policy(policy);
}

void PolicyFile::set(PoolId id, bool changed) {
  {
    std::lock_guard lock(mutex_);
    in_use_.insert(id);
    if (!changed || closing_) return;
    ++changes_;
    if (saving_) return;
    saving_ = true;
  }
  directory_->spawn(save_in_background(shared_from_this()));
}

Task<> PolicyFile::save_in_background(std::shared_ptr<PolicyFile> self) {
  uint64_t tried = 0;
  for (;;) {
    {
      std::lock_guard lock(self->mutex_);
      const bool done = self->saved_changes_ == self->changes_ || tried == self->changes_;
      if (done || self->closing_) {
        self->saving_ = false;
        co_return;
      }
      tried = self->changes_;
    }
    const bool saved = co_await self->save();
    std::lock_guard lock(self->mutex_);
    if (saved) self->saved_changes_ = tried;
  }
}

Task<> PolicyFile::close() {
  bool unsaved;
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    unsaved = saved_changes_ != changes_;
  }
  if (unsaved) static_cast<void>(co_await save());
}

// Omits pools that have neither objects nor, in this run, a mount. If there are too many, pools
// without a mount are omitted first.
PoolPolicies PolicyFile::policies() const {
  std::set<PoolId> in_use;
  {
    std::lock_guard lock(mutex_);
    in_use = in_use_;
  }
  PoolPolicies kept, others;
  for (const PoolPtr& pool : directory_->pools.all()) {
    const bool mounted = in_use.contains(pool->id);
    if (!mounted && pool->capacity->used() == 0) continue;
    PoolPolicy policy = pool->policy();
    if (policy == PoolPolicy{}) continue;
    PoolPolicies& into = mounted ? kept : others;
    if (into.size() < kPolicyPoolsMax) into.emplace(pool->id, std::move(policy));
  }
  for (auto& [id, policy] : others) {
    if (kept.size() >= kPolicyPoolsMax) break;
    kept.emplace(id, std::move(policy));
  }
  return kept;
}

Task<bool> PolicyFile::save() {
  Result<Semaphore::Permit> permit = co_await write_semaphore_.acquire(
      Context::background(), 1, "the file of the pools' policies");
  if (!permit) co_return false;
  std::string content = encode_policies(policies());
  if (content == written_) co_return true;
  Result<> done = co_await write(content);
  if (done) {
    written_ = std::move(content);
    failure_logged_ = false;
  } else if (!std::exchange(failure_logged_, true)) {
    log::warning(
        "cache {}: cannot save the policies of its mounts, they may be unknown at the next "
        "start: {}",
        directory_->options.directory, done.error().to_string());
  }
  co_return done.has_value();
}

// Replaces the file atomically.
Task<Result<>> PolicyFile::write(std::string content) {
  const uint64_t bytes = 2 * align_up(content.size(), kPageBytes), charged = charge_.bytes();
  if (bytes > charged && !charge_.grow(bytes - charged)) {
    co_return error(StatusCode::kNoSpace, "the cache has no room for it");
  }
  CacheDirectory* directory = directory_.get();
  const std::shared_ptr<Disk> disk = directory->disk;
  Result<File> file = co_await directory->blocking([&]() -> Result<File> {
    LEAT_TRY(File made, disk->open(directory->path(kNewName), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    LEAT_CHECK_OK(disk->write_now(made.fd(), Bytes::copy_of(content), 0));
    return made;
  });
  if (!file) co_return Error(file.error());
  LEAT_CO_CHECK_OK(co_await disk->sync(Context::background(), file->fd()));
  co_return co_await directory->blocking([&]() -> Result<> {
    LEAT_CHECK_OK(disk->rename(directory->path(kNewName), directory->path(kName)));
    return disk->sync_directory(directory->options.directory);
  });
}

}  // namespace leat
