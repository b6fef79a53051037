// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/grammar/byte_automaton.h"

namespace slip {

// A nondeterministic automaton over bytes, built from fragments (Thompson, 1968); determinise() converts one to a
// ByteAutomaton. A fragment may be used in one larger fragment only. Every node counts against the budget.
class ByteNfa {
 public:
  struct Fragment {
    std::int32_t begin = 0, end = 0;
  };

  explicit ByteNfa(AutomatonBudget& budget) : budget_(budget) {}

  Fragment nothing();  // accepts no text at all
  Fragment empty();    // accepts the empty text
  Fragment bytes(std::uint8_t low, std::uint8_t high);
  Fragment any_of(std::string_view set);  // one byte of the set
  Fragment literal(std::string_view text);
  Fragment then(Fragment first, Fragment second);
  Fragment either(Fragment a, Fragment b);
  Fragment maybe(Fragment inner) { return either(inner, empty()); }
  Fragment many(Fragment inner);  // zero or more
  // `make` builds one copy; `most` < 0: no upper bound.
  Fragment repeat(const std::function<Fragment()>& make, std::int32_t least, std::int32_t most);

  // One of `paths`, each a sequence of byte ranges; paths with the same ending share nodes.
  using Path = std::vector<std::pair<std::uint8_t, std::uint8_t>>;
  Fragment any_path(const std::vector<Path>& paths);

  ByteAutomaton determinise(Fragment whole);

 private:
  struct Edge {
    std::uint8_t low, high;
    std::int32_t to;
  };
  struct Node {
    std::vector<Edge> edges;
    std::vector<std::int32_t> jumps;  // epsilon transitions
  };
  using Set = std::vector<std::int32_t>;  // ascending

  std::int32_t add_node();
  void jump(std::int32_t from, std::int32_t to) { nodes_[static_cast<std::size_t>(from)].jumps.push_back(to); }
  Set close(Set nodes);

  AutomatonBudget& budget_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> seen_in_;  // [nodes_] the last closure that each node was added to
  std::uint32_t n_closures_ = 0;
};

}  // namespace slip
