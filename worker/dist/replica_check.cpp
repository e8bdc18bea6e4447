#include "worker/dist/replica_check.h"

#include <ATen/core/Formatting.h>
#include <ATen/ops/full.h>

#include <map>
#include <sstream>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/text/join_words.h"

namespace ddp::worker {
namespace {

void describe(std::ostream& out, const std::string& kind, const NamedTensor& named) {
  const at::Tensor& tensor = named.tensor;
  out << kind << ' ' << named.name << ": " << tensor.scalar_type() << ' ' << tensor.sizes();
  if (!tensor.is_contiguous()) out << ", strides " << tensor.strides();
  out << '\n';
}

}  // namespace

std::string describe_model(const std::vector<NamedTensor>& parameters,
                           const std::vector<NamedTensor>& buffers) {
  std::ostringstream text;
  for (const NamedTensor& parameter : parameters)
    describe(text, "parameter", parameter);
  for (const NamedTensor& buffer : buffers)
    describe(text, "buffer", buffer);
  return text.str();
}

std::int64_t digest_of(const std::vector<NamedTensor>& tensors) {
  XXH3_state_t* const state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (const NamedTensor& one : tensors) {
    const at::Tensor bytes = one.tensor.detach().cpu().contiguous();
    XXH3_64bits_update(state, bytes.data_ptr(), bytes.nbytes());
  }
  const XXH64_hash_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return static_cast<std::int64_t>(hash);
}

std::vector<int> find_diverged_ranks(const std::vector<std::int64_t>& digests) {
  std::map<std::int64_t, int> votes;
  for (const std::int64_t digest : digests)
    ++votes[digest];
  std::int64_t chosen = digests.empty() ? 0 : digests[0];
  for (const std::int64_t digest : digests) {
    if (votes[digest] > votes[chosen]) chosen = digest;
  }
  std::vector<int> diverged;
  for (std::size_t rank = 0; rank < digests.size(); ++rank) {
    if (digests[rank] != chosen) diverged.push_back(static_cast<int>(rank));
  }
  return diverged;
}

std::vector<std::int64_t> gather_digests(Group& group, std::int64_t digest) {
  const at::Tensor all = group.all_gather(at::full({1}, digest, at::kLong)).contiguous();
  const auto* const first = all.const_data_ptr<std::int64_t>();  // [world_size, 1]
  return {first, first + all.numel()};
}

std::vector<int> gather_diverged_ranks(Group& group, std::int64_t digest) {
  return find_diverged_ranks(gather_digests(group, digest));
}

std::string diverged_text(const std::string& what, const std::vector<int>& diverged) {
  const std::string ranks =
      join_words(diverged, ", ", [](int rank) { return std::to_string(rank); });
  return "the " + what + " of rank " + ranks + " are not those of the others";
}

}  // namespace ddp::worker
