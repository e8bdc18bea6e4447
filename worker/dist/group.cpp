#include "worker/dist/group.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

namespace ddp::worker {
namespace {

constexpr std::size_t kTextBytes = 256;

}  // namespace

PeerError Group::explain_loss(const std::string& during,
                              std::chrono::steady_clock::time_point /*began*/,
                              const std::string& cause) const {
  return PeerError("lost a peer during " + during + ": " + cause);
}

std::vector<std::string> gather_texts(Group& group, const std::string& text) {
  const at::Tensor mine = at::zeros({static_cast<std::int64_t>(kTextBytes)}, at::kByte);
  std::memcpy(mine.data_ptr(), text.data(), std::min(text.size(), kTextBytes - 1));
  const at::Tensor all = group.gather(mine).contiguous();  // [world_size, kTextBytes]
  std::vector<std::string> texts;
  for (std::int64_t rank = 0; rank < all.size(0); ++rank) {
    texts.emplace_back(static_cast<const char*>(all[rank].data_ptr()));  // ends with a zero
  }
  return texts;
}

}  // namespace ddp::worker
