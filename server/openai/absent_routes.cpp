// SPDX-License-Identifier: Apache-2.0
#include "server/openai/absent_routes.h"

#include <algorithm>
#include <array>

namespace slip {
namespace {

struct AbsentRoute {
  std::string_view path;  // also matches all paths below it
  std::string_view why;
};

constexpr std::string_view kTextOnly = "this server takes text and answers with text";
constexpr std::string_view kOneModel = "this server completes with one model";
constexpr std::string_view kKeepsNothing = "this server keeps no files and no conversations";
constexpr std::string_view kDraftsLearn =
    "the target is served as it is; what learns are the drafts, listed by /v1/drafts";

constexpr std::array kAbsent = {
    AbsentRoute{"/v1/responses", "use /v1/chat/completions with the whole conversation"},
    AbsentRoute{"/v1/conversations", kKeepsNothing},
    AbsentRoute{"/v1/assistants", kKeepsNothing},
    AbsentRoute{"/v1/threads", kKeepsNothing},
    AbsentRoute{"/v1/chat/completions", kKeepsNothing},  // stored completions; our own route is matched first
    AbsentRoute{"/v1/files", kKeepsNothing},
    AbsentRoute{"/v1/uploads", kKeepsNothing},
    AbsentRoute{"/v1/vector_stores", kKeepsNothing},
    AbsentRoute{"/v1/containers", kKeepsNothing},
    AbsentRoute{"/v1/batches", "send the requests one by one: they are batched while they run"},
    AbsentRoute{"/v1/fine_tuning", kDraftsLearn},
    AbsentRoute{"/v1/fine-tunes", kDraftsLearn},
    AbsentRoute{"/v1/evals", kOneModel},
    AbsentRoute{"/v1/graders", kOneModel},
    AbsentRoute{"/v1/embeddings", kOneModel},
    AbsentRoute{"/v1/moderations", kOneModel},
    AbsentRoute{"/v1/rerank", kOneModel},
    AbsentRoute{"/v1/score", kOneModel},
    AbsentRoute{"/v1/classify", kOneModel},
    AbsentRoute{"/v1/pooling", kOneModel},
    AbsentRoute{"/rerank", kOneModel},
    AbsentRoute{"/score", kOneModel},
    AbsentRoute{"/classify", kOneModel},
    AbsentRoute{"/pooling", kOneModel},
    AbsentRoute{"/v1/audio", kTextOnly},
    AbsentRoute{"/v1/images", kTextOnly},
    AbsentRoute{"/v1/videos", kTextOnly},
    AbsentRoute{"/v1/realtime", kTextOnly},
    AbsentRoute{"/v1/edits", "use /v1/chat/completions"},
    AbsentRoute{"/v1/messages", "use /v1/chat/completions, in OpenAI's form"},
    AbsentRoute{"/v1/engines", "the models are listed by /v1/models"},
    AbsentRoute{"/v1/organization", "keys are the operator's, in a file"},
    AbsentRoute{"/chat/completions", "the base URL ends in /v1"},
    AbsentRoute{"/completions", "the base URL ends in /v1"},
    AbsentRoute{"/models", "the base URL ends in /v1"},
    AbsentRoute{"/v1/v1", "the base URL ends in one /v1"},
};

bool covers(const AbsentRoute& route, std::string_view path) {
  return path.starts_with(route.path) && (path.size() == route.path.size() || path[route.path.size()] == '/');
}

}  // namespace

std::optional<std::string> absent_route(std::string_view path) {
  const auto found =
      std::find_if(kAbsent.begin(), kAbsent.end(), [&](const AbsentRoute& one) { return covers(one, path); });
  if (found == kAbsent.end()) return std::nullopt;
  return std::string(found->path) + " is not served: " + std::string(found->why);
}

}  // namespace slip
