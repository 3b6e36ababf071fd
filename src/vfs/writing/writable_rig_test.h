// SPDX-License-Identifier: Apache-2.0
// WritableRig: a TreeRig with a file system that takes writes, over a bucket that fails where a
// test says. Its functions are those of the kernel: lookup, open, write, flush, close, forget.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "vfs/tree_rig_test.h"
#include "vfs/writing/writable_file_system.h"

namespace leat::testing {

// FaultyBucket: a bucket with capabilities of the test, which runs a hook around each change
// and stat. Set the hooks while nothing runs.
class FaultyBucket : public MemorySource {
 public:
  // Gets the operation ("write", "copy", "rename", "remove", "stat") and the key.
  using Hook = std::function<Result<>(std::string_view operation, const std::string& key)>;

  Hook before{};  // an error: the operation is not done
  Hook after{};   // an error: the operation is done, and the answer is lost
  std::atomic<int> open_writers = 0;
  SourceCapabilities changed = MemorySource::capabilities();

  const SourceCapabilities& capabilities() const override { return changed; }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override {
    const std::string key = request.key;
    LEAT_CO_CHECK_OK(call(before, "stat", key));
    Result<SourceObject> done = co_await MemorySource::stat(context, std::move(request));
    if (done) done->attributes = kept(key);
    LEAT_CO_CHECK_OK(call(after, "stat", key));
    co_return done;
  }
  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override {
    const std::string key = request.key;
    LEAT_CO_CHECK_OK(call(before, "write", key));
    const PosixAttributes attributes = request.attributes;
    Result<SourceObject> done = co_await MemorySource::write(context, std::move(request), content);
    if (done) keep(key, std::make_shared<PosixAttributes>(attributes));
    LEAT_CO_CHECK_OK(call(after, "write", key));
    co_return done;
  }
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override {
    const std::string key = request.to, from = request.from;
    LEAT_CO_CHECK_OK(call(before, "copy", key));
    Result<SourceObject> done = co_await MemorySource::copy(context, std::move(request));
    if (done) keep(key, kept(from));
    LEAT_CO_CHECK_OK(call(after, "copy", key));
    co_return done;
  }
  Task<Result<>> rename(Context context, RenameRequest request) override {
    const std::string key = request.from;
    LEAT_CO_CHECK_OK(call(before, "rename", key));
    Result<> done = co_await rename_all(context, std::move(request));
    LEAT_CO_CHECK_OK(call(after, "rename", key));
    co_return done;
  }
  Task<Result<>> remove(Context context, RemoveRequest request) override {
    const std::string key = request.keys.empty() ? "" : request.keys.front();
    LEAT_CO_CHECK_OK(call(before, "remove", key));
    Result<> done = co_await MemorySource::remove(context, std::move(request));
    LEAT_CO_CHECK_OK(call(after, "remove", key));
    co_return done;
  }
  using MemorySource::remove;
  // Operations of a writer: "append", "copy_part", "complete", "abort".
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override {
    const std::string key = request.key;
    LEAT_TRY(ObjectWriterPtr inner, MemorySource::begin_write(std::move(request)));
    return std::make_unique<Writer>(*this, key, std::move(inner));
  }

 private:
  class Writer : public ObjectWriter {
   public:
    Writer(FaultyBucket& bucket, std::string key, ObjectWriterPtr inner)
        : bucket_(bucket), key_(std::move(key)), inner_(std::move(inner)) {
      ++bucket_.open_writers;
    }
    ~Writer() override { --bucket_.open_writers; }
    bool is_retryable() const override { return inner_->is_retryable(); }
    Task<Result<>> append(Context context, std::span<const std::byte> part,
                          AttemptTimeouts timeouts) override {
      LEAT_CO_CHECK_OK(call(bucket_.before, "append", key_));
      Result<> done = co_await inner_->append(context, part, timeouts);
      LEAT_CO_CHECK_OK(call(bucket_.after, "append", key_));
      co_return done;
    }
    Task<Result<>> copy_part(Context context, PartCopy from, AttemptTimeouts timeouts) override {
      LEAT_CO_CHECK_OK(call(bucket_.before, "copy_part", key_));
      Result<> done = co_await inner_->copy_part(context, std::move(from), timeouts);
      LEAT_CO_CHECK_OK(call(bucket_.after, "copy_part", key_));
      co_return done;
    }
    Task<Result<SourceObject>> complete(Context context, AttemptTimeouts timeouts) override {
      LEAT_CO_CHECK_OK(call(bucket_.before, "complete", key_));
      Result<SourceObject> done = co_await inner_->complete(context, timeouts);
      LEAT_CO_CHECK_OK(call(bucket_.after, "complete", key_));
      co_return done;
    }
    Task<Result<>> abort(Context context, AttemptTimeouts timeouts) override {
      LEAT_CO_CHECK_OK(call(bucket_.before, "abort", key_));
      Result<> done = co_await inner_->abort(context, timeouts);
      co_return done;
    }

   private:
    FaultyBucket& bucket_;
    const std::string key_;
    const ObjectWriterPtr inner_;
  };

  static Result<> call(const Hook& hook, std::string_view operation, const std::string& key) {
    return hook ? hook(operation, key) : Result<>();
  }

  // Attributes, where the test says that the store keeps them.
  std::shared_ptr<const PosixAttributes> kept(const std::string& key) {
    std::lock_guard lock(attributes_mutex_);
    const auto found = attributes_.find(key);
    return changed.attributes && found != attributes_.end() ? found->second : nullptr;
  }
  void keep(const std::string& key, std::shared_ptr<const PosixAttributes> attributes) {
    std::lock_guard lock(attributes_mutex_);
    attributes_[key] = std::move(attributes);
  }

  Task<Result<>> rename_one(Context context, RenameRequest request) {
    const std::string from = request.from, to = request.to;
    Result<> done = co_await MemorySource::rename(context, std::move(request));
    if (done) keep(to, kept(from));
    co_return done;
  }

  // A directory is renamed with all keys below it.
  Task<Result<>> rename_all(Context context, RenameRequest request) {
    if (!request.from.ends_with('/')) {
      Result<> done = co_await rename_one(context, std::move(request));
      co_return done;
    }
    ListRequest list{.prefix = request.from, .recursive = true};
    LEAT_CO_TRY(ListPage page, co_await MemorySource::list(context, std::move(list)));
    std::vector<std::string> keys{request.from};
    for (const SourceObject& object : page.objects) keys.push_back(object.key);
    for (const std::string& key : keys) {
      RenameRequest one{.from = key, .to = request.to + key.substr(request.from.size())};
      Result<> moved = co_await rename_one(context, std::move(one));
      if (!moved && key != request.from) co_return moved;
    }
    co_return Result<>();
  }

  std::mutex attributes_mutex_;  // leaf
  std::map<std::string, std::shared_ptr<const PosixAttributes>> attributes_;
};

// Returns "ok", or the name of the error.
template <class T>
std::string outcome(const Result<T>& result) {
  return result ? "ok" : std::string(to_string(result.error().code()));
}

// An open file, with the lookup count that open() added.
struct OpenedFile {
  NodeId node = 0;
  std::shared_ptr<OpenFile> file{};
  WritableFile& writable() const { return *file->writable(); }
};

// Writing to the store later. A second rig with the same is the first one after a restart.
struct RigWriting {
  std::shared_ptr<FaultyBucket> bucket = std::make_shared<FaultyBucket>();
  std::string journal{};
  UploadOptions uploads{};
  bool direct_writes = false;
};

class WritableRig : public TreeRig {
 public:
  explicit WritableRig(TreeRigOptions options = {}, RigWriting writing = {})
      : WritableRig(std::make_shared<Shared>(std::move(writing)), std::move(options)) {}

  // ---- the kernel's calls
  Result<OpenedFile> create(NodeId parent, std::string name, int flags = O_RDWR | O_CREAT) {
    Result<CreatedFile> made = executor.block_on(changes().create(
        Context::background(), parent, std::move(name), {.mode = 0640, .uid = 7, .gid = 8}, flags));
    if (!made) return Error(made.error());
    return OpenedFile{made->attributes.node, made->file};
  }
  // A lookup and an open, which is repeated once where the version is not that of now.
  Result<OpenedFile> open_name(NodeId parent, const std::string& name, int flags = O_RDONLY) {
    Result<OpenedFile> opened = open_once(parent, name, flags);
    const bool again = !opened && opened.error().code() == StatusCode::kVersionChanged;
    return again ? open_once(parent, name, flags) : opened;
  }
  Result<> write(const OpenedFile& file, uint64_t offset, std::string text) {
    return executor.block_on(
        file.writable().write(Context::background(), offset, Bytes::of(std::move(text))));
  }
  Result<> allocate(const OpenedFile& file, int mode, uint64_t offset, uint64_t size) {
    return executor.block_on(file.writable().allocate(Context::background(), mode, offset, size));
  }
  Result<> flush(const OpenedFile& file, Context context = Context::background()) {
    return executor.block_on(file.writable().flush(context));
  }
  // Ends the open and forgets its lookup count.
  Result<> close(OpenedFile file, Context context = Context::background()) {
    Result<> closed;
    if (!file.writable().try_close()) closed = executor.block_on(file.writable().close(context));
    files->forget(file.node, 1);
    return closed;
  }
  Result<NodeAttributes> make_directory(NodeId parent, std::string name) {
    return executor.block_on(changes().make_directory(
        Context::background(), parent, std::move(name), {.mode = 0750, .uid = 7, .gid = 8}));
  }
  std::string remove_file(NodeId parent, std::string name) {
    return outcome(
        executor.block_on(changes().remove_file(Context::background(), parent, std::move(name))));
  }
  std::string remove_directory(NodeId parent, std::string name) {
    return outcome(executor.block_on(
        changes().remove_directory(Context::background(), parent, std::move(name))));
  }
  std::string rename(NodeId parent, std::string name, NodeId new_parent, std::string new_name,
                     bool no_replace = false) {
    RenameOp op{parent, std::move(name), new_parent, std::move(new_name), no_replace};
    return outcome(executor.block_on(changes().rename(Context::background(), std::move(op))));
  }
  Result<NodeAttributes> set(NodeId node, AttributeChange change) {
    return executor.block_on(changes().set_attributes(Context::background(), node, change));
  }
  Result<> drain(std::string path = "/data") {
    return executor.block_on(
        changes().flush(Context::background().with_timeout(std::chrono::seconds(10)), path));
  }
  UnsentChanges unsent() { return changes().unsent(); }
  Result<> save_all() { return executor.block_on(changes().save_all(Context::background())); }
  NamespaceChanges& changes() { return *files->changes(kRootNode); }

  // ---- the program's view
  std::string read_open(const OpenedFile& file, uint64_t size = kMiB) {
    Result<std::string> text = read(*file.file, 0, size);
    return text ? *text : text.error().to_string();
  }
  std::string content(NodeId parent, const std::string& name) {
    Result<OpenedFile> opened = open_name(parent, name);
    if (!opened) return opened.error().to_string();
    std::string text = read_open(*opened);
    Result<> closed = close(*opened);
    return closed ? text : closed.error().to_string();
  }
  // A lookup without the count. 0: the name is missing.
  NodeId peek(NodeId parent, const std::string& name) {
    const Result<NodeAttributes> found = lookup(parent, name);
    if (!found) return 0;
    files->forget(found->node, 1);
    return found->node;
  }
  // Names with sizes of files: "a/ x:3".
  std::string list(NodeId node) {
    const auto opened = open_directory(node);
    if (!opened) return opened.error().to_string();
    std::string text;
    for (Listing::Cursor cursor = (*opened)->from(0); cursor.next();) {
      const CatalogEntry entry = cursor.entry();
      if (!text.empty()) text += ' ';
      text += entry.info.kind == FileKind::kDirectory
                  ? entry.info.name + "/"
                  : fmt::format("{}:{}", entry.info.name, entry.info.size);
    }
    return text;
  }

  // ---- the store's view
  // Returns "(none)" for a missing object.
  std::string stored(const std::string& key) {
    MemorySource& plain = bucket();
    auto object = executor.block_on(plain.MemorySource::stat(Context::background(), {.key = key}));
    if (!object) return "(none)";
    std::string text(object->size, '\0');
    ReadRequest request{.key = key, .range = {0, text.size()}, .if_version = {}};
    auto done = executor.block_on(plain.read(Context::background(), std::move(request),
                                             std::as_writable_bytes(std::span(text))));
    return done ? text : done.error().to_string();
  }
  // All keys, with a space between them.
  std::string keys() {
    auto page = executor.block_on(
        bucket().MemorySource::list(Context::background(), {.prefix = "", .recursive = true}));
    std::string text;
    for (const SourceObject& object : page->objects) text += (text.empty() ? "" : " ") + object.key;
    return text;
  }

  // Time of changes that are made here.
  void set_wall_clock(WallTime now) { shared_->wall = now; }
  FileSystem& below() { return *shared_->below; }  // the file system without writes
  FaultyBucket& bucket() { return *shared_->writing.bucket; }

 private:
  struct Shared {
    explicit Shared(RigWriting of) : writing(std::move(of)) {}

    const RigWriting writing;
    FileSystem* below = nullptr;
    std::atomic<WallTime> wall = WallTime(std::chrono::seconds(1'800'000'000));
  };

  WritableRig(std::shared_ptr<Shared> shared, TreeRigOptions options)
      : TreeRig(with_writes(std::move(options), shared)), shared_(std::move(shared)) {}

  static TreeRigOptions with_writes(TreeRigOptions options, const std::shared_ptr<Shared>& shared) {
    options.source = shared->writing.bucket;
    options.decorate = [shared, root = options.root](std::unique_ptr<FileSystem> files,
                                                     Catalog& catalog, PageStore* store,
                                                     Executor& executor) {
      shared->below = files.get();
      WritingOptions writing{.staging_directory = ::testing::TempDir(),
                             .journal_directory = shared->writing.journal,
                             .owner = "memory://bucket",
                             .uploads = shared->writing.uploads,
                             .direct_writes = shared->writing.direct_writes,
                             .save_attempts = 3,
                             .wall_clock = [shared] { return shared->wall.load(); }};
      auto made = std::make_unique<WritableFileSystem>(std::move(files), root, catalog, store,
                                                       executor, std::move(writing));
      const Result<> restored = made->restore();
      EXPECT_TRUE(restored) << restored.error().to_string();
      return made;
    };
    return options;
  }

  Result<OpenedFile> open_once(NodeId parent, const std::string& name, int flags) {
    Result<NodeAttributes> found = lookup(parent, name);
    if (!found) return Error(found.error());
    Result<std::shared_ptr<OpenFile>> opened = open(found->node, flags);
    if (opened) return OpenedFile{found->node, *opened};
    files->forget(found->node, 1);
    return Error(opened.error());
  }

  const std::shared_ptr<Shared> shared_;
};

}  // namespace leat::testing
