// Any bytes from another agent: in whatever pieces they come, the same opening and the same frames,
// no more memory than was fed; and a frame that is a message is the same when it is written again.
#include <optional>
#include <vector>

#include "launcher/plan/doctor/doctor_codec.h"
#include "launcher/plan/wire/frames.h"
#include "launcher/plan/wire/message_codec.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ddp::launcher;
using ddp::fuzz::require;

std::vector<std::string> frames_of(const std::string& bytes, std::size_t piece, bool& broken) {
  FrameDecoder decoder;
  std::vector<std::string> frames;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    decoder.feed(std::string_view(bytes).substr(at, piece));
    while (const auto frame = decoder.next()) {
      require(!frame->empty() && frame->size() <= kLongestFrame, "a frame has its limits");
      frames.emplace_back(*frame);
    }
    require(decoder.held() <= 4096 + 4 * bytes.size(), "memory is bounded by the input");
  }
  broken = decoder.is_broken();
  return frames;
}

/// Written once, a message is written the same way again.
template <typename Message, typename Decode>
void use(const std::optional<Message>& message, Decode decode) {
  if (!message) return;
  const std::string written = encode(*message);
  require(written.size() <= kLongestFrame, "a message fits into a frame");
  const auto again = decode(written);
  require(again.has_value(), "what is written can be read");
  require(encode(*again) == written, "what is read is what was written");
}

void use_answer(const std::optional<Answer>& answer) {
  if (!answer) return;
  const auto write = [](const auto& message) { return encode(message); };
  const std::string written = std::visit(write, *answer);
  const std::optional<Answer> again = decode_answer(written);
  require(again && std::visit(write, *again) == written, "what is read is what was written");
}

void use_text(const std::string& text) {
  use(decode_hello(text), decode_hello);
  use_answer(decode_answer(text));
  use(decode_command(text), decode_command);
  use(decode_event(text), decode_event);
  use(decode_doctor(text), decode_doctor);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes = ddp::fuzz::to_string(data, size);
  if (const auto opening = read_agent_opening(bytes)) {
    require(read_agent_opening(to_bytes(*opening)) == opening, "an opening survives the way");
  }
  bool broken = false;
  bool broken_bytewise = false;
  const auto frames = frames_of(bytes, size + 1, broken);
  require(frames_of(bytes, 1, broken_bytewise) == frames, "pieces do not matter");
  require(broken == broken_bytewise, "pieces do not matter to what is refused");
  for (const std::string& frame : frames)
    use_text(frame);
  use_text(bytes);
  return 0;
}
