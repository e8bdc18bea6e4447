// Any bytes from two clients of the store, in two kinds of pieces: the same requests come out, no
// more memory is held than was fed, and the key space they reach keeps its books.
#include <algorithm>
#include <map>
#include <vector>

#include "launcher/plan/store/key_space.h"
#include "launcher/plan/store/store_protocol.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ddp::launcher;
using ddp::fuzz::require;

constexpr std::size_t kMemoryPerByte = 64;  // a text that is sent in 8 bytes is an object here

std::vector<StoreRequest> decode(const std::string& bytes, std::size_t piece, bool& broken) {
  StoreDecoder decoder;
  std::vector<StoreRequest> requests;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    decoder.feed(std::string_view(bytes).substr(at, piece));
    while (auto request = decoder.next())
      requests.push_back(std::move(*request));
    require(decoder.held() <= 4096 + kMemoryPerByte * bytes.size(),
            "memory is bounded by the input");
  }
  broken = decoder.is_broken();
  return requests;
}

void use(const std::vector<StoreRequest>& requests) {
  constexpr StoreClientId kClients = 3;
  KeySpace keys(1 << 16);
  std::map<StoreClientId, bool> waiting;
  StoreClientId client = 0;
  for (const StoreRequest& request : requests) {
    client = (client + 1) % kClients;
    const bool waits =
        request.command == StoreCommand::wait || request.command == StoreCommand::barrier;
    waiting[client] = waiting[client] && request.command != StoreCommand::cancel_wait && !waits;
    KeySpace::Work work(client, request, {});
    std::vector<StoreClientId> all_released;
    bool is_done = false;
    while (!is_done) {
      const KeySpace::StepResult step = keys.step(work, [client] { return client == 0; });
      is_done = step.is_done;
      all_released.insert(all_released.end(), step.released.begin(), step.released.end());
    }
    if (waits && work.refused.empty()) {
      waiting[client] = work.reply.empty();
    }
    for (const StoreClientId released : all_released) {
      require(waiting[released], "who is released has waited");
      waiting[released] = false;
    }
    require(keys.bytes() <= 1 << 16, "the store is bounded");
  }
  const auto count =
      std::count_if(waiting.begin(), waiting.end(), [](const auto& entry) { return entry.second; });
  require(keys.waits().size() == static_cast<std::size_t>(count), "every wait is known");
  for (StoreClientId name = 0; name < kClients; ++name)
    keys.forget(name);
  require(keys.waits().empty(), "who is gone waits no more");
  while (!keys.clear([] { return true; })) {
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes = ddp::fuzz::to_string(data, size);
  bool broken = false;
  bool broken_bytewise = false;
  const auto requests = decode(bytes, std::max<std::size_t>(size, 1), broken);
  require(decode(bytes, 1, broken_bytewise) == requests, "pieces do not matter");
  require(broken == broken_bytewise, "pieces do not matter to what is refused");
  use(requests);
  return 0;
}
