// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>

#include "engine/kv_cache/page_pool.h"

namespace slip {

// What the target has read before, so that requests that begin alike (a system prompt, the earlier turns of a chat)
// read it once. A radix tree over whole pages of tokens, one for each tenant: how fast an answer begins must not tell
// what others asked (SGLang's RadixAttention; `cache_salt` in vLLM). Tokens are compared, not hashes of them: a
// collision would be a wrong answer. Keys and values of a token depend on what stands before it alone, to the bit, so a
// hit changes no answer. Drafts have no such cache and read their prompts again, since they are small.
//
// The cache holds each of its pages. A page that no sequence holds as well is idle. Idle pages are dropped, least
// recently used first, when new pages come or a running sequence needs room. A hit costs O(pages × log(siblings)).
// Threads: the pool's owner only.
class PrefixCache {
 public:
  // `pool` outlives it. At most `most_pages` are kept; 0: none.
  PrefixCache(PagePool& pool, std::int32_t most_pages);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Gives an empty table room for `n_slots`, the first ones filled with what is known of `tokens`; returns how many are
  // filled. Whole pages are shared; of the page after them, slots that begin alike are copied.
  // REQUIRES: n_slots ≥ tokens.size(), and pages for them among the free and the idle.
  std::int32_t open(std::uint64_t tenant, std::span<const std::int32_t> tokens, std::int32_t n_slots, PageTable& table);
  // Remembers the whole pages of `tokens`, which the table's first slots hold. Where it knew them already, the table
  // shares the known page from now on.
  void add(std::uint64_t tenant, std::span<const std::int32_t> tokens, PageTable& table);

  std::int32_t n_pages() const { return static_cast<std::int32_t>(by_use_.size()); }
  std::int32_t n_idle() const;  // O(n_pages)

 private:
  using PageTokens = std::array<std::int32_t, PagePool::kPageTokens>;
  struct Node;
  using Children = std::map<PageTokens, std::unique_ptr<Node>>;
  struct Node {
    Node* parent = nullptr;  // null: a tenant's root, which has no page
    Children children;
    Children::iterator in_parent;
    std::int32_t page = -1;
    std::list<Node*>::iterator in_use_order;
  };

  void touch(Node& last);  // it and all before it were used now
  bool drop_one_idle();    // the least recently used; false: there is none
  std::int32_t copy_partial(Node& parent, std::span<const std::int32_t> tokens, std::int32_t n_slots, PageTable& table);

  PagePool& pool_;
  std::int32_t most_pages_;
  std::map<std::uint64_t, Node> roots_;  // by tenant
  // Least recently used first. A node is used no later than its parent, so the first idle one is a leaf.
  std::list<Node*> by_use_;
};

}  // namespace slip
