// SPDX-License-Identifier: Apache-2.0
#include "apps/daemon/kept_mounts.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/crc32c.h"
#include "doors/admin/codec.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr const char* kListName = "leat-mounts";
constexpr std::string_view kConnectionPrefix = "leat-fuse-";
constexpr std::string_view kRecordsPrefix = "leat-nodes-";

std::string connection_name(uint64_t door) {
  return fmt::format("{}{}", kConnectionPrefix, door);
}
std::string records_name(uint64_t door) {
  return fmt::format("{}{}", kRecordsPrefix, door);
}

// Two slots, written in turn; the newest complete one counts.
struct TextHead {
  uint64_t number;
  uint32_t bytes;
  uint32_t crc;
};
constexpr off_t kPlaceBytes = sizeof(TextHead) + KeptText::kBytesMax;

std::optional<std::pair<uint64_t, std::string>> read_place(int fd, int place) {
  TextHead head{};
  const off_t at = place * kPlaceBytes;
  if (::pread(fd, &head, sizeof head, at) != sizeof head || head.number == 0) return std::nullopt;
  if (head.bytes > KeptText::kBytesMax) return std::nullopt;
  std::string text(head.bytes, '\0');
  if (::pread(fd, text.data(), text.size(), at + static_cast<off_t>(sizeof head)) !=
      static_cast<ssize_t>(text.size())) {
    return std::nullopt;
  }
  if (crc32c(std::as_bytes(std::span(text))) != head.crc) return std::nullopt;
  return std::pair(head.number, std::move(text));
}

Json to_json(const KeptMount& mount) {
  return {{"request", to_json(mount.request)},
          {"door", mount.door},
          {"lingering", mount.lingering},
          {"snapshot_id", mount.snapshot_id},
          {"untold", mount.untold}};
}

}  // namespace

Result<KeptText> KeptText::create() {
  File memory(::memfd_create(kListName, MFD_CLOEXEC));
  if (!memory) return error(status_from_errno(errno, "cannot make a memory file"));
  return KeptText(std::move(memory));
}

Result<> KeptText::write(const std::string& text) {
  if (text.size() > kBytesMax) {
    return error(StatusCode::kUnsupported,
                 fmt::format("{} bytes are more than fit, which is {}", text.size(), kBytesMax));
  }
  uint64_t newest = 0;
  int place = 0;
  for (int i = 0; i < 2; ++i) {
    const auto there = read_place(memory_.fd(), i);
    if (!there || there->first <= newest) continue;
    newest = there->first;
    place = 1 - i;
  }
  const TextHead head{.number = newest + 1,
                      .bytes = static_cast<uint32_t>(text.size()),
                      .crc = crc32c(std::as_bytes(std::span(text)))};
  const off_t at = place * kPlaceBytes;
  if (::pwrite(memory_.fd(), text.data(), text.size(), at + static_cast<off_t>(sizeof head)) !=
          static_cast<ssize_t>(text.size()) ||
      ::pwrite(memory_.fd(), &head, sizeof head, at) != sizeof head) {
    return error(status_from_errno(errno, "cannot write to a memory file"));
  }
  return {};
}

std::string KeptText::read() const {
  std::pair<uint64_t, std::string> newest{0, ""};
  for (int i = 0; i < 2; ++i) {
    if (auto there = read_place(memory_.fd(), i); there && there->first > newest.first) {
      newest = *std::move(there);
    }
  }
  return newest.second;
}

KeptMounts::KeptMounts(KeptDescriptors& keeper) : keeper_(keeper) {
  for (const std::string& name : keeper_.left()) {
    if (!name.starts_with(kConnectionPrefix)) continue;
    uint64_t number = 0;
    std::from_chars(name.data() + kConnectionPrefix.size(), name.data() + name.size(), number);
    last_door_ = std::max(last_door_, number);
  }
}

std::vector<KeptMount> KeptMounts::left() {
  std::vector<KeptMount> mounts;
  std::lock_guard lock(mutex_);
  if (std::optional<File> memory = keeper_.take(kListName)) {
    list_ = KeptText::of(*std::move(memory));
    Result<Json> list = parse_json(list_->read(), "the list of mounts");
    if (!list) {
      log::error("the mounts of the daemon before are lost: {}", list.error().to_string());
      return mounts;
    }
    for (const Json& item : list->value("mounts", Json::array())) {
      Result<MountRequest> request = from_json<MountRequest>(item.value("request", Json()));
      if (!request) {
        log::error("a mount of the daemon before is lost: {}", request.error().to_string());
        continue;
      }
      mounts.push_back({.request = *std::move(request),
                        .door = item.value("door", uint64_t{0}),
                        .lingering = item.value("lingering", false),
                        .snapshot_id = item.value("snapshot_id", ""),
                        .untold = item.value("untold", false)});
      last_door_ = std::max(last_door_, mounts.back().door);
    }
  }
  std::ranges::sort(mounts, {}, [](const KeptMount& mount) { return mount.request.path; });
  return mounts;
}

Result<KeptMounts::Door> KeptMounts::take(uint64_t door) {
  std::optional<File> connection = keeper_.take(connection_name(door));
  std::optional<File> memory = keeper_.take(records_name(door));
  if (!connection || !memory) {
    return error(StatusCode::kNotFound, "its connection has ended");
  }
  LEAT_TRY(std::unique_ptr<SharedRecords> records, SharedRecords::adopt(*std::move(memory)));
  return Door{.connection = *std::move(connection), .records = std::move(records)};
}

void KeptMounts::drop_what_is_left() {
  for (const std::string& name : keeper_.left()) {
    log::warning("{} is nobody's any more; it ends", name);
    (void)keeper_.take(name);
    keeper_.drop(name);
  }
}

uint64_t KeptMounts::new_door() {
  std::lock_guard lock(mutex_);
  return ++last_door_;
}

Result<> KeptMounts::keep(uint64_t door, int connection, const SharedRecords& records) {
  LEAT_CHECK_OK(keeper_.keep(records_name(door), records.fd()));
  return keeper_.keep(connection_name(door), connection);
}

void KeptMounts::drop(uint64_t door) {
  keeper_.drop(connection_name(door));
  keeper_.drop(records_name(door));
}

void KeptMounts::write(const std::vector<KeptMount>& mounts) {
  if (!kept()) return;
  Json list = Json::array();
  for (const KeptMount& mount : mounts) list.push_back(to_json(mount));
  const std::string text = Json{{"version", 1}, {"mounts", std::move(list)}}.dump();
  std::lock_guard lock(mutex_);
  auto put = [&]() -> Result<> {
    if (list_) return list_->write(text);
    LEAT_TRY(KeptText fresh, KeptText::create());
    LEAT_CHECK_OK(fresh.write(text));
    LEAT_CHECK_OK(keeper_.keep(kListName, fresh.fd()));
    list_ = std::move(fresh);
    return {};
  };
  if (auto written = put(); !written) {
    log::warning("if this daemon dies, its mounts are as they were before: {}",
                 written.error().to_string());
  }
}

}  // namespace leat
