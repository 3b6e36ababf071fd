// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/snapshot_entry.h"

#include <algorithm>

#include "catalog/snapshot/snapshot_layout.h"

namespace leat {
namespace {

using namespace snapshot_layout;

constexpr int64_t kSecond = 1'000'000'000;

void put_varint(std::string& into, uint64_t value) {
  for (; value >= 0x80; value >>= 7) into += static_cast<char>(value | 0x80);
  into += static_cast<char>(value);
}

// Small for numbers near zero on either side.
uint64_t zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t unzigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Encodes a quoted even number of lower-case hexadecimal digits, as in most entity tags, as bytes.
bool append_hex(std::string& into, std::string_view value) {
  const bool quoted = value.size() >= 4 && value.size() % 2 == 0 && value.size() <= 130 &&
                      value.front() == '"' && value.back() == '"';
  if (!quoted) return false;
  value = value.substr(1, value.size() - 2);
  if (!std::ranges::all_of(value, [](char c) { return digit(c) >= 0; })) return false;
  put_varint(into, value.size() / 2);
  for (size_t i = 0; i < value.size(); i += 2) {
    into += static_cast<char>(digit(value[i]) << 4 | digit(value[i + 1]));
  }
  return true;
}

struct Reader {
  std::span<const std::byte> bytes;
  size_t at;
  bool ok = true;

  uint8_t byte() {
    if (at >= bytes.size()) return static_cast<uint8_t>(ok = false);
    return std::to_integer<uint8_t>(bytes[at++]);
  }
  uint64_t varint() {
    // The common case.
    if (at < bytes.size() && std::to_integer<uint8_t>(bytes[at]) < 0x80) {
      return std::to_integer<uint8_t>(bytes[at++]);
    }
    return long_varint();
  }
  uint64_t long_varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t part = byte();
      value |= uint64_t{part & 0x7fu} << shift;
      if (part < 0x80) return value;
    }
    ok = false;
    return 0;
  }
  std::string_view text(uint64_t size) {
    if (size > bytes.size() - at) {
      ok = false;
      return {};
    }
    std::string_view found(reinterpret_cast<const char*>(bytes.data()) + at, size);
    at += size;
    return found;
  }
};

Version::Kind version_kind(uint8_t flags) {
  return static_cast<Version::Kind>(flags >> kVersionKindShift & kVersionKindMask);
}

void read_version(Reader& reader, uint8_t flags, Version& version) {
  version.kind = version_kind(flags);
  version.value.clear();
  if (!version.known()) return;
  std::string_view value = reader.text(reader.varint());
  if ((flags & kHexVersion) == 0) {
    version.value = value;
    return;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  version.value.reserve(2 * value.size() + 2);
  version.value += '"';
  for (char c : value) {
    version.value += kDigits[static_cast<uint8_t>(c) >> 4];
    version.value += kDigits[static_cast<uint8_t>(c) & 15];
  }
  version.value += '"';
}

bool read_path(Reader& reader, std::string& path) {
  const uint64_t shared = reader.varint(), rest = reader.varint();
  std::string_view suffix = reader.text(rest);
  if (!reader.ok || shared > path.size()) return false;
  path.resize(shared);
  path += suffix;
  return true;
}

}  // namespace

size_t append_entry(std::string& into, const SnapshotEntry& entry, size_t shared) {
  const size_t flags_at = into.size();
  auto flags = static_cast<uint8_t>(static_cast<uint8_t>(entry.version.kind) << kVersionKindShift);
  const bool directory = entry.kind == FileKind::kDirectory;
  if (directory) flags |= kDirectory;
  if (entry.local) flags |= kLocal;
  into += '\0';  // the flags, set below
  put_varint(into, shared);
  put_varint(into, entry.path.size() - shared);
  into.append(entry.path, shared);
  const size_t below_at = into.size();
  if (directory) {
    into.append(kBelowBytes, '\0');
  } else {
    put_varint(into, entry.size);
  }
  if (entry.mtime_ns) {
    const bool whole = *entry.mtime_ns % kSecond == 0;
    flags |= whole ? kHasMtime | kWholeSeconds : kHasMtime;
    put_varint(into, zigzag(whole ? *entry.mtime_ns / kSecond : *entry.mtime_ns));
  }
  if (entry.version.known()) {
    if (append_hex(into, entry.version.value)) {
      flags |= kHexVersion;
    } else {
      put_varint(into, entry.version.value.size());
      into += entry.version.value;
    }
  }
  into[flags_at] = static_cast<char>(flags);
  if (directory) write_below({into.data() + below_at, kBelowBytes}, entry.below);
  return below_at;
}

void write_below(std::span<char> place, uint64_t below) {
  for (char& byte : place) {
    byte = static_cast<char>(below);
    below >>= 8;
  }
}

bool read_path(std::span<const std::byte> bytes, size_t& at, SnapshotEntry& entry) {
  Reader reader{bytes, at};
  const uint8_t flags = reader.byte();
  if (!read_path(reader, entry.path)) return false;
  if ((flags & kDirectory) != 0) {
    reader.text(kBelowBytes);
  } else {
    reader.varint();
  }
  if ((flags & kHasMtime) != 0) reader.varint();
  if (version_kind(flags) != Version::Kind::kNone) reader.text(reader.varint());
  at = reader.at;
  return reader.ok;
}

bool read_entry(std::span<const std::byte> bytes, size_t& at, SnapshotEntry& entry) {
  Reader reader{bytes, at};
  const uint8_t flags = reader.byte();
  if (!read_path(reader, entry.path)) return false;
  entry.local = (flags & kLocal) != 0;
  entry.below = entry.size = 0;
  if ((flags & kDirectory) != 0) {
    entry.kind = FileKind::kDirectory;
    for (unsigned i = 0; i < kBelowBytes; ++i) entry.below |= uint64_t{reader.byte()} << (8 * i);
  } else {
    entry.kind = FileKind::kFile;
    entry.size = reader.varint();
  }
  entry.mtime_ns.reset();
  if ((flags & kHasMtime) != 0) {
    int64_t time = unzigzag(reader.varint());
    if ((flags & kWholeSeconds) != 0 && __builtin_mul_overflow(time, kSecond, &time)) return false;
    entry.mtime_ns = time;
  }
  read_version(reader, flags, entry.version);
  if (!reader.ok || entry.version.kind > Version::Kind::kSizeMtime) return false;
  at = reader.at;
  return true;
}

PathOfEntry path_of_entry(std::span<const std::byte> bytes, size_t at) {
  Reader reader{bytes, at};
  const uint8_t flags = reader.byte();
  reader.varint();  // shared bytes: none
  const uint64_t size = reader.varint();
  return {reader.text(size), (flags & kDirectory) != 0};
}

}  // namespace leat
