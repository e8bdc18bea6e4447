// Text in pages for a browser. Names from users, data sets and programs go through escape() before
// they are part of a page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// Escapes any text for use between tags or in a quoted attribute. Bytes that are not UTF-8 become
/// U+FFFD; direction marks, and control characters except line ends and tabs, become '?'.
std::string escape(std::string_view text);

/// "<TAG class="...">text</TAG>" of text that is escaped here. An empty class is left out.
std::string element(std::string_view tag, std::string_view text, std::string_view css_class = "");

/// A table with one row of heads; both are HTML already. A row may have a class: `row_classes` is
/// empty or has one for each.
std::string html_table(const std::vector<std::string>& heads,
                       const std::vector<std::vector<std::string>>& rows,
                       const std::vector<std::string>& row_classes = {});

/// A whole page around `body`: one file, nothing is loaded from elsewhere, no scripts. Light or
/// dark, wide or narrow, as the browser asks. `title` is escaped here.
std::string html_page(std::string_view title, std::string_view body);

/// The style sheet of our pages: colours named by meaning, in light and dark.
std::string_view page_style();

// Numbers for people.
/// "0.0862", "12.3", "1.23e-05"; "-" if not finite.
std::string short_number(double value);
/// "12 345", grouped for reading.
std::string grouped(std::int64_t value);
/// "97.50 %" for an accuracy, else short_number() with four decimals if that is enough.
std::string metric_number(std::string_view name, double value);
/// The same for a reported loss: "nan", "inf" or "-inf" if not finite.
std::string loss_html(double value);
/// "3 h 05 min", "2 min 04 s", "5.9 s".
std::string time_text(double seconds);

}  // namespace ddp
