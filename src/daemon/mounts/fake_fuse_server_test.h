// SPDX-License-Identifier: Apache-2.0
// FakeFuse: a FUSE without a kernel for MountServiceOptions::mount_fuse. MountRig: a MountService
// over it, with sources in a temporary folder. Tests stop servers at pause points to make races.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/id128.h"
#include "catalog/snapshot/snapshot_builder.h"
#include "daemon/mounts/mount_service.h"
#include "fetch/memory_page_store_test.h"

namespace leat::testing {

// Blocks the threads that pass it while it is held.
class PausePoint {
 public:
  void hold() {
    std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release() {
    {
      std::lock_guard lock(mutex_);
      held_ = false;
    }
    changed_.notify_all();
  }
  // Returns false if `cancel` ended the wait.
  bool pass(const std::stop_token& cancel = {}) {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    return changed_.wait(lock, cancel, [this] { return !held_; });
  }
  // Waits until `count` threads have ever arrived.
  void await_arrivals(unsigned count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }
  unsigned arrived() const {
    std::lock_guard lock(mutex_);
    return arrived_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool held_ = false;
  unsigned arrived_ = 0;
};

// The kernel's side of one mount. Outlives its server. Thread-safe.
class FakeMount {
 public:
  FakeMount(FuseServerOptions given, FileSystem& served, bool survives)
      : options(std::move(given)), files_(&served), survives_(survives) {
    if (options.connection >= 0) {
      connection_ = File(options.connection);
      mounted_ = !options.detached;
      files_->take_over();
    } else {
      connection_ = File(::memfd_create("fake-connection", MFD_CLOEXEC));
      const std::string& name = options.mountpoint;
      EXPECT_EQ(::pwrite(connection_.fd(), name.data(), name.size(), 0),
                static_cast<ssize_t>(name.size()));
    }
    files_->set_invalidation_listener([this](const KernelInvalidation& name) {
      std::lock_guard lock(mutex_);
      queued_.push_back(name.name.empty() ? "#" + std::to_string(name.node) : name.name);
    });
  }

  const FuseServerOptions options;
  PausePoint flushes, unmounts;

  // The folder is in use: unmount() without `lazy` returns kBusy.
  void set_busy(bool busy) {
    set([&] { busy_ = busy; });
  }
  // The next unmounts return this.
  void fail_unmounts(Status failure) {
    set([&] { unmount_failure_ = std::move(failure); });
  }
  // A request holds a directory: flush_invalidations() returns false at once.
  void set_jammed(bool jammed) {
    set([&] { jammed_ = jammed; });
  }
  // The connection lives on after an unmount, until close_files().
  void open_file() {
    set([&] { open_files_ = true; });
  }
  void close_files() {
    bool ends = false;
    set([&] {
      open_files_ = false;
      ends = !mounted_;
    });
    if (ends) end();
  }
  // Another program unmounts the folder.
  void end() {
    bool first = false;
    set([&] {
      mounted_ = false;
      first = std::exchange(serving_, false);
    });
    if (first) options.on_unmounted();
  }

  // Returns the names that the kernel was notified of since the last call; "#NODE" for a listing.
  std::vector<std::string> take_notified() {
    std::lock_guard lock(mutex_);
    return std::exchange(notified_, {});
  }
  // Returns and drops those that the server has not sent yet.
  std::vector<std::string> take_queued() {
    std::lock_guard lock(mutex_);
    return std::exchange(queued_, {});
  }
  // Looks up a path below the mount, "a/b", as the kernel does, and holds its nodes.
  Result<NodeAttributes> lookup(Executor& executor, const std::string& path) {
    NodeAttributes at;
    at.node = kRootNode;
    for (const std::filesystem::path& name : std::filesystem::path(path)) {
      LEAT_TRY(at, executor.block_on(files_->lookup(Context::background(), at.node, name)));
    }
    return at;
  }
  FileSystem& files() { return *files_; }
  // Returns the mount point for which the connection was made.
  std::string connection_text() const {
    char text[4096];
    const ssize_t size = ::pread(connection_.fd(), text, sizeof text, 0);
    return {text, size > 0 ? static_cast<size_t>(size) : 0};
  }
  bool mounted() const { return get(mounted_); }
  bool serving() const { return get(serving_); }
  bool destroyed() const { return get(destroyed_); }
  std::optional<std::chrono::milliseconds> takeover_timeout() const {
    return get(takeover_timeout_);
  }
  void await_destroyed() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return destroyed_; });
  }

 private:
  friend class FakeFuseServer;

  template <class F>
  void set(F change) {
    {
      std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }
  template <class T>
  T get(const T& value) const {
    std::lock_guard lock(mutex_);
    return value;
  }

  Result<> unmount(bool lazy) {
    unmounts.pass();
    bool ends = false;
    {
      std::lock_guard lock(mutex_);
      if (unmount_failure_) return Error(*unmount_failure_);
      if (!mounted_) return error(StatusCode::kNotFound, "nothing is mounted there any more");
      if (busy_ && !lazy) return error(StatusCode::kBusy, "the folder is in use");
      mounted_ = false;
      ends = !open_files_;
    }
    if (ends) end();
    return {};
  }
  bool flush(const std::stop_token& cancel) {
    if (!flushes.pass(cancel)) return false;
    std::lock_guard lock(mutex_);
    if (jammed_) return false;
    notified_.insert(notified_.end(), queued_.begin(), queued_.end());
    queued_.clear();
    return true;
  }

  FileSystem* const files_;  // until the server is destroyed
  const bool survives_;
  File connection_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool mounted_ = true, serving_ = true, destroyed_ = false;
  bool busy_ = false, jammed_ = false, open_files_ = false;
  std::optional<Status> unmount_failure_;
  std::optional<std::chrono::milliseconds> takeover_timeout_;
  std::vector<std::string> queued_, notified_;
};
using FakeMountPtr = std::shared_ptr<FakeMount>;

// Owned by the MountService.
class FakeFuseServer : public FuseServer {
 public:
  explicit FakeFuseServer(FakeMountPtr mount) : mount_(std::move(mount)) {}
  ~FakeFuseServer() override {
    mount_->files_->set_invalidation_listener({});
    const bool stays = mount_->takeover_timeout().has_value();
    mount_->set([&] {
      mount_->destroyed_ = true;
      if (!stays) mount_->mounted_ = mount_->serving_ = false;
    });
  }

  int connection() const override { return mount_->survives_ ? mount_->connection_.fd() : -1; }
  void prepare_takeover(std::chrono::milliseconds timeout) override {
    mount_->files_->set_invalidation_listener({});
    if (MemfdRecordTable* records = mount_->options.records) {
      EXPECT_TRUE(records->detach());
    }
    mount_->set([&] { mount_->takeover_timeout_ = timeout; });
  }
  Result<> unmount(bool lazy) override { return mount_->unmount(lazy); }
  bool flush_invalidations(const std::stop_token& cancel) override { return mount_->flush(cancel); }
  void wait() override {}
  bool mounted() const override { return mount_->mounted(); }
  bool serving() const override { return mount_->serving(); }
  FuseFeatures features() const override {
    FuseFeatures features;
    features.no_open = mount_->options.no_open;
    features.survives = mount_->survives_;
    return features;
  }
  FuseServerStats stats() const override {
    return {.pending_requests = 0, .passthrough_files = 3, .pending_invalidations = 0};
  }

 private:
  const FakeMountPtr mount_;
};

// Must outlive the service.
class FakeFuse {
 public:
  explicit FakeFuse(bool survives = false) : survives_(survives) {}

  Result<std::unique_ptr<FuseServer>> mount(FuseServerOptions options, FileSystem& files) {
    mounts.pass();
    std::lock_guard lock(mutex_);
    if (failure_) return error(*failure_);
    auto made = std::make_shared<FakeMount>(std::move(options), files, survives_);
    mounts_.push_back(made);
    return std::make_unique<FakeFuseServer>(std::move(made));
  }
  // Further mounts fail; none: they succeed again.
  void fail_mounts(std::optional<Status> failure) {
    std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
  }
  size_t count() const {
    std::lock_guard lock(mutex_);
    return mounts_.size();
  }
  // Returns the newest mount at `path`.
  FakeMountPtr at(const std::string& path) const {
    std::lock_guard lock(mutex_);
    FakeMountPtr found;
    for (const FakeMountPtr& mount : mounts_) {
      if (mount->options.mountpoint == path) found = mount;
    }
    LEAT_CHECK(found != nullptr);
    return found;
  }

  PausePoint mounts;

 private:
  const bool survives_;
  mutable std::mutex mutex_;
  std::optional<Status> failure_;
  std::vector<FakeMountPtr> mounts_;
};

// A temporary folder with sources and mount points.
class MountFolder {
 public:
  MountFolder() { std::filesystem::create_directories(root_); }
  ~MountFolder() { std::filesystem::remove_all(root_); }
  MountFolder(const MountFolder&) = delete;

  std::string operator/(const std::string& name) const { return root_ + "/" + name; }
  // Makes a directory and returns its path.
  std::string make(const std::string& name) const {
    std::filesystem::create_directories(*this / name);
    return *this / name;
  }
  // Writes a file, with its directories.
  void write(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = *this / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  // Builds a snapshot of the present files of a source.
  SnapshotPtr snapshot(Executor& executor, const std::string& name) const {
    const StoreUrl url = StoreUrl::parse(source(name)).value();
    const std::string path = *this / Id128::random().to_hex();
    const auto built = executor.block_on(build_snapshot(
        Context::background(), open_source(url).value(), url, executor, {.path = path}));
    EXPECT_TRUE(built) << built.error().to_string();
    return Snapshot::open(path).value();
  }
  // Returns a URL of a source with a file `name`.txt.
  std::string source(const std::string& name) const {
    const std::string file = "sources/" + name + "/" + name + ".txt";
    if (!std::filesystem::exists(*this / file)) write(file, "content of " + name);
    return "file://" + (*this / "sources/" + name);
  }

 private:
  const std::string root_ = ::testing::TempDir() + "leat_mounts_" + Id128::random().to_hex();
};

// A MountService with all that it needs.
class MountRig {
 public:
  explicit MountRig(MountServiceOptions options = {}, bool survives = false) : fuse(survives) {
    catalog = Catalog::create({}, sources, executor);
    fetcher = Fetcher::create({}, &store, sources, executor);
    options.mount_fuse = [this](FuseServerOptions given, FileSystem& files, Executor&) {
      return fuse.mount(std::move(given), files);
    };
    service = std::make_unique<MountService>(std::move(options), *catalog, *fetcher, &store,
                                             sources, executor);
  }
  // Unmounts all, unless the mounts were left to a successor.
  ~MountRig() {
    if (!takeover_prepared_) executor.block_on(service->stop());
    executor.block_on(catalog->stop());
    executor.block_on(fetcher->stop());
  }

  // Starts the task and returns at once.
  template <class T>
  std::future<T> begin(Task<T> task) {
    return boost::asio::co_spawn(executor.any(), std::move(task), boost::asio::use_future);
  }
  Result<MountView> mount(MountRequest request, SnapshotPtr snapshot = nullptr) {
    return executor.block_on(
        service->mount(Context::background(), std::move(request), std::move(snapshot)));
  }
  Result<MountView> mount(const std::string& source, const std::string& path,
                          OptionValues options = {}) {
    return mount({.source = source, .path = path, .options = std::move(options)});
  }
  Result<> unmount(const std::string& path, bool lazy = false) {
    return executor.block_on(service->unmount(Context::background(), path, lazy));
  }
  Result<MountView> change(MountChange change) {
    return executor.block_on(service->change(Context::background(), std::move(change)));
  }
  Result<MountView> move(const std::string& from, const std::string& to) {
    return executor.block_on(service->move(Context::background(), {.from = from, .to = to}));
  }
  Result<> use_snapshot(const std::string& path, const std::string& name, SnapshotPtr snapshot) {
    return executor.block_on(
        service->use_snapshot(Context::background(), path, name, std::move(snapshot)));
  }
  // Ends the service; its mounts stay for a successor.
  void prepare_takeover() {
    takeover_prepared_ = true;
    executor.block_on(service->prepare_takeover());
  }

  // Returns the paths of views().
  std::vector<std::string> paths() const {
    std::vector<std::string> paths;
    for (const MountView& view : service->views()) paths.push_back(view.path);
    return paths;
  }
  MountView view(const std::string& path) const {
    for (const MountView& view : service->views()) {
      if (view.path == path) return view;
    }
    ADD_FAILURE() << "no view of " << path;
    return {};
  }
  // Returns whether the mount at `at` shows the path below it.
  bool shows(const std::string& at, const std::string& path) {
    return fuse.at(at)->lookup(executor, path).has_value();
  }

  FakeFuse fuse;
  SourceTable sources;
  MemoryPageStore store;
  // Declared after the objects that its tasks use, so that it ends first.
  Executor executor{{.threads = 3}};
  std::unique_ptr<Catalog> catalog;
  std::unique_ptr<Fetcher> fetcher;
  std::unique_ptr<MountService> service;

 private:
  bool takeover_prepared_ = false;
};

inline StatusCode code_of(const auto& result) {
  return result ? StatusCode{} : result.error().code();
}
inline std::string text_of(const auto& result) {
  return result ? "success" : result.error().to_string();
}

}  // namespace leat::testing
