// SPDX-License-Identifier: Apache-2.0
#include "server/openai/absent_routes.h"

#include <algorithm>
#include <array>

namespace slip {
namespace {

struct Absence {
  std::string_view path;  // also matches all paths below it
  std::string_view why;
  bool comes_later = false;
};

constexpr std::string_view kTextOnly = "this server takes text and answers with text";
constexpr std::string_view kOneModel = "this server completes with one model";
constexpr std::string_view kKeepsNothing = "this server keeps no files and no conversations";
constexpr std::string_view kDraftsLearn =
    "the target is served as it is; what learns are the drafts, listed by /v1/drafts";

constexpr std::array kAbsent = {
    Absence{"/v1/responses", "use /v1/chat/completions with the whole conversation", true},
    Absence{"/v1/conversations", kKeepsNothing},
    Absence{"/v1/assistants", kKeepsNothing},
    Absence{"/v1/threads", kKeepsNothing},
    Absence{"/v1/chat/completions", kKeepsNothing},  // stored completions; our own route is matched first
    Absence{"/v1/files", kKeepsNothing},
    Absence{"/v1/uploads", kKeepsNothing},
    Absence{"/v1/vector_stores", kKeepsNothing},
    Absence{"/v1/containers", kKeepsNothing},
    Absence{"/v1/batches", "send the requests one by one: they are batched while they run"},
    Absence{"/v1/fine_tuning", kDraftsLearn},
    Absence{"/v1/fine-tunes", kDraftsLearn},
    Absence{"/v1/evals", kOneModel},
    Absence{"/v1/graders", kOneModel},
    Absence{"/v1/embeddings", kOneModel, true},
    Absence{"/v1/moderations", kOneModel},
    Absence{"/v1/rerank", kOneModel},
    Absence{"/v1/score", kOneModel},
    Absence{"/v1/classify", kOneModel},
    Absence{"/v1/pooling", kOneModel},
    Absence{"/rerank", kOneModel},
    Absence{"/score", kOneModel},
    Absence{"/classify", kOneModel},
    Absence{"/pooling", kOneModel},
    Absence{"/v1/audio", kTextOnly},
    Absence{"/v1/images", kTextOnly},
    Absence{"/v1/videos", kTextOnly},
    Absence{"/v1/realtime", kTextOnly},
    Absence{"/v1/edits", "use /v1/chat/completions"},
    Absence{"/v1/messages", "use /v1/chat/completions, in OpenAI's form"},
    Absence{"/v1/engines", "the models are listed by /v1/models"},
    Absence{"/v1/organization", "keys are the operator's, in a file"},
    Absence{"/chat/completions", "the base URL ends in /v1"},
    Absence{"/completions", "the base URL ends in /v1"},
    Absence{"/models", "the base URL ends in /v1"},
    Absence{"/v1/v1", "the base URL ends in one /v1"},
};

bool covers(const Absence& route, std::string_view path) {
  return path.starts_with(route.path) && (path.size() == route.path.size() || path[route.path.size()] == '/');
}

}  // namespace

std::optional<AbsentRoute> absent_route(std::string_view path) {
  const auto found =
      std::find_if(kAbsent.begin(), kAbsent.end(), [&](const Absence& one) { return covers(one, path); });
  if (found == kAbsent.end()) return std::nullopt;
  const std::string why = std::string(found->path) + " is not served: " + std::string(found->why);
  return AbsentRoute{why, found->comes_later};
}

}  // namespace slip
