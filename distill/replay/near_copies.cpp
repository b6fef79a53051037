// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/near_copies.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/error.h"
#include "engine/sampling/random.h"

namespace slip {

namespace {

constexpr std::size_t kShingle = 5;          // tokens
constexpr std::size_t kSketch = 64;          // hashes per sketch: estimates a share of .8 to ± .05
constexpr std::size_t kIndexed = 16;         // hashes of a sketch that are indexed to find candidates
constexpr std::size_t kLed = 8;              // groups indexed per shingle; more common shingles tell little
constexpr std::size_t kFewest = 4;           // with fewer shingles a record is like no other
constexpr std::size_t kBlock = 8;            // tokens per prefix block
constexpr std::size_t kPrefixBlocks = 1024;  // blocks of a prompt that are compared
constexpr std::size_t kPrefixes = 1 << 14;   // cells for known prefixes; a cell holds the newest
constexpr std::size_t kCounters = 1 << 15;   // count-min cells
constexpr std::size_t kCounted = 4096;       // shingles of a record that are counted

using Hashes = std::vector<std::uint32_t>;

// The finaliser of MurmurHash3 (64 bits): every bit of the result depends on every bit of the argument.
std::uint64_t scramble(std::uint64_t bits) {
  bits = (bits ^ bits >> 33) * 0xFF51AFD7ED558CCDULL;
  bits = (bits ^ bits >> 33) * 0xC4CEB9FE1A85EC53ULL;
  return bits ^ bits >> 33;
}

std::uint64_t chain(std::uint64_t hash, std::int32_t token) {
  return scramble(hash ^ static_cast<std::uint32_t>(token));
}

std::uint64_t hash_of(std::span<const std::int32_t> tokens) {
  std::uint64_t hash = tokens.size();
  for (const std::int32_t token : tokens) hash = chain(hash, token);
  return hash;
}

// The hashes of all shingles, sorted and unique.
Hashes shingles_of(std::span<const std::int32_t> tokens) {
  Hashes hashes;
  for (std::size_t i = 0; i + kShingle <= tokens.size(); ++i) {
    hashes.push_back(static_cast<std::uint32_t>(hash_of(tokens.subspan(i, kShingle))));
  }
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  return hashes;
}

// A bottom-k sketch: the smallest hashes of a set. Sets that share elements share them in this sample too.
struct Sketch {
  Hashes hashes;         // sorted, at most kSketch
  std::size_t size = 0;  // size of the whole set

  explicit Sketch(const Hashes& set) : size(set.size()) {
    hashes.assign(set.begin(), set.begin() + static_cast<std::ptrdiff_t>(std::min(set.size(), kSketch)));
  }
  // The sketch holds all hashes of the set below this bound.
  std::uint64_t complete_below() const {
    return size > hashes.size() ? std::uint64_t{hashes.back()} + 1 : std::uint64_t{1} << 32;
  }
};

// The share of `own` that `other` contains, estimated on the hashes up to which both sketches are complete.
double share_within(const Sketch& own, const Sketch& other) {
  const std::uint64_t border = std::min(own.complete_below(), other.complete_below());
  const auto end = std::lower_bound(own.hashes.begin(), own.hashes.end(), border);
  std::size_t common = 0;
  auto at = other.hashes.begin();
  for (auto hash = own.hashes.begin(); hash != end; ++hash) {
    while (at != other.hashes.end() && *at < *hash) ++at;
    common += at != other.hashes.end() && *at == *hash ? 1 : 0;
  }
  const auto n = end - own.hashes.begin();
  return n > 0 ? static_cast<double>(common) / static_cast<double>(n) : 0;
}

struct OwnContent {
  Sketch prompt, answer;
};

// The known prefixes of prompts in a table of fixed size. A new prefix overwrites the older one in its cell.
class PrefixTable {
 public:
  // Returns the length in tokens of the longest known prefix, and adds all prefixes of this prompt.
  std::size_t add(std::span<const std::int32_t> prompt) {
    const std::size_t blocks = std::min(prompt.size() / kBlock, kPrefixBlocks);
    std::uint64_t hash = 0;
    std::size_t known = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      for (const std::int32_t token : prompt.subspan(block * kBlock, kBlock)) hash = chain(hash, token);
      std::uint64_t& cell = cells_[hash % kPrefixes];
      if (cell == hash && known == block) known = block + 1;
      cell = hash;
    }
    return known * kBlock;
  }
  static constexpr std::size_t kBytes = kPrefixes * sizeof(std::uint64_t);

 private:
  std::vector<std::uint64_t> cells_ = std::vector<std::uint64_t>(kPrefixes);
};

// Counts the recent documents that contain a shingle: a count-min sketch with two rows, halved regularly so that old
// documents fade.
class ShingleCounts {
 public:
  ShingleCounts(std::size_t documents, std::size_t min_documents)
      : max_documents_(documents), min_documents_(min_documents) {}

  bool shared_by_half(std::uint32_t shingle) const {
    if (documents_ < min_documents_) return false;
    const auto [first, second] = cells_of(shingle);
    return 2 * std::size_t{std::min(counts_[first], counts_[second])} >= documents_;
  }
  void add(const Hashes& set) {
    for (std::size_t i = 0; i < std::min(set.size(), kCounted); ++i) {
      const auto [first, second] = cells_of(set[i]);
      ++counts_[first];
      ++counts_[second];
    }
    if (++documents_ < max_documents_) return;
    documents_ /= 2;
    for (std::uint16_t& count : counts_) count /= 2;
  }
  static constexpr std::size_t kBytes = kCounters * sizeof(std::uint16_t);

 private:
  // Each half of the table is one row of the sketch.
  static std::pair<std::size_t, std::size_t> cells_of(std::uint32_t shingle) {
    const std::uint64_t bits = scramble(shingle);
    return {bits % (kCounters / 2), kCounters / 2 + (bits >> 32) % (kCounters / 2)};
  }

  std::size_t max_documents_, min_documents_;
  std::size_t documents_ = 0;
  std::vector<std::uint16_t> counts_ = std::vector<std::uint16_t>(kCounters);
};

struct Group {
  std::uint64_t id;
  OwnContent content;  // the first record's
};

// The larger of two shares: that of the prompt alone (the same question may get another answer), and that of prompt and
// answer.
double likeness(const OwnContent& own, const OwnContent& other) {
  const auto n_prompt = static_cast<double>(own.prompt.size);
  const auto n_answer = static_cast<double>(own.answer.size);
  if (n_prompt + n_answer < kFewest) return 0;
  const double of_prompt = share_within(own.prompt, other.prompt);
  const double of_answer = share_within(own.answer, other.answer);
  const double of_both = (n_prompt * of_prompt + n_answer * of_answer) / (n_prompt + n_answer);
  return n_prompt >= kFewest ? std::max(of_prompt, of_both) : of_both;
}

}  // namespace

// The groups from the most to the least recently used, indexed by their id and by some of their shingles.
struct NearCopies::State {
  using Groups = std::list<Group>;

  explicit State(NearCopiesOptions wanted) : options(wanted), counts(wanted.documents, wanted.min_documents) {}

  OwnContent own_content(std::span<const std::int32_t> prompt, std::span<const std::int32_t> answer);
  Groups::iterator most_alike(const OwnContent& content);
  ContentGroup join(Groups::iterator group);
  void remember(std::uint64_t id, OwnContent content);
  void forget_oldest();
  void index(Groups::iterator group, const Hashes& hashes);
  void drop_from_index(Groups::iterator group, const Hashes& hashes);

  NearCopiesOptions options;
  PrefixTable prefixes;
  ShingleCounts counts;
  Groups groups;
  std::unordered_map<std::uint64_t, Groups::iterator> by_id;
  std::unordered_multimap<std::uint32_t, Groups::iterator> by_shingle;
};

OwnContent NearCopies::State::own_content(std::span<const std::int32_t> prompt, std::span<const std::int32_t> answer) {
  Hashes own_prompt = shingles_of(prompt.subspan(prefixes.add(prompt)));
  Hashes own_answer = shingles_of(answer);
  const Hashes whole_prompt = shingles_of(prompt);
  Hashes all;
  std::set_union(whole_prompt.begin(), whole_prompt.end(), own_answer.begin(), own_answer.end(),
                 std::back_inserter(all));
  const auto is_shared = [&](std::uint32_t shingle) { return counts.shared_by_half(shingle); };
  std::erase_if(own_prompt, is_shared);
  std::erase_if(own_answer, is_shared);
  counts.add(all);
  return {Sketch(own_prompt), Sketch(own_answer)};
}

NearCopies::State::Groups::iterator NearCopies::State::most_alike(const OwnContent& content) {
  std::vector<Groups::iterator> candidates;
  for (const Sketch* sketch : {&content.prompt, &content.answer}) {
    for (const std::uint32_t hash : sketch->hashes) {
      const auto [begin, end] = by_shingle.equal_range(hash);
      for (auto entry = begin; entry != end; ++entry) {
        if (std::find(candidates.begin(), candidates.end(), entry->second) == candidates.end()) {
          candidates.push_back(entry->second);
        }
      }
    }
  }
  auto best = groups.end();
  double most = 0;
  for (const auto candidate : candidates) {
    const double like = likeness(content, candidate->content);
    if (like < options.same_from || like <= most) continue;
    most = like;
    best = candidate;
  }
  return best;
}

ContentGroup NearCopies::State::join(Groups::iterator group) {
  groups.splice(groups.begin(), groups, group);
  return {group->id, /*seen=*/true};
}

// Indexes a group by its first shingles. Skips shingles that already lead to kLed groups, since rarer ones distinguish
// records better.
void NearCopies::State::index(Groups::iterator group, const Hashes& hashes) {
  std::size_t indexed = 0;
  for (std::size_t i = 0; i < hashes.size() && indexed < kIndexed; ++i) {
    if (by_shingle.count(hashes[i]) >= kLed) continue;
    by_shingle.emplace(hashes[i], group);
    ++indexed;
  }
}

void NearCopies::State::drop_from_index(Groups::iterator group, const Hashes& hashes) {
  for (const std::uint32_t hash : hashes) {
    const auto [begin, end] = by_shingle.equal_range(hash);
    const auto entry = std::find_if(begin, end, [&](const auto& at) { return at.second == group; });
    if (entry != end) by_shingle.erase(entry);
  }
}

void NearCopies::State::remember(std::uint64_t id, OwnContent content) {
  if (groups.size() >= options.max_groups) forget_oldest();
  groups.push_front({id, std::move(content)});
  by_id[id] = groups.begin();
  index(groups.begin(), groups.front().content.prompt.hashes);
  index(groups.begin(), groups.front().content.answer.hashes);
}

void NearCopies::State::forget_oldest() {
  const auto oldest = std::prev(groups.end());
  drop_from_index(oldest, oldest->content.prompt.hashes);
  drop_from_index(oldest, oldest->content.answer.hashes);
  by_id.erase(oldest->id);
  groups.erase(oldest);
}

NearCopies::NearCopies(NearCopiesOptions options) : state_(std::make_unique<State>(options)) {
  SLIP_CHECK(options.max_groups > 0 && options.documents > 1, "no room for a group");
}
NearCopies::NearCopies(NearCopies&&) noexcept = default;
NearCopies& NearCopies::operator=(NearCopies&&) noexcept = default;
NearCopies::~NearCopies() = default;

ContentGroup NearCopies::add(std::span<const std::int32_t> tokens, std::size_t prompt_tokens) {
  SLIP_CHECK(prompt_tokens <= tokens.size(), "a prompt longer than the record");
  const auto prompt = tokens.first(prompt_tokens);
  const std::uint64_t id = prompt.empty() ? ~hash_of(tokens) : hash_of(prompt);  // ~: an answer is no prompt
  const auto same_prompt = state_->by_id.find(id);
  if (same_prompt != state_->by_id.end()) return state_->join(same_prompt->second);
  OwnContent content = state_->own_content(prompt, tokens.subspan(prompt_tokens));
  const auto alike = state_->most_alike(content);
  if (alike != state_->groups.end()) return state_->join(alike);
  state_->remember(id, std::move(content));
  return {id, /*seen=*/false};
}

std::size_t NearCopies::groups() const {
  return state_->groups.size();
}

std::size_t NearCopies::bytes() const {
  constexpr std::size_t kNode = 48;  // bytes per node of a list or hash table, with its share of the buckets
  std::size_t hashes = 0;
  for (const Group& group : state_->groups) {
    hashes += group.content.prompt.hashes.capacity() + group.content.answer.hashes.capacity();
  }
  return PrefixTable::kBytes + ShingleCounts::kBytes + hashes * sizeof(std::uint32_t) +
         state_->groups.size() * (sizeof(Group) + 2 * kNode) + state_->by_shingle.size() * kNode;
}

bool heldout(std::uint64_t group, double share) {
  return uniform(RandomAddress{group}, RandomPurpose::kDraft) < share;
}

}  // namespace slip
