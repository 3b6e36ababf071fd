// SPDX-License-Identifier: Apache-2.0
// The benchmarks' reads through libcurl: one thread, its multi interface, connections kept, its own
// Signature Version 4, a receive buffer of 512 KiB; see plan.h.
#include <curl/curl.h>

#include <vector>

#include "plan.h"

namespace {

struct Slot {
  CURL* easy = nullptr;
  std::vector<char> into;
  size_t filled = 0;
  Plan::Read read;
};

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s failed\n", what);
  std::exit(1);
}

size_t take(char* bytes, size_t, size_t count, void* user) {
  Slot& slot = *static_cast<Slot*>(user);
  if (count > slot.into.size() - slot.filled) return 0;
  std::memcpy(slot.into.data() + slot.filled, bytes, count);
  slot.filled += count;
  return count;
}

void ask(const Plan& plan, CURLM* multi, Slot& slot, uint64_t index) {
  slot.read = plan.read(index);
  slot.filled = 0;
  const std::string url = plan.endpoint + "/" + plan.bucket + "/" + slot.read.key;
  const std::string range = std::to_string(slot.read.offset) + "-" +
                            std::to_string(slot.read.offset + plan.range_bytes - 1);
  curl_easy_setopt(slot.easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(slot.easy, CURLOPT_RANGE, range.c_str());
  must(curl_multi_add_handle(multi, slot.easy) == CURLM_OK, "curl_multi_add_handle");
}

}  // namespace

int main(int count, char** words) {
  const Plan plan(count, words);
  curl_global_init(CURL_GLOBAL_ALL);
  CURLM* multi = curl_multi_init();
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, long(plan.in_flight));
  const char* key = std::getenv("AWS_ACCESS_KEY_ID");
  const char* secret = std::getenv("AWS_SECRET_ACCESS_KEY");
  must(key != nullptr && secret != nullptr, "finding the key pair in the environment");
  const std::string user = std::string(key) + ":" + secret;
  curl_slist* headers = curl_slist_append(nullptr, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
  std::vector<Slot> slots(plan.in_flight);
  for (Slot& slot : slots) {
    slot.easy = curl_easy_init();
    slot.into.resize(plan.range_bytes);
    curl_easy_setopt(slot.easy, CURLOPT_PRIVATE, &slot);
    curl_easy_setopt(slot.easy, CURLOPT_WRITEFUNCTION, &take);
    curl_easy_setopt(slot.easy, CURLOPT_WRITEDATA, &slot);
    curl_easy_setopt(slot.easy, CURLOPT_BUFFERSIZE, 512L * 1024);
    curl_easy_setopt(slot.easy, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:s3");
    curl_easy_setopt(slot.easy, CURLOPT_USERPWD, user.c_str());
    curl_easy_setopt(slot.easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(slot.easy, CURLOPT_FAILONERROR, 1L);
    if (const char* roots = std::getenv("AWS_CA_BUNDLE")) {
      curl_easy_setopt(slot.easy, CURLOPT_CAINFO, roots);
    }
  }
  const Watch watch;
  uint64_t next = 0, ended = 0;
  for (Slot& slot : slots) {
    if (next < plan.reads) ask(plan, multi, slot, next++);
  }
  while (ended < plan.reads) {
    int running = 0, left = 0;
    must(curl_multi_perform(multi, &running) == CURLM_OK, "curl_multi_perform");
    while (CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      if (message->data.result != CURLE_OK) {
        std::fprintf(stderr, "%s\n", curl_easy_strerror(message->data.result));
        return 1;
      }
      Slot* slot = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &slot);
      must(slot->filled == plan.range_bytes, "a body of the right length");
      plan.check(slot->read, slot->into.data());
      curl_multi_remove_handle(multi, slot->easy);
      ++ended;
      if (next < plan.reads) ask(plan, multi, *slot, next++);
    }
    if (ended < plan.reads) curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
  }
  watch.print(plan);
  return 0;
}
