// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/draft_meta.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "common/error.h"

namespace slip {
namespace {

TEST(DraftMeta, SurvivesJson) {
  DraftMeta meta;
  meta.draft = "sql";
  meta.version = 42;
  meta.parent = 41;
  meta.topic = "sql";
  meta.target = "na\"me\n";
  meta.created_us = 1'763'719'200'000'001;
  meta.reason = "canary";
  meta.heldout_alpha_before = 0.5;
  meta.heldout_alpha = 0.625;
  meta.p_value = 0.003;
  meta.weights_sha256 = std::string(64, 'a');
  meta.rolled_back = true;
  const DraftMeta back = parse_draft_meta(to_json(meta), "meta.json");
  EXPECT_EQ(to_json(back), to_json(meta));
  EXPECT_EQ(back.target, meta.target);
  EXPECT_EQ(back.created_us, meta.created_us);
  EXPECT_TRUE(back.rolled_back);
}

// A parent was a number alone: after a rollback to the base draft, reports took the topic's version of that number.
TEST(DraftMeta, AParentIsAVersionOfANamedDraft) {
  DraftMeta meta;
  meta.draft = "sql";
  meta.version = 5;
  meta.parent = 1;
  meta.reason = "rollback";
  meta.parent_draft = kBaseDraft;
  meta.weights_sha256 = std::string(64, 'a');
  EXPECT_EQ(parse_draft_meta(to_json(meta), "m").parent_draft, "base");
  meta.parent_draft = "sql";
  EXPECT_EQ(parse_draft_meta(to_json(meta), "m").parent_draft, "sql");
  std::string text = to_json(meta);
  text.replace(text.find("\"parent_draft\": \"sql\""), 21, "\"parent_draft\": \"../x\"");
  EXPECT_THROW(parse_draft_meta(text, "m"), Error);
}

TEST(DraftMeta, FilesFromBeforeParentDraftAreRead) {
  const auto parent_draft = [](std::uint64_t version, std::uint64_t parent, const std::string& reason) {
    DraftMeta meta;
    meta.draft = "sql";
    meta.version = version;
    meta.parent = parent;
    meta.reason = reason;
    meta.weights_sha256 = std::string(64, 'a');
    std::string text = to_json(meta);
    const auto key = text.find(" \"parent_draft\"");
    text.erase(key, text.find('\n', key) + 1 - key);
    EXPECT_EQ(text.find("parent_draft"), std::string::npos);
    return parse_draft_meta(text, "m").parent_draft;
  };
  EXPECT_EQ(parent_draft(1, 1, "canary"), "base") << "a draft's first version";
  EXPECT_EQ(parent_draft(3, 2, "canary"), "sql");
  EXPECT_EQ(parent_draft(4, 1, "rollback"), "base") << "what a rollback published was the base draft's weights";
  EXPECT_EQ(parent_draft(1, 0, "base"), "base");
}

TEST(DraftMeta, RefusesWhatIsNotOne) {
  DraftMeta meta;
  meta.draft = "sql";
  meta.version = 1;
  meta.weights_sha256 = std::string(64, 'a');
  const std::string good = to_json(meta);
  EXPECT_NO_THROW(parse_draft_meta(good, "m"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const auto& bad :
       {std::string(""), std::string("[]"), with("\"version\": 1", "\"version\": 0"),
        with("\"version\": 1", "\"version\": true"), with("\"sql\"", "\"../x\""),
        with("\"format\": 1", "\"format\": 2"), with("aaaa", "AAAA"), with("\"version\"", "\"draft\"")}) {
    EXPECT_THROW(parse_draft_meta(bad, "m"), Error) << bad;
  }
}

TEST(DraftMeta, CanariesAndWarmUpsMeasure) {
  DraftMeta meta;
  for (const char* reason : {"canary", "warmup", "base", "rollback"}) {
    meta.reason = reason;
    EXPECT_EQ(if_measured(meta, 0.5).has_value(), meta.reason == "canary" || meta.reason == "warmup") << reason;
  }
}

TEST(DraftMeta, WhatIsNotANumberIsWrittenAsNothing) {
  DraftMeta meta;
  meta.draft = "sql";
  meta.version = 1;
  meta.weights_sha256 = std::string(64, 'a');
  meta.heldout_alpha = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(parse_draft_meta(to_json(meta), "m").heldout_alpha, 0);
}

}  // namespace
}  // namespace slip
