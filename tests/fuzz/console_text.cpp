// Any bytes of a worker: in whatever pieces they come, the same lines; and on the console only
// text, tabs and colours, which cleaning once more does not change.
#include "launcher/plan/output/console_text.h"

#include <string>

#include "launcher/plan/output/line_splitter.h"
#include "tests/fuzz/fuzz.h"

namespace {

using ddp::fuzz::require;

std::string clean(std::string_view line) {
  std::string text;
  ddp::launcher::append_clean(text, line);
  return text;
}

void require_harmless(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0x1b) {
      const std::size_t end = text.find_first_not_of("0123456789;:", i + 2);
      require(text.substr(i, 2) == "\x1b[" && end != std::string::npos && text[end] == 'm',
              "an escape sequence is a colour");
    } else {
      require((byte >= 0x20 && byte != 0x7f) || byte == '\t', "no control character is left");
    }
  }
}

/// The cleaned lines, fed by so many bytes at a time.
std::string lines_of(const std::string& bytes, std::size_t piece) {
  ddp::launcher::LineSplitter splitter;
  std::string lines;
  const auto take = [&](std::string_view line) {
    const std::string text = clean(line);
    require_harmless(text);
    require(clean(text) == text, "clean text stays as it is");
    lines += text + "\n";
  };
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    splitter.feed(std::string_view(bytes).substr(at, piece), take);
  splitter.finish(take);
  return lines;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes = ddp::fuzz::to_string(data, size);
  require(lines_of(bytes, 7) == lines_of(bytes, 4096), "pieces make no difference");
  return 0;
}
