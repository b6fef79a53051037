// SPDX-License-Identifier: Apache-2.0
#include "engine/kv_cache/prefix_cache.h"

#include <algorithm>
#include <optional>

#include "common/error.h"

namespace slip {

namespace {

constexpr std::size_t kPageTokens = PagePool::kPageTokens;

std::size_t n_alike(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// Keeps a page from being dropped, also when a copy on a device fails.
class HeldPage {
 public:
  HeldPage(PagePool& pool, std::int32_t page) : pool_(pool), page_(page) { pool_.hold(page_); }
  ~HeldPage() { pool_.release(page_); }
  HeldPage(const HeldPage&) = delete;
  HeldPage& operator=(const HeldPage&) = delete;

 private:
  PagePool& pool_;
  std::int32_t page_;
};

}  // namespace

PrefixCache::PrefixCache(PagePool& pool, std::int32_t most_pages) : pool_(pool), most_pages_(most_pages) {}

PrefixCache::~PrefixCache() {
  for (const Node* node : by_use_) pool_.drop(node->page);
}

// A new root takes the place of empty ones: else each new version of a draft would leave one for each tenant.
PrefixCache::Node& PrefixCache::root_of(const Owner& owner) {
  const auto found = roots_.find(owner);
  if (found != roots_.end()) return found->second;
  std::erase_if(roots_, [](const auto& root) { return root.second.children.empty(); });
  return roots_[owner];
}

void PrefixCache::touch(Node& last) {
  for (Node* node = &last; node->parent != nullptr; node = node->parent) {
    by_use_.splice(by_use_.end(), by_use_, node->in_use_order);
  }
}

bool PrefixCache::drop_one_idle() {
  const auto found =
      std::find_if(by_use_.begin(), by_use_.end(), [&](const Node* node) { return pool_.n_holders(node->page) == 1; });
  if (found == by_use_.end()) return false;
  Node& node = **found;
  SLIP_CHECK(node.children.empty(), "a page is in use whose predecessor is not");
  pool_.drop(node.page);
  by_use_.erase(found);
  node.parent->children.erase(node.in_parent);
  return true;
}

bool PrefixCache::reserve(PageTable& table, std::int32_t n_slots) {
  const std::int32_t missing = PagePool::pages_for(n_slots) - PagePool::pages_for(table.capacity_slots());
  if (missing > pool_.n_free() && missing > pool_.n_free() + n_idle()) return false;
  while (!table.reserve(n_slots)) {
    if (!drop_one_idle()) return false;
  }
  return true;
}

template <class Take>
void PrefixCache::for_each_known(const Node& root, std::span<const std::int32_t> tokens, const Take& take) {
  const Node* node = &root;
  for (; tokens.size() >= kPageTokens; tokens = tokens.subspan(kPageTokens)) {
    PageTokens wanted;
    std::copy_n(tokens.begin(), kPageTokens, wanted.begin());
    const auto found = node->children.find(wanted);
    if (found == node->children.end()) return;
    node = found->second.get();
    take(*found->second);
  }
}

// An idle page that open() shares cannot be dropped to make room, so it is counted once.
bool PrefixCache::has_room(const Owner& owner, std::span<const std::int32_t> tokens, std::int32_t n_slots) const {
  std::int32_t missing = PagePool::pages_for(n_slots), n_room = pool_.n_free() + n_idle();
  const auto root = roots_.find(owner);
  if (missing <= n_room || root == roots_.end()) return missing <= n_room;
  for_each_known(root->second, tokens, [&](const Node& shared) {
    --missing;
    if (pool_.n_holders(shared.page) == 1) --n_room;
  });
  return missing <= n_room;
}

std::int32_t PrefixCache::open(const Owner& owner, std::span<const std::int32_t> tokens, std::int32_t n_slots,
                               PageTable& table) {
  Node* node = &root_of(owner);
  table.expect(n_slots);  // no allocation after this one, so a page held temporarily below is always released
  std::int32_t n_known = 0;
  for_each_known(*node, tokens, [&](Node& shared) {
    node = &shared;
    table.append_shared(shared.page);
    n_known += PagePool::kPageTokens;
  });
  touch(*node);
  n_known += copy_partial(*node, tokens.subspan(static_cast<std::size_t>(n_known)), n_slots, table);
  return n_known;
}

// Also reserves the table's pages: while doing so, the page to copy from must not be dropped to make room for the copy.
std::int32_t PrefixCache::copy_partial(Node& parent, std::span<const std::int32_t> tokens, std::int32_t n_slots,
                                       PageTable& table) {
  // Children are ordered by tokens, so the longest match is next to where `tokens` would be inserted.
  Node* nearest = nullptr;
  std::size_t n_copied = 0;
  PageTokens wanted{};
  std::copy_n(tokens.begin(), std::min(tokens.size(), kPageTokens), wanted.begin());
  const auto consider = [&](Children::iterator at) {
    const std::size_t n = n_alike(tokens, at->first);
    if (n > n_copied) nearest = at->second.get(), n_copied = n;
  };
  const auto after = parent.children.lower_bound(wanted);
  if (after != parent.children.end()) consider(after);
  if (after != parent.children.begin()) consider(std::prev(after));

  std::optional<HeldPage> held;
  if (nearest != nullptr) held.emplace(pool_, nearest->page);
  const auto n_whole = static_cast<std::size_t>(table.capacity_slots()) / kPageTokens;
  while (!table.reserve(n_slots)) {
    if (drop_one_idle()) continue;
    SLIP_CHECK(nearest != nullptr, "a sequence was admitted without room");
    nearest = nullptr;
    held.reset();  // only this page is left to drop
  }
  if (nearest == nullptr) return 0;
  for (std::size_t slot = 0; slot < n_copied; ++slot) {
    pool_.copy_slot(nearest->page, static_cast<int>(slot), table.pages()[n_whole], static_cast<int>(slot));
  }
  touch(*nearest);
  return static_cast<std::int32_t>(n_copied);
}

void PrefixCache::add(const Owner& owner, std::span<const std::int32_t> tokens, PageTable& table) {
  if (most_pages_ == 0) return;
  Node* node = &root_of(owner);
  for (std::size_t index = 0; (index + 1) * kPageTokens <= tokens.size(); ++index) {
    PageTokens held;
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(index * kPageTokens), kPageTokens, held.begin());
    auto found = node->children.find(held);
    if (found == node->children.end()) {
      if (n_pages() >= most_pages_ && !drop_one_idle()) break;
      std::list<Node*> in_use(1);  // allocated before the tree has the node: every node needs its entry in by_use_
      found = node->children.emplace(held, std::make_unique<Node>()).first;
      Node& added = *found->second;
      added.parent = node;
      added.in_parent = found;
      added.page = table.pages()[index];
      pool_.keep(added.page);
      in_use.front() = &added;
      added.in_use_order = in_use.begin();
      // Directly before its parent, so that the order holds even if adding the next page runs out of memory.
      by_use_.splice(node->parent == nullptr ? by_use_.end() : node->in_use_order, in_use);
    } else {
      table.replace(index, found->second->page);
    }
    node = found->second.get();
  }
  touch(*node);
}

}  // namespace slip
