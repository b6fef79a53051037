// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/byte_nfa.h"

#include <algorithm>
#include <map>
#include <utility>

namespace slip {

std::int32_t ByteNfa::add_node() {
  budget_.take_state();
  nodes_.emplace_back();
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

ByteNfa::Fragment ByteNfa::nothing() {
  const std::int32_t begin = add_node();
  return {begin, add_node()};
}

ByteNfa::Fragment ByteNfa::empty() {
  const std::int32_t node = add_node();
  return {node, node};
}

ByteNfa::Fragment ByteNfa::bytes(std::uint8_t low, std::uint8_t high) {
  const Fragment made = nothing();
  nodes_[static_cast<std::size_t>(made.begin)].edges.push_back({low, high, made.end});
  return made;
}

ByteNfa::Fragment ByteNfa::any_of(std::string_view set) {
  const Fragment made = nothing();
  for (const char one : set) {
    const auto byte = static_cast<std::uint8_t>(one);
    nodes_[static_cast<std::size_t>(made.begin)].edges.push_back({byte, byte, made.end});
  }
  return made;
}

ByteNfa::Fragment ByteNfa::literal(std::string_view text) {
  Fragment made = empty();
  for (const char one : text) {
    const std::int32_t end = add_node();
    const auto byte = static_cast<std::uint8_t>(one);
    nodes_[static_cast<std::size_t>(made.end)].edges.push_back({byte, byte, end});
    made.end = end;
  }
  return made;
}

ByteNfa::Fragment ByteNfa::then(Fragment first, Fragment second) {
  jump(first.end, second.begin);
  return {first.begin, second.end};
}

ByteNfa::Fragment ByteNfa::either(Fragment a, Fragment b) {
  const Fragment made = nothing();
  for (const Fragment& branch : {a, b}) {
    jump(made.begin, branch.begin);
    jump(branch.end, made.end);
  }
  return made;
}

ByteNfa::Fragment ByteNfa::many(Fragment inner) {
  const Fragment made = nothing();
  jump(made.begin, inner.begin);
  jump(made.begin, made.end);
  jump(inner.end, inner.begin);
  jump(inner.end, made.end);
  return made;
}

ByteNfa::Fragment ByteNfa::repeat(const std::function<Fragment()>& make, std::int32_t least, std::int32_t most) {
  Fragment made = empty();
  for (std::int32_t i = 0; i < least; ++i) made = then(made, make());
  if (most < 0) return then(made, many(make()));
  // x?x?x? with an exit before each copy, so that no copy can be skipped and a later one taken.
  const std::int32_t out = add_node();
  for (std::int32_t i = least; i < most; ++i) {
    jump(made.end, out);
    made = then(made, make());
  }
  jump(made.end, out);
  return {made.begin, out};
}

ByteNfa::Fragment ByteNfa::any_path(const std::vector<Path>& paths) {
  const Fragment made = nothing();
  std::map<Path, std::int32_t> begins{{{}, made.end}};  // begin of each suffix of a path
  for (const Path& path : paths) {
    for (std::size_t i = path.size(); i-- > 0;) {
      const Path rest(path.begin() + static_cast<std::ptrdiff_t>(i), path.end());
      const std::int32_t after = begins.at(Path(rest.begin() + 1, rest.end()));
      if (i > 0 && begins.contains(rest)) continue;
      const std::int32_t node = i == 0 ? made.begin : add_node();
      nodes_[static_cast<std::size_t>(node)].edges.push_back({rest.front().first, rest.front().second, after});
      if (i > 0) begins.emplace(rest, node);
    }
  }
  return made;
}

ByteNfa::Set ByteNfa::close(Set nodes) {
  seen_in_.resize(nodes_.size());
  ++n_closures_;
  for (const std::int32_t node : nodes) seen_in_[static_cast<std::size_t>(node)] = n_closures_;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::int32_t to : nodes_[static_cast<std::size_t>(nodes[i])].jumps) {
      if (seen_in_[static_cast<std::size_t>(to)] == n_closures_) continue;
      seen_in_[static_cast<std::size_t>(to)] = n_closures_;
      nodes.push_back(to);
    }
  }
  budget_.take_steps(nodes.size());
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

ByteAutomaton ByteNfa::determinise(Fragment whole) {
  ByteClasses classes;
  for (const Node& node : nodes_) {
    for (const Edge& edge : node.edges) classes.cut(edge.low, edge.high);
  }
  const auto step = [&](const Set& from, std::uint8_t byte) -> std::optional<Set> {
    Set to;
    budget_.take_steps(from.size());
    for (const std::int32_t node : from) {
      const auto& edges = nodes_[static_cast<std::size_t>(node)].edges;
      budget_.take_looks(edges.size());
      for (const Edge& edge : edges) {
        if (edge.low <= byte && byte <= edge.high) to.push_back(edge.to);
      }
    }
    if (to.empty()) return std::nullopt;
    std::sort(to.begin(), to.end());
    to.erase(std::unique(to.begin(), to.end()), to.end());
    return close(std::move(to));
  };
  const auto accepts = [&](const Set& set) { return std::binary_search(set.begin(), set.end(), whole.end); };
  return explore(classes, close({whole.begin}), step, accepts, budget_);
}

}  // namespace slip
