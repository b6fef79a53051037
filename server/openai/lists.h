// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "server/http/reply.h"
#include "server/metrics.h"
#include "server/openai/served_model.h"

namespace slip {

// The replies of the routes that list what a server has. Without a model (null) the lists are empty.
Reply model_list(const ServedModel* served);                            // GET /v1/models
Reply model_reply(const ServedModel& served, const std::string& name);  // GET /v1/models/NAME
Reply topic_list(const ServedModel* served);                            // GET /v1/topics
// GET /v1/drafts. Reads the store's files; Error{kIo}. `with_figures`: also what shows other clients' traffic.
Reply draft_list(const ServedModel* served, const Metrics& metrics, bool with_figures);

}  // namespace slip
