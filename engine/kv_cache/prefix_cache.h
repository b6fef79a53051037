// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>

#include "common/ids.h"
#include "engine/kv_cache/page_pool.h"

namespace slip {

// Automatic prefix cache of a model's keys and values: requests that begin alike (a system prompt, the earlier turns of
// a chat) read the common part once. The target has one, and each shape of draft. A radix tree over whole pages of
// tokens, one tree for each tenant, so that the time to first token reveals nothing about other tenants' requests
// (SGLang's RadixAttention; `cache_salt` in vLLM). Versions of a draft have trees of their own. Tokens are compared,
// not their hashes: a collision would give a wrong answer. The keys and values of a token depend, to the bit, only on
// the weights and the tokens before it, so a hit changes no answer.
//
// The cache is a holder of each of its pages. A page that no sequence holds is idle. Idle pages are dropped, least
// recently used first, when new pages are added or a sequence needs room. A hit costs O(pages × log(siblings)).
// Threads: the pool's owner only.
class PrefixCache {
 public:
  // Whose pages they are. Requests share pages only with an equal owner.
  struct Owner {
    TenantId tenant;
    std::uint64_t weights = 0;  // number of the weights that the pages were computed with; the target has one set
    friend auto operator<=>(const Owner&, const Owner&) = default;
  };

  // `pool` outlives it, and has no other cache that keeps pages. Keeps at most `most_pages`; 0: none.
  PrefixCache(PagePool& pool, std::int32_t most_pages);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Grows a table to `n_slots`, dropping idle pages where needed. False, and unchanged, when even all idle pages are
  // too few.
  bool reserve(PageTable& table, std::int32_t n_slots);
  // Reserves `n_slots` in an empty table and fills the first slots with the longest cached prefix of `tokens`; returns
  // the number of filled slots. Whole pages are shared; of the next page, the slots that match are copied. REQUIRES:
  // n_slots ≥ tokens.size(), and has_room().
  std::int32_t open(const Owner& owner, std::span<const std::int32_t> tokens, std::int32_t n_slots, PageTable& table);
  // Whether open() has enough pages for `n_slots`: those that it shares, and those that are free or idle. True if
  // pages_for(n_slots) pages are free or idle.
  bool has_room(const Owner& owner, std::span<const std::int32_t> tokens, std::int32_t n_slots) const;
  // Adds the whole pages of `tokens`, which the table's first slots hold; no one writes these slots again. Where the
  // cache has a page with the same tokens already, the table shares that page from now on.
  void add(const Owner& owner, std::span<const std::int32_t> tokens, PageTable& table);

  std::int32_t n_pages() const { return static_cast<std::int32_t>(by_use_.size()); }
  std::int32_t n_idle() const { return pool_.n_idle(); }

 private:
  using PageTokens = std::array<std::int32_t, PagePool::kPageTokens>;
  struct Node;
  using Children = std::map<PageTokens, std::unique_ptr<Node>>;
  struct Node {
    Node* parent = nullptr;  // null: an owner's root, which has no page
    Children children;
    Children::iterator in_parent;
    std::int32_t page = -1;
    std::list<Node*>::iterator in_use_order;
  };

  Node& root_of(const Owner& owner);
  // Calls `take` with the node of each cached page that `tokens` begin with, in order.
  template <class Take>
  static void for_each_known(const Node& root, std::span<const std::int32_t> tokens, const Take& take);
  void touch(Node& last);  // marks the node and its ancestors as used now
  bool drop_one_idle();    // drops the least recently used idle page; false: there is none
  std::int32_t copy_partial(Node& parent, std::span<const std::int32_t> tokens, std::int32_t n_slots, PageTable& table);

  PagePool& pool_;
  std::int32_t most_pages_;
  std::map<Owner, Node> roots_;
  // Least recently used first. A node is used no later than its parent, so the first idle one is a leaf.
  std::list<Node*> by_use_;
};

}  // namespace slip
