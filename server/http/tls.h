// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "server/http/options.h"

namespace slip {

// The TLS context (1.2 or later) of `tls_certificate` and `tls_key`; null when neither is set. Error{kInvalidArgument |
// kNotFound | kPermission} naming the setting: one without the other, a key that others can read, an encrypted key,
// files that are not PEM or do not match. Never asks at the terminal.
std::unique_ptr<boost::asio::ssl::context> load_tls(const ServerOptions& options);

// Whether both present the same certificate to clients. REQUIRES: load_tls() made both.
bool same_certificate(boost::asio::ssl::context& one, boost::asio::ssl::context& other);

}  // namespace slip
