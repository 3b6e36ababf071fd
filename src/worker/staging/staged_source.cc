// SPDX-License-Identifier: Apache-2.0
#include "worker/staging/staged_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "peer/sources/tree_listing.h"

namespace leat {
namespace {

using Kind = StagedPlace::Kind;

// Attempts of a request during which renames became done.
constexpr int kAttempts = 100;
constexpr Clock::duration kRenamePause = std::chrono::milliseconds(50);
// Attempts of a read without a rename.
constexpr int kReadAttempts = 3;
// Separates the last key of a page from the store's token; no key has it.
constexpr char kTokenSeparator = '\0';

Error unsettled(const std::string& key) {
  return error(StatusCode::kUnavailable,
               fmt::format("renames around {} do not come to an end", key));
}

bool is_absent(const Status& why) {
  return why.code() == StatusCode::kNotFound || why.code() == StatusCode::kNotDirectory;
}

class StagedSource : public Source {
 public:
  StagedSource(std::string mount, SourcePtr store, StagingService& staging)
      : mount_(std::move(mount)), store_(std::move(store)), staging_(staging) {}

  const StoreId& id() const override { return store_->id(); }
  const std::string& name() const override { return store_->name(); }
  const SourceCapabilities& capabilities() const override { return store_->capabilities(); }
  unsigned concurrency_hint(uint64_t bytes) const override {
    return store_->concurrency_hint(bytes);
  }
  Clock::duration first_byte_median() const override { return store_->first_byte_median(); }
  bool failing() const override { return store_->failing(); }
  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override {
    return store_->write(std::move(context), std::move(request), content);
  }
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override {
    return store_->begin_write(std::move(request));
  }
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override {
    return store_->copy(std::move(context), std::move(request));
  }
  Task<Result<>> rename(Context context, RenameRequest request) override {
    return store_->rename(std::move(context), std::move(request));
  }
  Task<Result<SourceObject>> set_attributes(Context context, AttributesRequest request) override {
    return store_->set_attributes(std::move(context), std::move(request));
  }
  Task<Result<>> remove(Context context, RemoveRequest request) override {
    return store_->remove(std::move(context), std::move(request));
  }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override;
  Task<Result<ListPage>> list(Context context, ListRequest request) override;
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override;
  Task<Result<SourceFilePtr>> open_file(Context context, OpenRequest request) override;

 private:
  using ViewPtr = std::shared_ptr<StagedView>;

  Task<Result<std::optional<SourceObject>>> stat_once(Context context, StatRequest request,
                                                      ViewPtr view);
  Task<Result<std::optional<ListPage>>> list_once(Context context, ListRequest request,
                                                  ViewPtr view);
  Task<Result<>> read_content(Context context, StagedChangePtr change, ReadRequest request,
                              std::span<std::byte> into);
  Task<Result<bool>> still_holds(Context context, ViewPtr view, StagedView::Mark mark);
  Result<ReadRequest> stored_read(const ReadRequest& request, const StagedView& view) const;
  Task<Result<>> complete(Context context, std::vector<SourceObject>* objects, ViewPtr view);

  const std::string mount_;
  const SourcePtr store_;
  StagingService& staging_;
};

// --- stat ----------------------------------------------------------------------------------------

Task<Result<SourceObject>> StagedSource::stat(Context context, StatRequest request) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    LEAT_CO_TRY(const ViewPtr view, co_await staging_.current(context, mount_));
    if (view == nullptr || view->is_quiet()) {
      co_return co_await store_->stat(std::move(context), std::move(request));
    }
    LEAT_CO_TRY(std::optional<SourceObject> object, co_await stat_once(context, request, view));
    if (object) co_return *std::move(object);
  }
  co_return unsettled(request.key);
}

Task<Result<std::optional<SourceObject>>> StagedSource::stat_once(Context context,
                                                                  StatRequest request,
                                                                  ViewPtr view) {
  const StagedView::Mark mark = view->mark();
  const std::string key = request.key;
  const StagedPlace place = view->find(key, mark);
  if (place.kind == Kind::kMissing) {
    co_return error(StatusCode::kNotFound, fmt::format("{} was removed", key));
  }
  const bool is_known = place.kind == Kind::kContent ||
                        (place.kind == Kind::kDirectory && (place.change || place.key.empty()));
  if (is_known) co_return place.object(key, view->log());
  request.key = place.key;
  Result<SourceObject> stored = co_await store_->stat(context, std::move(request));
  if (!stored && !is_absent(stored.error())) co_return Error(stored.error());
  LEAT_CO_TRY(const bool holds, co_await still_holds(context, view, mark));
  if (!holds) co_return std::nullopt;
  if (stored) co_return StagedView::shown(*std::move(stored), key, place);
  if (place.kind == Kind::kDirectory) co_return place.object(key, view->log());
  const StagedPlace again = view->find(key, view->mark());
  if (again.kind != place.kind || again.key != place.key) co_return std::nullopt;
  if (place.key != key && view->has_renames()) {
    // A former primary may have renamed it without saying so.
    LEAT_CO_CHECK_OK(co_await sleep_for(context, kRenamePause));
    co_return std::nullopt;
  }
  co_return Error(stored.error());
}

// Returns whether an answer of the store since the mark is of the names that the view has now.
Task<Result<bool>> StagedSource::still_holds(Context context, ViewPtr view, StagedView::Mark mark) {
  if (!view->has_renames() && view->holds(mark)) co_return true;
  LEAT_CO_TRY(const ViewPtr now, co_await staging_.current(context, mount_));
  co_return now == view && view->holds(mark);
}

// --- list ----------------------------------------------------------------------------------------

Task<Result<ListPage>> StagedSource::list(Context context, ListRequest request) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    LEAT_CO_TRY(const ViewPtr view, co_await staging_.current(context, mount_));
    const bool is_ours = request.token.find(kTokenSeparator) != std::string::npos;
    if ((view == nullptr || view->is_quiet()) && !is_ours) {
      co_return co_await store_->list(std::move(context), std::move(request));
    }
    if (view == nullptr) {
      request.token = request.token.substr(request.token.find(kTokenSeparator) + 1);
      co_return co_await store_->list(std::move(context), std::move(request));
    }
    if (request.recursive) co_return co_await list_tree(*this, context, std::move(request));
    LEAT_CO_TRY(std::optional<ListPage> page, co_await list_once(context, request, view));
    if (page) co_return *std::move(page);
  }
  co_return unsettled(request.prefix);
}

Task<Result<std::optional<ListPage>>> StagedSource::list_once(Context context, ListRequest request,
                                                              ViewPtr view) {
  const StagedView::Mark mark = view->mark();
  const std::string directory = request.prefix;
  const StagedView::Level level = view->level(directory, mark);
  std::string after;
  const size_t separator = request.token.find(kTokenSeparator);
  if (separator != std::string::npos) {
    after = request.token.substr(0, separator);
    request.token = request.token.substr(separator + 1);
  }
  ListPage page;
  if (level.stored) {
    request.prefix = *level.stored;
    Result<ListPage> stored = co_await store_->list(context, request);
    const bool may_lack = level.exists && !stored && is_absent(stored.error());
    LEAT_CO_TRY(const bool holds, co_await still_holds(context, view, mark));
    if (!holds) co_return std::nullopt;
    if (!stored && is_absent(stored.error()) && *level.stored != directory && view->has_renames()) {
      LEAT_CO_CHECK_OK(co_await sleep_for(context, kRenamePause));
      co_return std::nullopt;
    }
    if (!stored && !may_lack) co_return Error(stored.error());
    if (stored) page = *std::move(stored);
  } else if (!level.exists && store_->capabilities().real_directories) {
    co_return error(StatusCode::kNotFound, fmt::format("{} was removed", directory));
  }
  const std::string stored_prefix = level.stored.value_or(directory);
  std::string last;
  if (!page.next_token.empty()) {
    if (page.objects.empty()) {
      last = after;  // no names of the view either, before the next page
    } else {
      last = directory + page.objects.back().key.substr(stored_prefix.size());
    }
    page.next_token = last + kTokenSeparator + page.next_token;
  }
  const bool is_empty_part = !page.next_token.empty() && page.objects.empty();
  if (!is_empty_part) {
    page.objects =
        view->merge(directory, stored_prefix, std::move(page.objects), after, last, mark);
    LEAT_CO_CHECK_OK(co_await complete(context, &page.objects, view));
  }
  co_return page;
}

// Files that were renamed have size and version from the store, under their former names.
Task<Result<>> StagedSource::complete(Context context, std::vector<SourceObject>* objects,
                                      ViewPtr view) {
  std::vector<SourceObject> known;
  for (SourceObject& object : *objects) {
    const bool is_file = object.kind == FileKind::kFile && !object.key.ends_with('/');
    const bool is_unknown = is_file && !object.version.known() && object.attributes == nullptr &&
                            view->find(object.key, view->mark()).key != object.key;
    if (!is_unknown) {
      known.push_back(std::move(object));
      continue;
    }
    StatRequest request{.key = object.key};
    Result<SourceObject> found = co_await stat(context, std::move(request));
    if (found) {
      known.push_back(*std::move(found));
    } else if (!is_absent(found.error())) {
      co_return Error(found.error());
    }
  }
  *objects = std::move(known);
  co_return Result<>();
}

// --- read ----------------------------------------------------------------------------------------

Result<ReadRequest> StagedSource::stored_read(const ReadRequest& request,
                                              const StagedView& view) const {
  ReadRequest stored = request;
  const StagedPlace place = view.find(request.key, view.mark());
  const auto number = staged_number(view.log(), request.if_version);
  if (place.kind == Kind::kStore) stored.key = place.key;
  if (number) {
    const auto save = view.save(*number);
    if (!save || !save->stored.known()) {
      return error(StatusCode::kVersionChanged,
                   fmt::format("the store has another version of {} by now", request.key));
    }
    const bool is_here = place.kind == Kind::kStore && place.shown == request.if_version;
    stored.if_version = is_here ? place.stored : save->stored;
    return stored;
  }
  if (is_staged_version(request.if_version) || place.kind == Kind::kMissing) {
    return error(StatusCode::kVersionChanged,
                 fmt::format("{} was changed in the cluster", request.key));
  }
  return stored;
}

Task<Result<>> StagedSource::read(Context context, ReadRequest request, std::span<std::byte> into) {
  std::optional<Status> failed;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    LEAT_CO_TRY(const ViewPtr view, co_await staging_.current(context, mount_));
    if (view == nullptr && !is_staged_version(request.if_version)) {
      co_return co_await store_->read(std::move(context), std::move(request), into);
    }
    if (view == nullptr) {
      co_return error(StatusCode::kVersionChanged,
                      fmt::format("the store has another version of {} by now", request.key));
    }
    ReadRequest rest = rest_of(request);
    const std::span<std::byte> room = into.last(rest.range.size);
    StagedChangePtr content;
    if (const auto number = staged_number(view->log(), rest.if_version)) {
      const auto save = view->save(*number);
      if (save && !save->is_done) content = save->change;
    } else if (!rest.if_version.known()) {
      const StagedPlace place = view->find(rest.key, view->mark());
      if (place.kind == Kind::kContent) content = place.change;
    }
    Result<> got;
    if (content != nullptr) {
      got = co_await read_content(context, content, std::move(rest), room);
    } else {
      LEAT_CO_TRY(ReadRequest stored, stored_read(rest, *view));
      got = co_await store_->read(context, std::move(stored), room);
    }
    if (got) co_return got;
    failed = got.error();
    // The content, or the name in the store, may have gone to another place meanwhile.
    const StatusCode code = failed->code();
    if (code != StatusCode::kNotFound && code != StatusCode::kVersionChanged) break;
    if (attempt + 1 < kReadAttempts) continue;
    if (!view->has_renames()) break;
    LEAT_CO_CHECK_OK(co_await sleep_for(context, kRenamePause));
  }
  co_return error(*failed);
}

Task<Result<>> StagedSource::read_content(Context context, StagedChangePtr change,
                                          ReadRequest request, std::span<std::byte> into) {
  if (request.range.offset + request.range.size > change->size) {
    co_return error(StatusCode::kOutOfRange, fmt::format("{} ends before that range", request.key));
  }
  for (uint64_t done = 0; done < into.size();) {
    const uint64_t size = std::min<uint64_t>(kStagedPieceBytesMax, into.size() - done);
    const ByteRange range{request.range.offset + done, size};
    LEAT_CO_TRY(const std::string bytes, co_await staging_.read_staged(context, change, range));
    std::memcpy(into.data() + done, bytes.data(), bytes.size());
    done += size;
  }
  co_return Result<>();
}

Task<Result<SourceFilePtr>> StagedSource::open_file(Context context, OpenRequest request) {
  if (staging_.is_active(mount_)) co_return SourceFilePtr();
  co_return co_await store_->open_file(std::move(context), std::move(request));
}

}  // namespace

SourcePtr make_staged_source(std::string mount, SourcePtr store, StagingService& staging) {
  return std::make_shared<StagedSource>(std::move(mount), std::move(store), staging);
}

}  // namespace leat
