// SPDX-License-Identifier: Apache-2.0
// The vectors of FIPS 180-4 and RFC 4231.
#include "auth/hmac.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

TEST(Hmac, DigestsAsTheStandardDoes) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hmac, SignsAsTheStandardDoes) {
  EXPECT_EQ(to_hex(HmacKey("Jefe").sign("what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_hex(HmacKey(std::string(20, '\x0b')).sign("Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  // A key longer than a block.
  EXPECT_EQ(to_hex(HmacKey(std::string(131, '\xaa'))
                       .sign("Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, ComparesWhole) {
  EXPECT_TRUE(same_digest("abc", "abc"));
  EXPECT_FALSE(same_digest("abc", "abd"));
  EXPECT_FALSE(same_digest("abc", "ab"));
}

}  // namespace
}  // namespace leat
