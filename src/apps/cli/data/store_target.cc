// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <mutex>
#include <set>

#include "apps/cli/data/copy_target.h"
#include "runtime/executor.h"
#include "source/io_timeout.h"
#include "source/part_writer.h"

namespace leat {
namespace {

std::string key_of(const std::string& path) {
  return path.substr(std::min<size_t>(path.size(), 1));
}

class StoreTarget : public CopyTarget {
 public:
  explicit StoreTarget(SourcePtr source) : source_(std::move(source)) {}

  std::string name_of(const std::string& path) const override { return source_->name() + path; }
  std::string child(const std::string& parent, const std::string& name) const override {
    return child_path(parent, name);
  }

  CommandResult<std::optional<EntryView>> find(const std::string& path) override {
    if (path == "/") return EntryView{.kind = FileKind::kDirectory};
    Result<SourceObject> object = stat_key(key_of(path));
    if (object) {
      EntryView entry{.name = path.substr(path.rfind('/') + 1), .kind = object->kind};
      entry.size = object->size;
      entry.mtime = object->mtime;
      return entry;
    }
    if (object.error().code() != StatusCode::kNotFound) {
      return std::unexpected(Failure(object.error()));
    }
    Result<SourceObject> directory = stat_key(key_of(path) + "/");
    if (directory) return EntryView{.kind = FileKind::kDirectory};
    if (directory.error().code() != StatusCode::kNotFound) {
      return std::unexpected(Failure(directory.error()));
    }
    return std::nullopt;
  }

  bool has_directories() const override { return source_->capabilities().real_directories; }
  // In stores without directories a prefix exists as soon as an object below it does.
  CommandResult<> make_directory(const std::string& path) override {
    if (!has_directories() || path == "/") return {};
    std::string key;
    for (char c : key_of(path) + "/") {
      key += c;
      if (c != '/' || is_known_directory(key)) continue;
      Result<SourceObject> there = stat_key(key);
      if (!there) {
        WriteRequest request{.key = key};
        there = executor_.block_on(source_->write(Context::background(), std::move(request), {}));
      }
      if (!there && there.error().code() != StatusCode::kExists) {
        return std::unexpected(Failure(there.error()));
      }
      add_known_directory(key);
    }
    return {};
  }

  CommandResult<> write(const Incoming& file, const std::string& path, bool replace) override {
    const bool may_depend = source_->capabilities().write_if_absent;
    if (!replace && !may_depend) {
      LEAT_TRY(std::optional<EntryView> there, find(path));
      if (there) return failure(StatusCode::kExists, name_of(path) + " is there already");
    }
    const bool absent = !replace && may_depend;
    if (file.object && file.object->store == source_->id() && source_->capabilities().copies) {
      CopyRequest request{.from = file.object->key, .to = key_of(path), .if_absent = absent};
      return done(executor_.block_on(source_->copy(Context::background(), std::move(request))));
    }
    WriteRequest request{.key = key_of(path), .condition = {.absent = absent}};
    LEAT_TRY(PartWriter stream, PartWriter::begin(*source_, std::move(request), file.entry.size));
    uint64_t bytes = 0;
    CommandResult<> taken = file.read([&](std::span<const std::byte> data) {
      bytes += data.size();
      return executor_.block_on(stream.append(Context::background(), data));
    });
    if (taken && bytes != file.entry.size) {
      taken = failure(StatusCode::kVersionChanged,
                      fmt::format("{} bytes came instead of {}: it changed while it was copied",
                                  bytes, file.entry.size));
    }
    if (!taken) {
      auto abandoned = executor_.block_on(stream.abort(Context::background()));
      static_cast<void>(abandoned);  // the store's own cleanup removes the rest
      return taken;
    }
    return done(executor_.block_on(stream.complete(Context::background())));
  }

  // The store's time is that of the upload, at worst in whole seconds. So an object that is not
  // older than the file is equal.
  bool same(const EntryView& file, const EntryView& there) const override {
    using std::chrono::seconds;
    return file.size == there.size && file.mtime && there.mtime &&
           std::chrono::floor<seconds>(*there.mtime) >= std::chrono::floor<seconds>(*file.mtime);
  }

 private:
  static CommandResult<> done(const Result<SourceObject>& written) {
    if (!written) return std::unexpected(Failure(written.error()));
    return {};
  }
  Result<SourceObject> stat_key(std::string key) {
    return executor_.block_on(source_->stat(Context::background(), {.key = std::move(key)}));
  }
  bool is_known_directory(const std::string& key) {
    std::lock_guard lock(mutex_);
    return directories_.contains(key);
  }
  void add_known_directory(const std::string& key) {
    std::lock_guard lock(mutex_);
    directories_.insert(key);
  }

  Executor executor_{{.threads = 2, .blocking_threads = 2}};
  const SourcePtr source_;
  std::mutex mutex_;
  std::set<std::string> directories_;  // known to exist
};

}  // namespace

CommandResult<std::unique_ptr<CopyTarget>> make_store_target(const StoreUrl& url) {
  LEAT_TRY(SourcePtr source, open_source(without_waiting(url)));
  if (!source->capabilities().writes) {
    return failure(StatusCode::kUnsupported,
                   fmt::format("{} takes no changes: Leat cannot write to stores of this kind",
                               source->name()));
  }
  return std::make_unique<StoreTarget>(std::move(source));
}

}  // namespace leat
