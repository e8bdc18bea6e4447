// The web page of a job as a browser gets it: one file with the current parts, and a script that
// replaces them by those of server-sent events. Nothing is loaded from elsewhere. Pure.
#pragma once

#include <string>
#include <string_view>

#include "launcher/plan/web/page_parts.h"

namespace ddp::launcher {

/// Without scripts the page shows the job as it was at loading.
std::string live_page(const std::string& title, const PageParts& parts);

/// The exact text between the script tags: its hash is part of the policy.
std::string_view live_page_script();

/// A server-sent event (WHATWG HTML, 9.2.6) with `data` of any number of lines.
std::string server_sent_event(std::string_view name, std::string_view data);

}  // namespace ddp::launcher
