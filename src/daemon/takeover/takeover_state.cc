// SPDX-License-Identifier: Apache-2.0
#include "daemon/takeover/takeover_state.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/crc32c.h"
#include "frontends/admin/codec.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr const char* kListName = "leat-mounts";
constexpr std::string_view kConnectionPrefix = "leat-fuse-";
constexpr std::string_view kRecordsPrefix = "leat-nodes-";

std::string connection_name(uint64_t number) {
  return fmt::format("{}{}", kConnectionPrefix, number);
}
std::string records_name(uint64_t number) {
  return fmt::format("{}{}", kRecordsPrefix, number);
}

// Two slots, written in turn; the newest complete one counts.
struct TextHead {
  uint64_t number;
  uint32_t bytes;
  uint32_t crc;
};
constexpr off_t kSlotBytes = sizeof(TextHead) + MemfdText::kBytesMax;

std::optional<std::pair<uint64_t, std::string>> read_place(int fd, int slot) {
  TextHead head{};
  const off_t at = slot * kSlotBytes;
  if (::pread(fd, &head, sizeof head, at) != sizeof head || head.number == 0) return std::nullopt;
  if (head.bytes > MemfdText::kBytesMax) return std::nullopt;
  std::string text(head.bytes, '\0');
  if (::pread(fd, text.data(), text.size(), at + static_cast<off_t>(sizeof head)) !=
      static_cast<ssize_t>(text.size())) {
    return std::nullopt;
  }
  if (crc32c(std::as_bytes(std::span(text))) != head.crc) return std::nullopt;
  return std::pair(head.number, std::move(text));
}

Json to_json(const SavedMount& mount) {
  return {{"request", to_json(mount.request)},
          {"door", mount.connection_number},
          {"lingering", mount.lingering},
          {"snapshot_id", mount.snapshot_id},
          {"untold", mount.invalidation_pending}};
}

}  // namespace

Result<MemfdText> MemfdText::create() {
  File memory(::memfd_create(kListName, MFD_CLOEXEC));
  if (!memory) return error(status_from_errno(errno, "cannot make a memory file"));
  return MemfdText(std::move(memory));
}

Result<> MemfdText::write(const std::string& text) {
  if (text.size() > kBytesMax) {
    return error(StatusCode::kUnsupported,
                 fmt::format("{} bytes exceed the limit of {}", text.size(), kBytesMax));
  }
  uint64_t newest = 0;
  int slot = 0;
  for (int i = 0; i < 2; ++i) {
    const auto there = read_place(memory_.fd(), i);
    if (!there || there->first <= newest) continue;
    newest = there->first;
    slot = 1 - i;
  }
  const TextHead head{.number = newest + 1,
                      .bytes = static_cast<uint32_t>(text.size()),
                      .crc = crc32c(std::as_bytes(std::span(text)))};
  const off_t at = slot * kSlotBytes;
  if (::pwrite(memory_.fd(), text.data(), text.size(), at + static_cast<off_t>(sizeof head)) !=
          static_cast<ssize_t>(text.size()) ||
      ::pwrite(memory_.fd(), &head, sizeof head, at) != sizeof head) {
    return error(status_from_errno(errno, "cannot write to a memory file"));
  }
  return {};
}

std::string MemfdText::read() const {
  std::pair<uint64_t, std::string> newest{0, ""};
  for (int i = 0; i < 2; ++i) {
    if (auto there = read_place(memory_.fd(), i); there && there->first > newest.first) {
      newest = *std::move(there);
    }
  }
  return newest.second;
}

TakeoverState::TakeoverState(FdStore& fd_store) : fd_store_(fd_store) {
  for (const std::string& name : fd_store_.names()) {
    if (!name.starts_with(kConnectionPrefix)) continue;
    uint64_t number = 0;
    std::from_chars(name.data() + kConnectionPrefix.size(), name.data() + name.size(), number);
    last_number_ = std::max(last_number_, number);
  }
}

std::vector<SavedMount> TakeoverState::load() {
  std::vector<SavedMount> mounts;
  std::lock_guard lock(mutex_);
  if (std::optional<File> memory = fd_store_.take(kListName)) {
    list_ = MemfdText::of(*std::move(memory));
    Result<Json> list = parse_json(list_->read(), "the list of mounts");
    if (!list) {
      log::error("failed to read the mounts of the previous daemon: {}", list.error().to_string());
      return mounts;
    }
    for (const Json& item : list->value("mounts", Json::array())) {
      Result<MountRequest> request = from_json<MountRequest>(item.value("request", Json()));
      if (!request) {
        log::error("failed to read a mount of the previous daemon: {}",
                   request.error().to_string());
        continue;
      }
      mounts.push_back({.request = *std::move(request),
                        .connection_number = item.value("door", uint64_t{0}),
                        .lingering = item.value("lingering", false),
                        .snapshot_id = item.value("snapshot_id", ""),
                        .invalidation_pending = item.value("untold", false)});
      last_number_ = std::max(last_number_, mounts.back().connection_number);
    }
  }
  std::ranges::sort(mounts, {}, [](const SavedMount& mount) { return mount.request.path; });
  return mounts;
}

Result<TakeoverState::SavedConnection> TakeoverState::take(uint64_t number) {
  std::optional<File> connection = fd_store_.take(connection_name(number));
  std::optional<File> memory = fd_store_.take(records_name(number));
  if (!connection || !memory) {
    return error(StatusCode::kNotFound, "its connection has ended");
  }
  LEAT_TRY(std::unique_ptr<MemfdRecordTable> records, MemfdRecordTable::adopt(*std::move(memory)));
  return SavedConnection{.connection = *std::move(connection), .records = std::move(records)};
}

void TakeoverState::close_unclaimed() {
  for (const std::string& name : fd_store_.names()) {
    log::warning("closing {}: no mount uses it", name);
    (void)fd_store_.take(name);
    fd_store_.remove(name);
  }
}

uint64_t TakeoverState::new_number() {
  std::lock_guard lock(mutex_);
  return ++last_number_;
}

Result<> TakeoverState::store(uint64_t number, int connection, const MemfdRecordTable& records) {
  LEAT_CHECK_OK(fd_store_.store(records_name(number), records.fd()));
  return fd_store_.store(connection_name(number), connection);
}

void TakeoverState::remove(uint64_t number) {
  fd_store_.remove(connection_name(number));
  fd_store_.remove(records_name(number));
}

void TakeoverState::write(const std::vector<SavedMount>& mounts) {
  if (!enabled()) return;
  Json list = Json::array();
  for (const SavedMount& mount : mounts) list.push_back(to_json(mount));
  const std::string text = Json{{"version", 1}, {"mounts", std::move(list)}}.dump();
  std::lock_guard lock(mutex_);
  auto put = [&]() -> Result<> {
    if (list_) return list_->write(text);
    LEAT_TRY(MemfdText fresh, MemfdText::create());
    LEAT_CHECK_OK(fresh.write(text));
    LEAT_CHECK_OK(fd_store_.store(kListName, fresh.fd()));
    list_ = std::move(fresh);
    return {};
  };
  if (auto written = put(); !written) {
    log::warning("failed to save the mounts for a takeover: {}", written.error().to_string());
  }
}

}  // namespace leat
