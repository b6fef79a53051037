// SPDX-License-Identifier: Apache-2.0
#include "text/regex_syntax.h"

#include <gtest/gtest.h>

#include "common/error.h"

namespace slip {
namespace {

TEST(RegexSyntaxTest, LeavesWhatBothEnginesReadAlike) {
  for (const char* same : {R"(\p{L}+|\p{N}{1,3}|(?i:'ll|'d)|a*+b++)", R"(\\s|\[s])", R"([[:alpha:]\]x]+)",
                           R"(\x{20}+\p{N}++)", "(?=a)(?!b)(?<=c)"}) {
    EXPECT_EQ(pcre2_syntax(same), same);
  }
}

TEST(RegexSyntaxTest, WritesOutWhatTheyReadDifferently) {
  EXPECT_EQ(pcre2_syntax(R"(\w)"), R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}])");
  EXPECT_EQ(pcre2_syntax(R"([^\w-])"), R"([^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}-])");
  EXPECT_EQ(pcre2_syntax(R"(\u4e00)"), R"(\x{4e00})");
}

// PCRE2 10.40 and later read \p{Han} as Script_Extensions, so that it took ideographic punctuation too.
TEST(RegexSyntaxTest, AScriptIsNotItsExtensions) {
  if (pcre2_syntax(R"(\p{Han})") == R"(\p{Han})") GTEST_SKIP() << "an older PCRE2, which reads it as Script";
  EXPECT_EQ(pcre2_syntax(R"(\p{Han}+|[^\P{Greek}x]\p{^hiragana}\p{Latn})"),
            R"(\p{sc:Han}+|[^\P{sc:Greek}x]\p{^sc:hiragana}\p{sc:Latn})");
  for (const char* same : {R"(\p{L}\p{Lu}\P{^N}\pL\p{L&}\p{Any}\p{Xan})", R"(\p{Alphabetic}\p{sc:Han}\p{scx:Han})",
                           R"(\\p{Han})", R"(\p{)", R"(\p{Han)", R"(\p)"}) {
    EXPECT_EQ(pcre2_syntax(same), same);
  }
}

TEST(RegexSyntaxTest, RefusesWhatCannotBeWrittenOut) {
  for (const char* pattern : {R"(\h)", R"([\W])", "[a-z&&[^b]]", "[a[b]]", "a{1,3}+", "(?m:.)", R"(\u12)"}) {
    EXPECT_THROW(pcre2_syntax(pattern), Error) << pattern;
  }
}

}  // namespace
}  // namespace slip
