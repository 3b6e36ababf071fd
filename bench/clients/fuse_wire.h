// SPDX-License-Identifier: Apache-2.0
// The raw FUSE protocol as far as a bench needs it, and a read-only file system of generated files.
// Debian 12's <linux/fuse.h> ends at 7.37; what came later is declared here under names of our own,
// so that a newer header does not clash (include/uapi/linux/fuse.h, protocol 7.45).
#pragma once

#include <errno.h>
#include <linux/fuse.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace leat::wire {

inline constexpr int kNotifyResend = 7;
inline constexpr uint64_t kUniqueResend = 1ull << 63;
inline constexpr uint64_t kHasResend = 1ull << 39;
inline constexpr uint64_t kOverIoUring = 1ull << 41;
inline constexpr uint64_t kRequestTimeout = 1ull << 42;
inline constexpr uint32_t kRingRegister = 1;
inline constexpr uint32_t kRingCommitAndFetch = 2;

// fuse_uring_req_header: `call` holds the request's header, then the reply's.
struct RingHeader {
  char call[128];
  char op[128];
  uint64_t flags;
  uint64_t commit_id;
  uint32_t payload_bytes;
  uint32_t padding;
  uint64_t reserved;
};
static_assert(sizeof(RingHeader) == 288);

// fuse_uring_cmd_req, in the upper half of a 128-byte submission entry.
struct RingCommand {
  uint64_t flags;
  uint64_t commit_id;
  uint16_t queue;
  uint8_t padding[6];
};

inline constexpr uint32_t kFiles = 4096;
inline constexpr uint64_t kFileBytes = 65536;
inline constexpr uint32_t kReadBytes = 4096;
// The kernel asks for ring payloads of at least FUSE_MIN_READ_BUFFER and max_pages pages.
inline constexpr uint32_t kPayloadBytes = 8192;
inline constexpr uint64_t kFirstNode = 2;

// The word at `offset`, a multiple of 8, of a node's file (splitmix64 of both).
inline uint64_t word_at(uint64_t node, uint64_t offset) {
  uint64_t x = (node << 32) + offset / 8 + 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// `payload_bytes` is negative where the kernel wants no reply.
struct Reply {
  int error = 0;
  int payload_bytes = 0;
};

inline fuse_attr attributes_of(uint64_t node) {
  fuse_attr attributes{};
  attributes.ino = node;
  attributes.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0444;
  attributes.size = node == FUSE_ROOT_ID ? 0 : kFileBytes;
  attributes.nlink = 1;
  attributes.blksize = 4096;
  return attributes;
}

template <typename Out>
Reply put(char* payload, const Out& out) {
  std::memcpy(payload, &out, sizeof(out));
  return {0, static_cast<int>(sizeof(out))};
}

inline Reply look_up(const char* name, char* payload) {
  char* end = nullptr;
  const unsigned long file = name[0] == 'f' ? std::strtoul(name + 1, &end, 10) : kFiles;
  if (file >= kFiles || *end != 0) return {-ENOENT, 0};
  fuse_entry_out entry{};
  entry.nodeid = kFirstNode + file;
  entry.attr = attributes_of(entry.nodeid);
  return put(payload, entry);
}

inline Reply read_file(uint64_t node, const char* op, char* payload) {
  fuse_read_in in;
  std::memcpy(&in, op, sizeof(in));
  uint32_t bytes = 0;
  for (; bytes < in.size && bytes < kPayloadBytes && in.offset + bytes < kFileBytes; bytes += 8) {
    const uint64_t word = word_at(node, in.offset + bytes);
    std::memcpy(payload + bytes, &word, sizeof(word));
  }
  return {0, static_cast<int>(bytes)};
}

// Everything is valid for no time and no page outlives its open, so that each operation comes here.
// Odd nodes are read past the page cache (a waiting request), even ones through it (a background
// request), as the kernel keeps the two in different places.
inline Reply answer(const fuse_in_header& in, const char* op, const char* name, char* payload) {
  switch (in.opcode) {
    case FUSE_LOOKUP:
      return look_up(name, payload);
    case FUSE_GETATTR: {
      fuse_attr_out out{};
      out.attr = attributes_of(in.nodeid);
      return put(payload, out);
    }
    case FUSE_OPEN: {
      fuse_open_out out{};
      out.fh = in.nodeid;
      out.open_flags = in.nodeid % 2 == 1 ? FOPEN_DIRECT_IO : 0;
      return put(payload, out);
    }
    case FUSE_READ:
      return read_file(in.nodeid, op, payload);
    case FUSE_RELEASE:
    case FUSE_DESTROY:
      return {};
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      return {0, -1};
    default:
      return {-ENOSYS, 0};
  }
}

// `wanted` is requested only as far as the kernel offers it; `timeout_s`, 0 for none, is the time
// after which the kernel gives a request up.
inline Reply answer_init(const char* op, uint64_t wanted, uint16_t timeout_s, char* payload) {
  fuse_init_in in;
  std::memcpy(&in, op, sizeof(in));
  const uint64_t offered = in.flags | (static_cast<uint64_t>(in.flags2) << 32);
  wanted |= FUSE_INIT_EXT | FUSE_ASYNC_READ | FUSE_MAX_PAGES | FUSE_PARALLEL_DIROPS | kHasResend;
  if (timeout_s > 0) wanted |= kRequestTimeout;
  fuse_init_out out{};
  out.major = FUSE_KERNEL_VERSION;
  out.minor = in.minor;
  out.flags = static_cast<uint32_t>(offered & wanted);
  out.flags2 = static_cast<uint32_t>((offered & wanted) >> 32);
  out.max_background = 64;
  out.congestion_threshold = 48;
  out.max_write = kPayloadBytes;
  out.max_pages = kPayloadBytes / 4096;
  const Reply reply = put(payload, out);
  // request_timeout follows max_stack_depth, which follows flags2; both are `unused` in old
  // headers.
  std::memcpy(payload + offsetof(fuse_init_out, flags2) + 8, &timeout_s, sizeof(timeout_s));
  return reply;
}

}  // namespace leat::wire
