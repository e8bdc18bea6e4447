#include "launcher/plan/web/live_page.h"

#include "common/report/html.h"
#include "common/text/split.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kOwnStyle = R"css(
#lost{display:none;position:sticky;top:0;background:var(--card);color:var(--warn);
border:1px solid currentColor;border-radius:8px;padding:8px 12px;margin-bottom:10px}
#lost.shown{display:block}
#ranks td{white-space:nowrap}
#ranks td:last-child{max-width:44em;overflow:hidden;text-overflow:ellipsis}
)css";

// A hidden tab asks for nothing: a page that was forgotten costs nothing.
constexpr std::string_view kScript = R"js(
"use strict";
const lost = document.getElementById("lost");
let source = null;
let isOver = false;

// What somebody has selected stays until the selection is gone, and a wide table stays scrolled.
const waiting = new Map();
function show(part, html) {
  const selection = document.getSelection();
  waiting.set(part, html);
  if (!selection.isCollapsed && selection.containsNode(part, true)) return;
  waiting.delete(part);
  const places = [...part.querySelectorAll(".wide")].map((box) => box.scrollLeft);
  part.innerHTML = html;
  part.querySelectorAll(".wide").forEach((box, i) => { box.scrollLeft = places[i] || 0; });
}

function listen() {
  if (source || isOver || document.hidden) return;
  source = new EventSource("events" + location.search);
  for (const part of document.querySelectorAll("[data-part]"))
    source.addEventListener(part.id, (event) => show(part, event.data));
  source.addEventListener("over", () => { isOver = true; stop(); });
  source.onopen = () => lost.classList.remove("shown");
  source.onerror = () => {
    lost.textContent = "The agent does not answer; this is how the job was at " +
        new Date().toLocaleTimeString() + ".";
    lost.classList.add("shown");
    stop();
    setTimeout(listen, 3000);
  };
}

function stop() {
  if (source) source.close();
  source = null;
}

document.addEventListener("selectionchange", () => {
  for (const [part, html] of [...waiting]) show(part, html);
});
document.addEventListener("visibilitychange", () => document.hidden ? stop() : listen());
listen();
)js";

}  // namespace

std::string_view live_page_script() {
  return kScript;
}

std::string live_page(const std::string& title, const PageParts& parts) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n" +
      element("title", title) + "\n<style>" + std::string(page_style()) + std::string(kOwnStyle) +
      "</style>\n</head>\n<body>\n<main>\n<div id=\"lost\" role=\"status\"></div>\n";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    html += "<section data-part id=\"" + std::string(kPagePartIds[i]) + "\">" + parts[i] +
            "</section>\n";
  }
  return html + "</main>\n<script>" + std::string(kScript) + "</script>\n</body>\n</html>\n";
}

std::string server_sent_event(std::string_view name, std::string_view data) {
  std::string text = "event: " + std::string(name) + "\n";
  for (const std::string_view line : split(data, '\n'))
    text += "data: " + std::string(line) + "\n";
  return text + "\n";
}

}  // namespace ddp::launcher
