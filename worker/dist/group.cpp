#include "worker/dist/group.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>

#include "worker/dist/polling.h"

namespace ddp::worker {

void Group::await_device(const std::string& /*during*/,
                         const std::function<bool()>& is_done) const {
  poll_device(is_done, [] {});
}

void await_stream(const Group& group, const at::Device& device, const std::string& during) {
  if (device.is_cpu()) return;
  c10::Event done(device.type());
  done.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  group.await_device(during, [&done] { return done.query(); });
}

std::vector<at::Tensor> gather_rows(Group& group, const at::Tensor& rows) {
  const at::Tensor mine = at::full({1}, rows.size(0), at::kLong);
  const at::Tensor counts = group.all_gather(mine).contiguous();  // [world_size, 1]
  const std::int64_t* const count = counts.data_ptr<std::int64_t>();
  // gather() needs equally many rows on each rank, so all are padded to the longest.
  std::vector<std::int64_t> shape = rows.sizes().vec();
  shape[0] = *std::max_element(count, count + counts.numel());
  if (shape[0] == 0) return std::vector<at::Tensor>(static_cast<std::size_t>(counts.numel()), rows);
  const at::Tensor padded = at::zeros(shape, rows.options());
  padded.narrow(0, 0, rows.size(0)).copy_(rows);
  const at::Tensor all = group.all_gather(padded);
  std::vector<at::Tensor> parts;
  for (std::int64_t i = 0; i < counts.numel(); ++i)
    parts.push_back(all[i].narrow(0, 0, count[i]));
  return parts;
}

PeerError Group::explain_lost_peer(const std::string& during,
                                   std::chrono::steady_clock::time_point /*began*/,
                                   const std::string& cause) const {
  return PeerError("lost a peer during " + during + ": " + cause);
}

std::vector<std::string> gather_texts(Group& group, const std::string& text) {
  const at::Tensor mine = at::zeros({static_cast<std::int64_t>(text.size())}, at::kByte);
  if (!text.empty()) std::memcpy(mine.data_ptr(), text.data(), text.size());
  std::vector<std::string> texts;
  for (const at::Tensor& one : gather_rows(group, mine)) {
    const at::Tensor bytes = one.contiguous();
    texts.emplace_back(static_cast<const char*>(bytes.data_ptr()),
                       static_cast<std::size_t>(bytes.numel()));
  }
  return texts;
}

}  // namespace ddp::worker
