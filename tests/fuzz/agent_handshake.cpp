// Any bytes in the place of what the other agent says in a handshake with a token, and after it: no
// proof comes of them, no frame is opened, and the reader of sealed frames keeps no more than it
// was fed; and what was really sealed is opened, in whatever pieces it comes.
#include <optional>
#include <string>

#include "launcher/net/frame_cipher.h"
#include "launcher/plan/wire/frames.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ddp::launcher;
using ddp::fuzz::require;

const std::string kToken(64, 't');

/// Half of the bytes are the handshake, the others follow it.
void play_other_agent(const std::string& bytes) {
  Transcript said;
  const auto opening = read_agent_opening(bytes);
  if (!opening) return;
  said.opening = bytes.substr(0, kAgentOpeningBytes);
  FrameDecoder handshake(256);
  handshake.feed(std::string_view(bytes).substr(kAgentOpeningBytes));
  said.node = std::string(handshake.next().value_or(""));
  if (said.node.size() != kNonceBytes) return;
  said.coordinator = std::string(kNonceBytes, 'c');
  const std::string proof(handshake.next().value_or(""));
  require(!is_proof(proof, kToken, Prover::node, said), "nobody guesses a proof");
}

void read_sealed(const std::string& bytes) {
  Transcript said{std::string(kAgentOpeningBytes, 'o'),
                  std::string(kNonceBytes, 'n'),
                  std::string(kNonceBytes, 'c')};
  FrameCipher coordinator(kToken, Prover::coordinator, said);
  FrameCipher node(kToken, Prover::node, said);
  FrameDecoder decoder(kLongestSealed);
  decoder.feed(bytes);
  while (const auto frame = decoder.next())
    require(!coordinator.open(*frame), "nobody makes a frame without the key");
  require(decoder.held() <= 4096 + 4 * bytes.size(), "memory is bounded by the input");
  if (bytes.empty()) return;

  FrameCipher other(kToken, Prover::coordinator, said);
  const std::string sealed = node.seal(bytes);
  FrameDecoder piecewise(kLongestSealed);
  std::optional<std::string> opened;
  for (const char byte : frame_head(sealed.size()) + sealed) {
    piecewise.feed(std::string_view(&byte, 1));
    if (const auto frame = piecewise.next()) opened = other.open(*frame);
  }
  require(opened == bytes, "what was sealed is opened");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes = ddp::fuzz::to_string(data, size);
  play_other_agent(bytes);
  read_sealed(bytes);
  return 0;
}
