// SPDX-License-Identifier: Apache-2.0
// Every record on disk: decoding returns what was encoded, accepts nothing else, and does not
// crash.
#include <gtest/gtest.h>

#include <random>

#include "base/hash.h"
#include "cache/files/object_meta.h"

#include "cache/packed/segment_record.h"
#include "cache/superblock.h"

namespace leat {
namespace {

std::span<const std::byte> span_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

FileRef some_ref(uint64_t size = 5 * kBlockBytes + 1) {
  return FileRef::make(make_store_id("s3", "host", "", "bucket"), "a/key",
                       Version::etag("\"0af3\""), size);
}

std::string new_meta(const FileRef& ref) {
  std::string file = ObjectMeta::encode_new(ref);
  file.resize(ObjectMeta::file_bytes(ref));
  return file;
}

SegmentRecord some_record() {
  SegmentRecord record;
  record.ref = some_ref(kBlockBytes + 1);
  record.offset = 8192;
  record.crcs = {1, 2};
  return record;
}

Superblock some_superblock() {
  Superblock block;
  block.uuid = Id128::random();
  block.worker = Id128::random();
  block.clean = true;
  return block;
}

// Calls `taken` with every prefix of `good`, `good` with each bit flipped, and random bytes.
template <class F>
void mistreat(const std::string& good, F taken) {
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(taken(good.substr(0, size))) << "cut to " << size;
  }
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(taken(flipped)) << "bit " << bit;
  }
  unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string noise = good.substr(0, random() % 24);  // often with a good beginning
    noise.resize(random() % 400);
    for (size_t i = noise.size() / 2; i < noise.size(); ++i) noise[i] = static_cast<char>(random());
    EXPECT_FALSE(taken(noise));
  }
}

TEST(Superblock, IsReadAsWritten) {
  Superblock block = some_superblock();
  block.compatible = 0xf0;  // unknown compatible features are ignored
  auto read = Superblock::decode(span_of(block.encode()), "/d");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->uuid, block.uuid);
  EXPECT_EQ(read->worker, block.worker);
  EXPECT_TRUE(read->clean);
  EXPECT_EQ(read->compatible, 0xf0u);
}

TEST(Superblock, UnknownFeaturesAreRejectedWithAdvice) {
  Superblock block = some_superblock();
  block.incompatible = 4;
  auto read = Superblock::decode(span_of(block.encode()), "/the/directory");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), StatusCode::kUnsupported);
  for (const char* part : {"/the/directory", "0x4", "--cache-dir"}) {
    EXPECT_NE(read.error().message().find(part), std::string::npos) << read.error().message();
  }
}

TEST(Superblock, TakesNothingElse) {
  mistreat(some_superblock().encode(), [](const std::string& bytes) {
    return Superblock::decode(span_of(bytes), "/d").has_value();
  });
}

// Formats on users' disks: a change here is a new format version.
TEST(Format, IsFrozen) {
  // Not a CRC: the CRC of a record that ends in its own CRC is constant.
  auto print = [](const std::string& bytes) { return hash_bytes(bytes); };
  Superblock block;
  block.uuid.bytes.fill(0x11);
  block.worker.bytes.fill(0x22);
  block.clean = true;
  EXPECT_EQ(print(block.encode()), 2872552244937517691u);
  EXPECT_EQ(print(new_meta(some_ref())), 6746079071237317710u);
  EXPECT_EQ(print(ObjectMeta::encode_blocks(std::vector<uint32_t>{1, 2})), 8190324102671062942u);
  EXPECT_EQ(print(some_record().encode()), 8012078037745875309u);
  EXPECT_EQ(print(SegmentHeader{7, block.uuid}.encode()), 13406586013246610892u);
}

TEST(ObjectMeta, IsReadAsWritten) {
  FileRef ref = some_ref();
  std::string file = new_meta(ref);
  EXPECT_EQ(file.size(), ObjectMeta::file_bytes(ref));
  auto read = ObjectMeta::decode(span_of(file));
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->ref.id, ref.id);
  EXPECT_EQ(read->ref.key, ref.key);
  EXPECT_EQ(read->state, ObjectMeta::State::kFilling);
  EXPECT_EQ(read->blocks, std::vector<std::optional<uint32_t>>(6));

  std::vector<uint32_t> crcs = {7, 0};
  std::string blocks = ObjectMeta::encode_blocks(crcs);
  file.replace(ObjectMeta::new_header_bytes(ref) + 3 * ObjectMeta::kRecordBytes, blocks.size(),
               blocks);
  std::string state = ObjectMeta::encode_state(ObjectMeta::State::kComplete);
  file.replace(ObjectMeta::kStateOffset, state.size(), state);
  read = ObjectMeta::decode(span_of(file));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->state, ObjectMeta::State::kComplete);
  EXPECT_EQ(read->blocks[2], std::nullopt);
  EXPECT_EQ(read->blocks[3], 7u);
  EXPECT_EQ(read->blocks[4], 0u);
}

TEST(ObjectMeta, DamagedBlockRecordReadsAsMissing) {
  FileRef ref = some_ref(kBlockBytes);
  std::string file = new_meta(ref);
  std::vector<uint32_t> crcs = {0x12345678};
  size_t block_at = ObjectMeta::new_header_bytes(ref);
  file.replace(block_at, 8, ObjectMeta::encode_blocks(crcs));
  mistreat(file, [&](const std::string& bytes) {
    auto read = ObjectMeta::decode(span_of(bytes));
    return read && read->blocks[0].has_value();
  });
}

TEST(SegmentRecord, IsReadAsWrittenAndAppends) {
  SegmentRecord record = some_record(), dropped;
  dropped.kind = SegmentRecord::Kind::kTombstone;
  dropped.ref.id = record.ref.id;
  std::string index = record.encode() + dropped.encode();
  size_t at = 0;
  auto first = SegmentRecord::decode(span_of(index), &at);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->ref.id, record.ref.id);
  EXPECT_EQ(first->ref.store, record.ref.store);
  EXPECT_EQ(first->ref.key, record.ref.key);
  EXPECT_EQ(first->ref.version, record.ref.version);
  EXPECT_EQ(first->ref.size, record.ref.size);
  EXPECT_EQ(first->offset, record.offset);
  EXPECT_EQ(first->crcs, record.crcs);
  auto second = SegmentRecord::decode(span_of(index).subspan(at), &at);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->kind, SegmentRecord::Kind::kTombstone);
  EXPECT_EQ(at, index.size());
}

TEST(SegmentRecord, TakesNothingElse) {
  mistreat(some_record().encode(), [](const std::string& bytes) {
    size_t at = 0;
    return SegmentRecord::decode(span_of(bytes), &at).has_value();
  });
}

TEST(SegmentHeader, TakesNothingElse) {
  SegmentHeader header{7, Id128::random()};
  auto read = SegmentHeader::decode(span_of(header.encode()));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->sequence, 7u);
  EXPECT_EQ(read->directory, header.directory);
  mistreat(header.encode(), [](const std::string& bytes) {
    return SegmentHeader::decode(span_of(bytes)).has_value();
  });
}

}  // namespace
}  // namespace leat
