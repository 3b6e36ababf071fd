// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a snapshot file: rejected, or listed to the end, searched and walked, without
// a read outside of it.
#include "catalog/snapshot/snapshot.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/seeds_fuzz.h"
#include "catalog/snapshot/snapshot_layout.h"
#include "catalog/snapshot/snapshot_writer.h"

namespace leat {
namespace {

constexpr size_t kRestCrcAt = 152, kSizeAt = 144;
constexpr int kLookUpsMax = 64;

void walk(std::span<const std::byte> bytes) {
  const int fd = ::memfd_create("snapshot", MFD_CLOEXEC);
  LEAT_CHECK(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  auto opened = Snapshot::open("/proc/self/fd/" + std::to_string(fd));
  ::close(fd);
  if (!opened) return;
  const Snapshot& snapshot = **opened;
  Snapshot::Cursor all = snapshot.all();
  uint64_t seen = 0;
  int looked_up = 0;
  while (auto entry = all.next()) {
    LEAT_CHECK(++seen <= snapshot.size());
    if (++looked_up > kLookUpsMax) continue;
    auto found = snapshot.find(entry->path);
    auto below = snapshot.below(entry->path);
    static_cast<void>(found);
    if (below) below->next();
    Snapshot::Cursor skipping = snapshot.all();
    for (int i = 0; i < looked_up && skipping.next(); ++i) skipping.skip_below();
  }
  auto missing = snapshot.find("no/such/name");
  static_cast<void>(missing);
}

void write_snapshot(const std::string& folder, const std::string& name, int files) {
  SnapshotHead head;
  head.store = make_store_id("s3", "localhost", "", "bucket");
  head.source = "s3://bucket/train/";
  head.prefix = "train/";
  SnapshotWriter writer({.path = folder + "/" + name}, head);
  for (int i = 0; i < files; ++i) {
    SnapshotEntry entry;
    entry.path = "d" + std::to_string(i / 5) + "/e/f" + std::to_string(i);
    entry.size = static_cast<uint64_t>(i) * 1000;
    if (i % 2 == 0) entry.mtime_ns = 1'700'000'000'000'000'000 + i;
    entry.version =
        i % 3 == 0 ? Version::etag("\"d41d8cd98f00b204e9800998ecf8427e\"") : Version::etag("\"v\"");
    LEAT_CHECK(writer.add(entry).has_value());
  }
  LEAT_CHECK(writer.finish().has_value());
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  if (folder.empty()) return 0;
  for (int files : {0, 1, 12, 60}) leat::write_snapshot(folder, std::to_string(files), files);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat::snapshot_layout;
  std::vector<std::byte> bytes = leat::bytes_of(data, size);
  leat::walk(bytes);
  if (bytes.size() < kHeaderBytes) return 0;
  const uint64_t length = bytes.size();
  std::memcpy(bytes.data() + leat::kSizeAt, &length, sizeof length);
  leat::put_crc(bytes, leat::kRestCrcAt, leat::crc32c(std::span(bytes).subspan(kHeaderBytes)));
  leat::put_crc(bytes, kHeaderCrcOffset, leat::crc32c(std::span(bytes).first(kHeaderCrcOffset)));
  leat::walk(bytes);
  return 0;
}
