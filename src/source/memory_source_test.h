// SPDX-License-Identifier: Apache-2.0
// MemorySource: a bucket in memory that keeps the contract of Source, for tests of other modules.
// It counts requests, can block reads, fail on demand and lie. Thread-safe.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/shared_promise.h"
#include "source/source.h"

namespace leat::testing {

class MemorySource : public Source {
 public:
  // How a lying store answers the next reads.
  enum class Lie {
    kNone,
    kFlipBit,        // success, but the first byte is wrong
    kIgnoreVersion,  // serves the present object, whatever version was demanded
  };

  explicit MemorySource(std::string bucket = "bucket", size_t page_entries = 1000)
      : id_(make_store_id("memory", "", "", bucket)),
        name_("memory://" + bucket),
        page_entries_(page_entries) {
    capabilities_ = {.conditional_read = true,
                     .writes = true,
                     .write_if_absent = true,
                     .write_if_version = true,
                     .copies = true,
                     .renames = true,
                     .removes_max = 1000};
  }

  // Each put gives the object a new etag and an mtime one second after the last put.
  Version put(std::string key, std::string content) {
    std::lock_guard lock(mutex_);
    return put_locked(std::move(key), std::move(content)).version;
  }
  // Returns whether there was one.
  using Source::remove;
  bool remove(const std::string& key) {
    std::lock_guard lock(mutex_);
    return objects_.erase(key) > 0;
  }
  size_t object_count() const {
    std::lock_guard lock(mutex_);
    return objects_.size();
  }

  // Requests since the start, with failed and cancelled ones; bytes of successful reads.
  uint64_t stats() const { return stats_; }
  uint64_t lists() const { return lists_; }
  uint64_t reads() const { return reads_; }
  uint64_t changes() const { return changes_; }
  uint64_t read_bytes() const { return read_bytes_; }
  // Bytes of whole objects and parts; copied parts do not count.
  uint64_t written_bytes() const { return written_bytes_; }
  // Reads that are blocked now.
  uint64_t blocked_reads() const { return blocked_reads_; }

  // From now on reads block, after being counted, until release_reads(), their deadline or their
  // cancellation. A blocked read returns the content at its release.
  void block_reads() {
    std::lock_guard lock(mutex_);
    if (!gate_) gate_ = SharedPromise<bool>::make();
  }
  void release_reads() {
    std::shared_ptr<SharedPromise<bool>> gate;
    {
      std::lock_guard lock(mutex_);
      gate.swap(gate_);
    }
    if (gate) gate->set(true);
  }

  // The next `count` requests of any kind fail with `code`.
  void fail_next(StatusCode code, int count) {
    std::lock_guard lock(mutex_);
    fail_code_ = code;
    fail_count_ = count;
  }
  void lie(Lie lie) {
    std::lock_guard lock(mutex_);
    lie_ = lie;
  }

  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return name_; }
  const SourceCapabilities& capabilities() const override { return capabilities_; }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override {
    ++stats_;
    if (auto alive = context.check("stat"); !alive) co_return Error(alive.error());
    co_return stat_now(request.key);
  }

  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    ++lists_;
    if (auto alive = context.check("list"); !alive) co_return Error(alive.error());
    co_return list_now(request);
  }

  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    ++reads_;
    if (auto alive = context.check("read"); !alive) co_return alive;
    std::shared_ptr<SharedPromise<bool>> gate = current_gate();
    if (gate) {
      ++blocked_reads_;
      Result<bool> released = co_await gate->wait(context, "a blocked read");
      --blocked_reads_;
      if (!released) co_return Error(released.error());
    }
    co_return read_now(request, into);
  }

  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override {
    ++changes_;
    if (auto alive = context.check("write"); !alive) co_return Error(alive.error());
    written_bytes_ += content.size();
    co_return write_now(request, {reinterpret_cast<const char*>(content.data()), content.size()});
  }
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override {
    return std::make_unique<Writer>(*this, std::move(request));
  }
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override {
    ++changes_;
    if (auto alive = context.check("copy"); !alive) co_return Error(alive.error());
    co_return copy_now(request.from, request.to, request.if_absent);
  }
  Task<Result<>> rename(Context context, RenameRequest request) override {
    ++changes_;
    if (auto alive = context.check("rename"); !alive) co_return alive;
    auto copied = copy_now(request.from, request.to, false);
    if (!copied) co_return Error(copied.error());
    remove(request.from);
    co_return Result<>();
  }
  Task<Result<>> remove(Context context, RemoveRequest request) override {
    ++changes_;
    if (auto alive = context.check("remove"); !alive) co_return alive;
    std::lock_guard lock(mutex_);
    LEAT_CO_CHECK_OK(ordered_failure(request.keys.empty() ? "" : request.keys.front()));
    for (const std::string& key : request.keys) objects_.erase(key);
    co_return Result<>();
  }

 private:
  struct Stored {
    SourceObject object;
    std::string content;
  };

  class Writer : public ObjectWriter {
   public:
    Writer(MemorySource& source, WriteRequest request)
        : source_(source), request_(std::move(request)) {}
    bool is_retryable() const override { return true; }
    Task<Result<>> append(Context context, std::span<const std::byte> part,
                          AttemptTimeouts) override {
      ++source_.changes_;
      if (auto alive = context.check("append"); !alive) co_return alive;
      std::lock_guard lock(source_.mutex_);
      LEAT_CO_CHECK_OK(source_.ordered_failure(request_.key));
      content_.append(reinterpret_cast<const char*>(part.data()), part.size());
      source_.written_bytes_ += part.size();
      co_return note_part(part.size());
    }
    Task<Result<>> copy_part(Context context, PartCopy from, AttemptTimeouts) override {
      if (!source_.capabilities().copies_parts) {
        co_return co_await ObjectWriter::copy_part(context, from, {});
      }
      ++source_.changes_;
      if (auto alive = context.check("copy"); !alive) co_return alive;
      std::string copied(from.range.size, '\0');
      LEAT_CO_CHECK_OK(source_.read_now({from.key, from.range, from.version},
                                        std::as_writable_bytes(std::span(copied))));
      source_.read_bytes_ -= copied.size();
      std::lock_guard lock(source_.mutex_);
      content_ += copied;
      co_return note_part(copied.size());
    }
    Task<Result<SourceObject>> complete(Context context, AttemptTimeouts) override {
      ++source_.changes_;
      if (auto alive = context.check("finish"); !alive) co_return Error(alive.error());
      co_return source_.write_now(request_, content_);
    }
    Task<Result<>> abort(Context, AttemptTimeouts) override { co_return Result<>(); }

   private:
    // As a store that looks at the sizes of parts when more follow.
    Result<> note_part(uint64_t size) {
      const bool was_small = last_part_ && *last_part_ < source_.capabilities().part_bytes_min;
      last_part_ = size;
      if (!was_small) return {};
      return error(StatusCode::kInvalidArgument, "a part before this one is too small");
    }

    MemorySource& source_;
    const WriteRequest request_;
    std::string content_;
    std::optional<uint64_t> last_part_{};
  };

  SourceObject put_locked(std::string key, std::string content) {
    ++puts_;
    SourceObject object;
    object.key = key;
    object.kind = key.ends_with('/') ? FileKind::kDirectory : FileKind::kFile;
    object.size = content.size();
    object.version = Version::etag(fmt::format("\"m{}\"", puts_));
    object.mtime = WallTime(std::chrono::seconds(1'700'000'000 + puts_));
    objects_[std::move(key)] = {object, std::move(content)};
    return object;
  }

  Result<SourceObject> write_now(const WriteRequest& request, std::string content) {
    std::lock_guard lock(mutex_);
    LEAT_CHECK_OK(ordered_failure(request.key));
    if (request.key.ends_with('/') && !content.empty()) {
      return error(StatusCode::kInvalidArgument, "a directory holds no bytes");
    }
    auto found = objects_.find(request.key);
    const bool there = found != objects_.end();
    if (request.condition.absent && there) {
      return error(StatusCode::kExists, fmt::format("{}/{} is there", name_, request.key));
    }
    const Version& wanted = request.condition.version;
    if (wanted.known() && (!there || found->second.object.version != wanted)) {
      return error(StatusCode::kVersionChanged,
                   fmt::format("{}/{} is not {} any more", name_, request.key, wanted.to_string()));
    }
    return put_locked(request.key, std::move(content));
  }

  Result<SourceObject> copy_now(const std::string& from, const std::string& to, bool if_absent) {
    std::string content;
    {
      std::lock_guard lock(mutex_);
      auto found = objects_.find(from);
      if (found == objects_.end()) return not_found(from);
      content = found->second.content;
    }
    return write_now({.key = to, .condition = {.absent = if_absent}}, std::move(content));
  }

  std::shared_ptr<SharedPromise<bool>> current_gate() const {
    std::lock_guard lock(mutex_);
    return gate_;
  }

  Result<> ordered_failure(const std::string& key) {
    if (fail_count_ <= 0) return {};
    --fail_count_;
    return error(fail_code_, fmt::format("{}/{}: failing as the test ordered", name_, key));
  }

  Result<SourceObject> stat_now(const std::string& key) {
    std::lock_guard lock(mutex_);
    LEAT_CHECK_OK(ordered_failure(key));
    auto found = objects_.find(key);
    if (found != objects_.end()) return found->second.object;
    if (!key.empty() && !key.ends_with('/')) return not_found(key);
    auto below = objects_.lower_bound(key);
    if (!key.empty() && (below == objects_.end() || !below->first.starts_with(key))) {
      return not_found(key);
    }
    SourceObject directory;
    directory.key = key;
    directory.kind = FileKind::kDirectory;
    return directory;
  }

  // The token is the last entry of the previous page.
  Result<ListPage> list_now(const ListRequest& request) {
    std::lock_guard lock(mutex_);
    LEAT_CHECK_OK(ordered_failure(request.prefix));
    ListPage page;
    std::string last_prefix;
    for (auto at = objects_.lower_bound(request.prefix); at != objects_.end(); ++at) {
      const std::string& key = at->first;
      if (!key.starts_with(request.prefix)) break;
      if (key == request.prefix) continue;
      SourceObject entry = at->second.object;
      size_t slash = key.find('/', request.prefix.size());
      if (!request.recursive && slash != std::string::npos) {
        entry = SourceObject{.key = key.substr(0, slash + 1),
                             .kind = FileKind::kDirectory,
                             .size = 0,
                             .version = {},
                             .mtime = {}};
        if (entry.key == last_prefix) continue;
        last_prefix = entry.key;
      }
      if (!request.token.empty() && entry.key <= request.token) continue;
      if (page.objects.size() == page_entries_) {
        page.next_token = page.objects.back().key;
        break;
      }
      page.objects.push_back(std::move(entry));
    }
    return page;
  }

  Result<> read_now(const ReadRequest& request, std::span<std::byte> into) {
    std::lock_guard lock(mutex_);
    LEAT_CHECK_OK(ordered_failure(request.key));
    auto found = objects_.find(request.key);
    if (found == objects_.end()) return Error(not_found(request.key).error());
    const auto& [object, content] = found->second;
    if (request.if_version.known() && request.if_version != object.version &&
        lie_ != Lie::kIgnoreVersion) {
      return error(StatusCode::kVersionChanged,
                   fmt::format("{}/{} is {} now, not {} any more", name_, request.key,
                               object.version.to_string(), request.if_version.to_string()));
    }
    if (request.range.end() > content.size() || into.size() != request.range.size) {
      return error(StatusCode::kOutOfRange,
                   fmt::format("{}/{} has {} bytes; {} at {} were requested", name_, request.key,
                               content.size(), request.range.size, request.range.offset));
    }
    if (into.empty()) return {};
    std::memcpy(into.data(), content.data() + request.range.offset, into.size());
    if (lie_ == Lie::kFlipBit) into[0] ^= std::byte{1};
    read_bytes_ += into.size();
    return {};
  }

  Result<SourceObject> not_found(const std::string& key) const {
    return error(StatusCode::kNotFound, fmt::format("{} has no object '{}'", name_, key));
  }

  const StoreId id_;
  const std::string name_;
  const size_t page_entries_;
  SourceCapabilities capabilities_;
  std::atomic<uint64_t> stats_ = 0, lists_ = 0, reads_ = 0, read_bytes_ = 0, blocked_reads_ = 0,
                        changes_ = 0, written_bytes_ = 0;

  mutable std::mutex mutex_;
  std::map<std::string, Stored> objects_;
  uint64_t puts_ = 0;
  std::shared_ptr<SharedPromise<bool>> gate_;
  StatusCode fail_code_ = StatusCode::kUnavailable;
  int fail_count_ = 0;
  Lie lie_ = Lie::kNone;
};

}  // namespace leat::testing
