// The page of a job as a browser gets it: one file with its parts as they are now, and the script
// that replaces them by what server-sent events bring. Nothing is loaded from elsewhere. Pure.
#pragma once

#include <string>
#include <string_view>

#include "launcher/plan/web/page_parts.h"

namespace ddp::launcher {

/// Without scripts it shows the job as it was when it was loaded.
std::string live_page(const std::string& title, const PageParts& parts);

/// What stands between its tags of a script, to the byte: its hash is part of the policy.
std::string_view live_page_script();

/// A server-sent event (WHATWG HTML, 9.2.6) that brings `data`, of whatever lines.
std::string server_sent_event(std::string_view name, std::string_view data);

}  // namespace ddp::launcher
