// SPDX-License-Identifier: Apache-2.0
#include "source/file/confined_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "model/mount_entry.h"
#include "source/file/file_pool.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// Resolves all links as far as the path exists. Blocks.
Result<std::string> resolved(const std::string& path) {
  std::error_code failed;
  std::string real = fs::weakly_canonical(path, failed).string();
  if (failed) return error(status_from_errno(failed.value(), "cannot resolve " + path));
  while (real.size() > 1 && real.ends_with('/')) real.pop_back();
  return real;
}

class Confines {
 public:
  Confines(std::vector<std::string> folders, std::function<void(const Status&)> on_denied)
      : folders_(std::move(folders)), on_denied_(std::move(on_denied)) {}

  // Blocks.
  Result<> check(const std::string& key) const {
    LEAT_TRY(const std::string path, resolved("/" + key));
    for (const std::string& folder : folders_) {
      const Result<std::string> real = resolved(folder);
      if (real && is_in_folders(path, {*real})) return {};
    }
    const Status status(StatusCode::kPermissionDenied,
                        fmt::format("/{} leads to {}, outside the folders that this worker allows "
                                    "(worker.local_paths)",
                                    key, path));
    on_denied_(status);
    return Error(status);
  }

 private:
  const std::vector<std::string> folders_;
  const std::function<void(const Status&)> on_denied_;
};
using ConfinesPtr = std::shared_ptr<const Confines>;

Task<Result<>> check_keys(Context context, ConfinesPtr confines, std::vector<std::string> keys) {
  auto work = [confines = std::move(confines), keys = std::move(keys)]() -> Result<bool> {
    for (const std::string& key : keys) LEAT_CHECK_OK(confines->check(key));
    return true;
  };
  Result<bool> checked = co_await FilePool::of_process().run(context, "a check of links", work);
  if (!checked) co_return Error(checked.error());
  co_return Result<>();
}

class ConfinedWriter : public ObjectWriter {
 public:
  ConfinedWriter(ObjectWriterPtr writer, ConfinesPtr confines, std::string key)
      : writer_(std::move(writer)), confines_(std::move(confines)), key_(std::move(key)) {}

  bool is_retryable() const override { return writer_->is_retryable(); }
  Task<Result<>> append(Context context, std::span<const std::byte> part,
                        AttemptTimeouts timeouts) override {
    LEAT_CO_CHECK_OK(co_await check_keys(context, confines_, {key_}));
    co_return co_await writer_->append(context, part, timeouts);
  }
  Task<Result<SourceObject>> complete(Context context, AttemptTimeouts timeouts) override {
    LEAT_CO_CHECK_OK(co_await check_keys(context, confines_, {key_}));
    co_return co_await writer_->complete(context, timeouts);
  }
  Task<Result<>> abort(Context context, AttemptTimeouts timeouts) override {
    return writer_->abort(std::move(context), timeouts);
  }

 private:
  const ObjectWriterPtr writer_;
  const ConfinesPtr confines_;
  const std::string key_;
};

class ConfinedFiles : public Source {
 public:
  ConfinedFiles(SourcePtr files, ConfinesPtr confines)
      : files_(std::move(files)), confines_(std::move(confines)) {}

  const StoreId& id() const override { return files_->id(); }
  const std::string& name() const override { return files_->name(); }
  const SourceCapabilities& capabilities() const override { return files_->capabilities(); }
  unsigned concurrency_hint(uint64_t bytes) const override {
    return files_->concurrency_hint(bytes);
  }
  Clock::duration first_byte_median() const override { return files_->first_byte_median(); }
  bool failing() const override { return files_->failing(); }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override {
    LEAT_CO_CHECK_OK(co_await check_keys(context, confines_, {request.key}));
    co_return co_await files_->stat(context, std::move(request));
  }
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    LEAT_CO_CHECK_OK(co_await check_keys(context, confines_, {request.prefix}));
    co_return co_await files_->list(context, std::move(request));
  }
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    LEAT_CO_CHECK_OK(co_await check_keys(context, confines_, {request.key}));
    co_return co_await files_->read(context, std::move(request), into);
  }
  Task<Result<SourceFilePtr>> open_file(Context context, OpenRequest request) override {
    LEAT_CO_CHECK_OK(co_await check_keys(context, confines_, {request.key}));
    co_return co_await files_->open_file(context, std::move(request));
  }

  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override {
    LEAT_CO_CHECK_OK(co_await check_keys(context, confines_, {request.key}));
    co_return co_await files_->write(context, std::move(request), content);
  }
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override {
    std::string key = request.key;
    LEAT_TRY(ObjectWriterPtr writer, files_->begin_write(std::move(request)));
    return std::make_unique<ConfinedWriter>(std::move(writer), confines_, std::move(key));
  }
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override {
    LEAT_CO_CHECK_OK(co_await check_keys(context, confines_, {request.from, request.to}));
    co_return co_await files_->copy(context, std::move(request));
  }
  Task<Result<>> rename(Context context, RenameRequest request) override {
    LEAT_CO_CHECK_OK(co_await check_keys(context, confines_, {request.from, request.to}));
    co_return co_await files_->rename(context, std::move(request));
  }
  Task<Result<SourceObject>> set_attributes(Context context, AttributesRequest request) override {
    LEAT_CO_CHECK_OK(co_await check_keys(context, confines_, {request.key}));
    co_return co_await files_->set_attributes(context, std::move(request));
  }
  Task<Result<>> remove(Context context, RemoveRequest request) override {
    LEAT_CO_CHECK_OK(co_await check_keys(context, confines_, request.keys));
    co_return co_await files_->remove(context, std::move(request));
  }

 private:
  const SourcePtr files_;
  const ConfinesPtr confines_;
};

}  // namespace

bool is_in_folders(std::string_view path, const std::vector<std::string>& folders) {
  return std::ranges::any_of(
      folders, [path](const std::string& folder) { return is_at_or_below(path, folder); });
}

SourcePtr confine_files(SourcePtr files, std::vector<std::string> folders,
                        std::function<void(const Status&)> on_denied) {
  return std::make_shared<ConfinedFiles>(
      std::move(files), std::make_shared<const Confines>(std::move(folders), std::move(on_denied)));
}

}  // namespace leat
