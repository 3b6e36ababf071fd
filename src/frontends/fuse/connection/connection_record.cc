// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/connection/connection_record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/read_file.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr std::string_view kHead = "leat-connections 1";

// Returns "" for a file that has just disappeared.
std::string text_of(const std::string& path) {
  return read_file(path).value_or("");
}

}  // namespace

std::string this_boot() {
  std::string id = text_of("/proc/sys/kernel/random/boot_id");
  while (id.ends_with('\n')) id.pop_back();
  return id;
}

uint64_t start_ticks_in(std::string_view stat) {
  // The name may hold any characters; it ends at the last bracket.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return 0;
  std::istringstream words{std::string(stat.substr(name_end + 1))};
  std::string skipped;
  for (int field = 3; field < 22; ++field) words >> skipped;
  uint64_t ticks = 0;
  words >> ticks;
  return words ? ticks : 0;
}

ProcessIdentity identify_process(int pid) {
  return {pid, start_ticks_in(text_of(fmt::format("/proc/{}/stat", pid))), this_boot()};
}

ProcessIdentity this_process() {
  return identify_process(::getpid());
}

std::string to_text(const RecordedConnections& record) {
  std::string text = fmt::format("{}\nprocess {} {} {}\n", kHead, record.process.pid,
                                 record.process.start_ticks, record.process.boot_id);
  if (record.supervisor.pid != 0) {
    text += fmt::format("keeper {} {} {}\n", record.supervisor.pid, record.supervisor.start_ticks,
                        record.supervisor.boot_id);
  }
  for (const MountinfoLine& mount : record.mounts) {
    text += fmt::format("mount {} {} {} {}\n", mount.device, mount.point, mount.type, mount.source);
  }
  return text;
}

Result<RecordedConnections> parse_connections(std::string_view text) {
  const Error wrong = error(StatusCode::kCorrupt, "not a list of FUSE connections");
  std::istringstream lines{std::string(text)};
  std::string line, kind;
  if (!std::getline(lines, line) || line != kHead) return wrong;
  RecordedConnections record;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    words >> kind;
    if (kind == "process") {
      words >> record.process.pid >> record.process.start_ticks >> record.process.boot_id;
    } else if (kind == "keeper") {
      words >> record.supervisor.pid >> record.supervisor.start_ticks >> record.supervisor.boot_id;
    } else if (kind == "mount") {
      MountinfoLine& mount = record.mounts.emplace_back();
      words >> mount.device >> mount.point >> mount.type >> mount.source;
    }
    if (!words) return wrong;
  }
  if (record.process.pid <= 0) return wrong;
  return record;
}

ConnectionRecord::ConnectionRecord(std::string file, ProcessIdentity supervisor)
    : file_(std::move(file)), supervisor_(std::move(supervisor)) {
  ::unlink(file_.c_str());
}

ConnectionRecord::~ConnectionRecord() {
  ::unlink(file_.c_str());
}

std::string ConnectionRecord::add(const std::string& mountpoint) {
  MountinfoLine newest;
  for (MountinfoLine& mount : mounts_of_this_namespace()) {
    if (unescape_mount(mount.point) == mountpoint) newest = std::move(mount);
  }
  if (newest.device.empty()) return "";
  std::lock_guard lock(mutex_);
  mounts_[newest.device] = newest;
  write();
  return newest.device;
}

void ConnectionRecord::remove(const std::string& device) {
  std::lock_guard lock(mutex_);
  if (mounts_.erase(device) > 0) write();
}

void ConnectionRecord::write() {
  RecordedConnections record{.process = this_process(), .supervisor = supervisor_, .mounts = {}};
  for (const auto& [device, mount] : mounts_) record.mounts.push_back(mount);
  const std::string fresh = file_ + ".new";
  std::ofstream out(fresh, std::ios::trunc);
  out << to_text(record);
  out.close();
  if (!out || std::rename(fresh.c_str(), file_.c_str()) != 0) {
    log::warning("cannot write {}: if this daemon is killed, its hanging mounts cannot be freed",
                 file_);
  }
}

}  // namespace leat
