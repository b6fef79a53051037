// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/ids.h"
#include "server/openai/call.h"

namespace slip {

// The request's id for clients; unique across restarts, like request ids.
std::string http_id(Endpoint endpoint, RequestId id);
// The request of an answer's id, as http_id() writes it; nullopt for any other text.
std::optional<RequestId> request_of_http_id(std::string_view id);

}  // namespace slip
