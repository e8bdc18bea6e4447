#include "common/report/html.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/text/units.h"
#include "common/text/utf8.h"

namespace ddp {
namespace {

// Colours are named by meaning, so that light and dark differ in one place.
constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--page:#f7f7f5;--card:#fff;--ink:#1c1c1a;--soft:#62625c;--line:#dededa;
--grid:#e8e8e4;--s0:#2a78d6;--s1:#d9581f;--s2:#12895f;--s3:#a97400;--s4:#7a52c7;--s5:#c2417f;
--good:#12805a;--bad:#c02626;--warn:#8a6100}
@media(prefers-color-scheme:dark){:root{--page:#141413;--card:#1e1e1c;--ink:#ecece8;--soft:#a3a39b;
--line:#363633;--grid:#2c2c29;--s0:#5a9df0;--s1:#ee7d4b;--s2:#3cbd8d;--s3:#d9a320;--s4:#a98bea;
--s5:#e479ab;--good:#43c293;--bad:#f26d6d;--warn:#dcae3c}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
main{max-width:1240px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:24px;margin:0;overflow-wrap:anywhere}
h2{font-size:17px;margin:28px 0 10px}
h3{font-size:14px;margin:0 0 6px}
p{margin:6px 0}
.soft{color:var(--soft)}
.head{display:flex;flex-wrap:wrap;gap:8px 14px;align-items:center}
.badge{border:1px solid currentColor;border-radius:999px;padding:1px 11px;font-weight:600}
.finished{color:var(--good)}.failed{color:var(--bad)}.stopped,.running,.unknown{color:var(--warn)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:10px;margin-top:16px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 12px}
.tile b{display:block;font-size:19px;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.tile span{color:var(--soft);font-size:13px}
.grid,.pair{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,380px),1fr));gap:12px}
.pair{grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr))}
.card{min-width:0}
.cause{border-left:4px solid var(--bad)}
svg{display:block;width:100%;height:auto}
svg text{font:12px system-ui,sans-serif;fill:var(--soft)}
svg .axis{stroke:var(--line)}svg .grid-line{stroke:var(--grid)}
svg .curve{fill:none;stroke-width:1.8;stroke-linejoin:round}
svg .faint{opacity:.38;stroke-width:1.1}
svg .s0{stroke:var(--s0)}svg .s1{stroke:var(--s1)}svg .s2{stroke:var(--s2)}
svg .s3{stroke:var(--s3)}svg .s4{stroke:var(--s4)}svg .s5{stroke:var(--s5)}
svg .dot{stroke-width:0}
svg .d0{fill:var(--s0)}svg .d1{fill:var(--s1)}svg .d2{fill:var(--s2)}
svg .d3{fill:var(--s3)}svg .d4{fill:var(--s4)}svg .d5{fill:var(--s5)}
svg .mark{stroke-width:1.4}
svg .restart{stroke:var(--warn);stroke-dasharray:5 3}svg .best{stroke:var(--good);stroke-dasharray:1 3}
svg .end-finished{stroke:var(--good)}svg .end-failed{stroke:var(--bad)}
svg .end-stopped,svg .end-running,svg .end-unknown{stroke:var(--warn)}
svg .save{fill:var(--soft)}
svg .cell{fill:var(--s0)}svg .hit{fill:var(--s2)}svg text.count{fill:var(--ink);font-size:10px}
.legend{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:13px;color:var(--soft)}
.key{display:inline-block;width:16px;height:3px;vertical-align:middle;margin-right:5px;border-radius:2px}
.k0{background:var(--s0)}.k1{background:var(--s1)}.k2{background:var(--s2)}
.k3{background:var(--s3)}.k4{background:var(--s4)}.k5{background:var(--s5)}.k-faint{opacity:.38}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:3px 14px 3px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600;white-space:nowrap}
td{overflow-wrap:anywhere;min-width:5.5em}td:first-child{overflow-wrap:normal}
tr.best td{font-weight:650;color:var(--good)}
code,pre{font:13px/1.45 ui-monospace,monospace}
pre{margin:6px 0;white-space:pre-wrap;overflow-wrap:anywhere}
details{margin-top:10px}summary{cursor:pointer;color:var(--soft)}
)css";

void escape_character(std::string_view character, std::string& text) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::string_view kNames[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  const bool is_layout = character == "\n" || character == "\t";
  if (const std::size_t at = kSpecial.find(character[0]); at != std::string_view::npos)
    text += kNames[at];
  else
    text += is_control(character) && !is_layout ? "?" : character;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      escaped += kReplacement;
    } else {
      escape_character(text.substr(0, length), escaped);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return escaped;
}

std::string element(std::string_view tag, std::string_view text, std::string_view css_class) {
  std::string html = "<" + std::string(tag);
  if (!css_class.empty()) html += " class=\"" + escape(css_class) + "\"";
  return html + ">" + escape(text) + "</" + std::string(tag) + ">";
}

std::string html_table(const std::vector<std::string>& heads,
                       const std::vector<std::vector<std::string>>& rows,
                       const std::vector<std::string>& row_classes) {
  std::string html = "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& head : heads)
    html += "<th>" + head + "</th>";
  html += "</tr></thead><tbody>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool has_class = i < row_classes.size() && !row_classes[i].empty();
    html += has_class ? "<tr class=\"" + row_classes[i] + "\">" : "<tr>";
    for (const std::string& cell : rows[i])
      html += "<td>" + cell + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string_view page_style() {
  return kStyle;
}

std::string html_page(std::string_view title, std::string_view body) {
  // The policy guards against mistakes in escape(): nothing runs and nothing is loaded.
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "style-src 'unsafe-inline'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
         element("title", title) + "\n<style>" + std::string(kStyle) +
         "</style>\n</head>\n<body>\n<main>\n" + std::string(body) + "</main>\n</body>\n</html>\n";
}

std::string short_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.4g}", value) : "-";
}

std::string grouped(std::int64_t value) {
  return group_digits(value, "\xe2\x80\xaf");  // a narrow space that does not break
}

std::string metric_number(std::string_view name, double value) {
  if (!std::isfinite(value)) return "-";
  if (name.ends_with("accuracy")) return fmt::format("{:.2f} %", 100 * value);
  const double size = std::abs(value);
  return size == 0 || (size >= 0.001 && size < 1e5) ? fmt::format("{:.4f}", value)
                                                    : short_number(value);
}

std::string loss_html(double value) {
  return std::isfinite(value) ? metric_number("loss", value) : fmt::format("{}", value);
}

std::string time_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::min(seconds, 1e15));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace ddp
