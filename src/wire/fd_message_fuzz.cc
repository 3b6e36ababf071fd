// SPDX-License-Identifier: Apache-2.0
// Decodes any text as a request for a descriptor: an error, or a value that survives a round trip.
#include "wire/fd_message.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::write_seed(folder, "request",
                   "DESCRIPTOR /peer/v1/bytes?key=a%20b&mount=/m\nleat-date: 7\nleat-to: x\n\n");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto request = leat::decode_fd_request({reinterpret_cast<const char*>(data), size});
  if (!request) return 0;
  const std::string text = leat::encode_fd_request(*request);
  if (text.size() > leat::kFdRequestBytesMax) return 0;  // escapes made the target longer
  const auto again = leat::decode_fd_request(text);
  LEAT_CHECK(again && again->path == request->path && again->query == request->query);
  LEAT_CHECK(again->headers.all() == request->headers.all());
  return 0;
}
