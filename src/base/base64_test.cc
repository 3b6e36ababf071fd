// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

TEST(Base64, VectorsOfTheRfc) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, AllBytesOfAllLengthsComeBack) {
  std::string bytes;
  for (int i = 0; i < 600; ++i) {
    EXPECT_EQ(from_base64(base64(bytes)), bytes);
    bytes += static_cast<char>(i * 7);
  }
  const std::string large(7'000'001, '\xff');
  EXPECT_EQ(from_base64(base64(large)), large);
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zm9vY", "Zg==Zg==", "Z=g=", "====", "Zm 9", "Zm9\n",
                           " Zm9v", "Zm9-", "Zm9_", "=Zm9"}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
}

TEST(Base64Url, HasNoPaddingAndItsOwnAlphabet) {
  EXPECT_EQ(base64url("fo"), "Zm8");
  EXPECT_EQ(base64url("\xfb\xff\xfe"), "-__-");
  std::string bytes;
  for (int i = 0; i < 600; ++i) {
    EXPECT_EQ(from_base64url(base64url(bytes)), bytes);
    bytes += static_cast<char>(i * 7);
  }
}

TEST(Base64Url, RefusesWhatIsNone) {
  for (const char* text : {"Z", "Zg==", "Zm+v", "Zm/v", "Zm9v\n", "Zh", "Zm9", "Zm 8"}) {
    EXPECT_EQ(from_base64url(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace leat
