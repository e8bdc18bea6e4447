#include "worker/dist/shared_sums.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "worker/dist/row_sums.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kSpins = 100;       // some 5 us: more would take a core from backward
constexpr int kIdleSpins = 2000;  // some 100 us: a core takes as long to wake up

/// An empty tensor has no data, and memcpy(3) takes no null pointer.
void copy(char* to, const char* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

/// Whether `number` is before `wanted`; both wrap around.
bool is_behind(std::uint32_t number, std::uint32_t wanted) {
  return static_cast<std::int32_t>(number - wanted) < 0;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// Completes the future, which runs its callbacks.
void complete(const TensorsFuture& future,
              const SharedSums::Call& call,
              const std::exception_ptr& error) {
  if (call.on_end) call.on_end();
  if (error)
    future->setError(error);
  else
    future->markCompleted(
        c10::IValue(call.outputs.empty() ? std::vector<at::Tensor>{call.tensor} : call.outputs));
}

}  // namespace

SharedSums::Connected SharedSums::connect(int rank,
                                          const std::vector<int>& names,
                                          const Gather& gather) {
  SumsMemory::Opened opened = SumsMemory::open(rank, names, gather);
  std::unique_ptr<SharedSums> sums;
  if (opened.memory) sums.reset(new SharedSums(rank, names, std::move(opened.memory)));
  // Each rank must know that all have mapped the memory.
  for (const std::string& why_not : gather(opened.problem))
    if (!why_not.empty()) return {nullptr, why_not};
  return {std::move(sums), ""};
}

SharedSums::SharedSums(int rank, const std::vector<int>& names, std::unique_ptr<SumsMemory> memory)
    : rank_(rank),
      world_size_(static_cast<int>(names.size())),
      may_spin_(world_size_ <= usable_cores()),
      memory_(std::move(memory)),
      names_(names) {
  threads_.emplace_back([this] {
    RankState& rank_state = memory_->rank_state(rank_);
    ::pthread_mutex_lock(&rank_state.alive_lock);
    has_started_.count_down();
    serve();
    ::pthread_mutex_unlock(&rank_state.alive_lock);
  });
  has_started_.wait();
}

SharedSums::~SharedSums() {
  std::unique_lock lock(mutex_);
  is_closing_ = true;
  changed_.notify_all();
  for (std::size_t i = 0; i < threads_.size(); ++i) {  // the last calls may start another thread
    std::thread thread = std::move(threads_[i]);
    lock.unlock();
    thread.join();
    lock.lock();
  }
}

bool SharedSums::can_sum(const at::Tensor& tensor) {
  return can_broadcast(tensor) && sum_rows_of(tensor.scalar_type()) != nullptr;
}

bool SharedSums::can_broadcast(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_conj() &&
         !tensor.is_neg();  // lazy conjugation and negation are not applied to the bytes
}

bool SharedSums::can_gather(const at::Tensor& tensor, const std::vector<at::Tensor>& outputs) {
  return can_broadcast(tensor) && std::ranges::all_of(outputs, [&](const at::Tensor& output) {
           return can_broadcast(output) && output.scalar_type() == tensor.scalar_type() &&
                  output.sizes() == tensor.sizes();
         });
}

c10::intrusive_ptr<c10d::Work> SharedSums::start(Call call) {
  TensorsFuture future = new_tensors_future();
  {
    const std::lock_guard lock(mutex_);
    unfinished_.push_back(future);
    started_.push_back({std::move(call), future});
    add_thread_if_needed();
  }
  changed_.notify_all();
  return work_of(std::move(future));
}

c10::intrusive_ptr<c10d::Work> SharedSums::run(Call call) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::unique_lock lock(mutex_);
  if (!started_.empty()) add_thread_if_needed();
  changed_.wait(lock, [this] { return !is_running_ && started_.empty(); });
  is_running_ = true;
  lock.unlock();
  const std::exception_ptr error = execute(call, may_spin_ ? kIdleSpins : 0);
  lock.lock();
  is_running_ = false;
  lock.unlock();
  changed_.notify_all();
  TensorsFuture future = new_tensors_future();
  complete(future, call, error);
  return work_of(std::move(future));
}

at::Tensor SharedSums::allocate(std::int64_t count, at::ScalarType type) {
  return memory_->allocate(count, type);
}

void SharedSums::drain() {
  std::unique_lock lock(mutex_);
  const std::vector<TensorsFuture> open = unfinished_;
  lock.unlock();
  for (const TensorsFuture& future : open)
    future->wait();
}

/// Threads in callbacks may wait for started calls, so there must be one more thread to run those.
void SharedSums::add_thread_if_needed() {
  if (completing_ == threads_.size()) threads_.emplace_back([this] { serve(); });
}

/// Runs started calls. Only one thread at a time runs a call.
void SharedSums::serve() {
  // Autograd need not know of these writes: Gloo writes bytes, too.
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !is_running_ && (is_closing_ || !started_.empty()); });
    if (started_.empty()) return;
    Started started = std::move(started_.front());
    started_.pop_front();
    is_running_ = true;
    lock.unlock();
    const std::exception_ptr error = execute(started.call, may_spin_ ? kSpins : 0);
    lock.lock();
    is_running_ = false;
    ++completing_;
    if (!started_.empty()) add_thread_if_needed();
    lock.unlock();
    changed_.notify_all();
    complete(started.future, started.call, error);
    TensorsFuture ended = started.future;
    started = {};  // not under the lock: a destructor may wait for Python's
    lock.lock();
    --completing_;
    std::erase(unfinished_, ended);
    lock.unlock();
    ended.reset();  // it may be the last to hold its tensors
    lock.lock();
  }
}

std::exception_ptr SharedSums::execute(const Call& call, int spins) {
  if (failure_) return failure_;
  try {
    deadline_ = Clock::now() + call.timeout;
    spins_ = spins;
    kind_ = {static_cast<std::uint64_t>(call.tensor.nbytes()),
             call.tensor.scalar_type(),
             call.outputs.empty() ? call.from.value_or(CallKind::kSum) : CallKind::kGather};
    execute(call);
    return nullptr;
  } catch (const std::exception&) {
    end_all(End::loss);  // if it was not said yet, as without memory
    failure_ = std::current_exception();
    return failure_;
  }
}

void SharedSums::execute(const Call& call) {
  const at::Tensor whole = call.tensor.contiguous();
  place_ = 0;
  auto* const data = static_cast<char*>(whole.mutable_data_ptr());
  if (kind_.operation == CallKind::kGather) return gather(data, call.outputs);
  if (kind_.operation != CallKind::kSum)
    broadcast(data);
  else if (world_size_ == 1)
    require_not_ended();  // its sum is its tensor
  else if (kind_.bytes * static_cast<std::uint64_t>(world_size_) <= kSmallBytes)
    sum_small(data);
  else
    sum_large(data);
  if (exchange_ && kind_.operation == CallKind::kSum) exchange(whole);
  if (!whole.is_same(call.tensor)) call.tensor.copy_(whole);
}

std::string SharedSums::name_of(int rank) const {
  return "rank " + std::to_string(names_.at(static_cast<std::size_t>(rank)));
}

void SharedSums::exchange(const at::Tensor& sum) {
  if (rank_ == 0) {
    try {
      const auto left = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
      exchange_(sum, std::max(left, milliseconds(1)));
    } catch (const std::exception&) {
      end_all(End::loss);
      throw;
    }
  }
  if (world_size_ == 1) return;
  kind_.operation = 0;
  broadcast(static_cast<char*>(sum.mutable_data_ptr()));
}

void SharedSums::broadcast(char* data) {
  std::size_t done = 0;
  do {  // at least once, so that all ranks synchronise for an empty tensor, too
    const Chunk chunk = take_slot(data + done, kind_.bytes - done);
    char* const shared = memory_->chunk(chunk.slot, kind_.operation);
    if (rank_ == kind_.operation) copy(shared, chunk.data, chunk.bytes);
    barrier();
    require_same_call(chunk.slot);
    if (rank_ != kind_.operation) copy(chunk.data, shared, chunk.bytes);
    done += chunk.bytes;
  } while (done < kind_.bytes);
}

void SharedSums::gather(char* data, const std::vector<at::Tensor>& outputs) {
  std::vector<at::Tensor> wholes;
  for (const at::Tensor& output : outputs)
    wholes.push_back(output.contiguous());
  std::size_t done = 0;
  do {
    const Chunk chunk = take_slot(data + done, kind_.bytes - done);
    copy(memory_->chunk(chunk.slot, rank_), chunk.data, chunk.bytes);
    barrier();
    require_same_call(chunk.slot);
    for (int rank = 0; rank < world_size_; ++rank) {
      auto* const output = static_cast<char*>(wholes[static_cast<std::size_t>(rank)].data_ptr());
      copy(output + done, memory_->chunk(chunk.slot, rank), chunk.bytes);
    }
    done += chunk.bytes;
  } while (done < kind_.bytes);
  for (std::size_t rank = 0; rank < outputs.size(); ++rank)
    if (!wholes[rank].is_same(outputs[rank])) outputs[rank].copy_(wholes[rank]);
}

/// Each rank sums the whole tensor: more work, but one barrier less.
void SharedSums::sum_small(char* data) {
  const Chunk chunk = take_slot(data, kind_.bytes);
  copy(memory_->chunk(chunk.slot, rank_), data, chunk.bytes);
  barrier();
  require_same_call(chunk.slot);
  sum_rows(chunk, {0, chunk.bytes}, nullptr);
}

/// Each rank sums its part of a chunk into its tensor, and for the others into its place in the
/// slot. Before the barrier it also publishes its next chunk.
void SharedSums::sum_large(char* data) {
  place_ = memory_->blocks().offset_of(data, kind_.bytes).value_or(0);
  Chunk chunk = take_slot(data, kind_.bytes);
  if (place_ == 0) publish_other_parts(chunk);
  barrier();
  require_same_call(chunk.slot);
  const int in_place = count_in_place(chunk.slot);
  if (in_place == world_size_) return sum_in_place(data, chunk.slot);
  if (in_place > 0) {  // those in place did not know that another one is not
    if (place_ != 0) publish_other_parts(chunk);
    barrier();
  }
  std::size_t shared = chunk.bytes;
  while (true) {
    const Part own = part_of(chunk, rank_);
    sum_rows(chunk, own, memory_->chunk(chunk.slot, rank_) + own.begin);
    const bool is_last = shared == kind_.bytes;
    const Chunk next = is_last ? Chunk() : take_slot(data + shared, kind_.bytes - shared);
    publish_other_parts(next);
    shared += next.bytes;
    barrier();
    for (int peer = 0; peer < world_size_; ++peer) {
      if (peer == rank_) continue;
      const Part part = part_of(chunk, peer);
      copy(chunk.data + part.begin, memory_->chunk(chunk.slot, peer) + part.begin, part.bytes);
    }
    if (is_last) return;
    chunk = next;
    require_same_call(chunk.slot);
  }
}

/// Each rank sums its part of the tensor, and stores the sums in the tensors of all.
void SharedSums::sum_in_place(char* data, std::uint32_t slot) {
  constexpr std::size_t kPieceBytes = 16 << 10;  // stays in the core's first cache
  std::vector<int> peers;
  std::vector<std::uint64_t> places;  // of the peers' tensors
  for (int rank = 0; rank < world_size_; ++rank) {
    if (rank == rank_) continue;
    peers.push_back(rank);
    places.push_back(memory_->rank_state(rank).places[slot]);
  }
  const std::vector<char*> others = memory_->blocks().view(places, kind_.bytes);
  if (others.empty()) fail(name_of(rank_) + " cannot map the memory of " + name_of(peers[0]));
  const Part own = part_of({data, kind_.bytes, slot}, rank_);
  for (std::size_t done = 0; done < own.bytes; done += kPieceBytes) {
    require_not_ended();  // a rank that was stopped must not write much when the others have gone
                          // on
    const std::size_t begin = own.begin + done;
    const std::size_t piece = std::min(kPieceBytes, own.bytes - done);
    rows_.clear();
    for (const char* other : others)
      rows_.push_back(other + begin);
    rows_.insert(rows_.begin() + rank_, data + begin);
    sum_rows_of(kind_.type)(rows_, piece, data + begin, nullptr);
    for (char* other : others)
      copy(other + begin, data + begin, piece);
  }
  barrier();
}

/// How many ranks have announced a tensor in memory of allocate().
int SharedSums::count_in_place(std::uint32_t slot) const {
  int count = 0;
  for (int rank = 0; rank < world_size_; ++rank)
    if (memory_->rank_state(rank).places[slot] != 0) ++count;
  return count;
}

/// Takes the next slot for the next chunk; `left` is how many bytes remain.
/// Three slots are enough: a rank that writes chunk p + 3 into the slot of chunk p has passed a
/// barrier that every rank reached only after it had read chunk p.
SharedSums::Chunk SharedSums::take_slot(char* data, std::size_t left) {
  slot_ = (slot_ + 1) % SumsMemory::kSlots;
  RankState& own = memory_->rank_state(rank_);
  own.kinds[slot_] = kind_;
  own.places[slot_] = place_;
  return {data, std::min(SumsMemory::chunk_bytes(world_size_), left), slot_};
}

void SharedSums::publish_other_parts(const Chunk& chunk) {
  const Part own = part_of(chunk, rank_);
  const std::size_t end = own.begin + own.bytes;
  char* const shared = memory_->chunk(chunk.slot, rank_);
  copy(shared, chunk.data, own.begin);
  copy(shared + end, chunk.data + end, chunk.bytes - end);
}

/// The part of a chunk that `rank` sums.
SharedSums::Part SharedSums::part_of(const Chunk& chunk, int rank) const {
  const std::size_t element = c10::elementSize(kind_.type);
  const std::size_t count = chunk.bytes / element;
  const auto bound = [&](int of) {
    return count * static_cast<std::size_t>(of) / static_cast<std::size_t>(world_size_) * element;
  };
  return {bound(rank), bound(rank + 1) - bound(rank)};
}

/// `copy_of_sums` may be null.
void SharedSums::sum_rows(const Chunk& chunk, Part part, char* copy_of_sums) {
  char* const own = chunk.data + part.begin;
  rows_.clear();
  for (int rank = 0; rank < world_size_; ++rank)
    rows_.push_back(rank == rank_ ? own : memory_->chunk(chunk.slot, rank) + part.begin);
  sum_rows_of(kind_.type)(rows_, part.bytes, own, copy_of_sums);
}

/// Waits until all ranks have reached this barrier.
void SharedSums::barrier() {
  RankState& own = memory_->rank_state(rank_);
  ++barriers_;
  own.barriers.store(barriers_);
  if (own.waiters.load() != 0) futex_wake(own.barriers);
  for (int peer = 0; peer < world_size_; ++peer)
    if (peer != rank_) wait_for(peer);
  require_not_ended();
}

void SharedSums::wait_for(int peer) {
  RankState& rank_state = memory_->rank_state(peer);
  for (int i = 0; i < spins_ && is_behind(rank_state.barriers.load(), barriers_); ++i)
    relax();
  while (is_behind(rank_state.barriers.load(), barriers_)) {
    require_not_ended();
    ++rank_state.waiters;
    const std::uint32_t seen = rank_state.barriers.load();
    if (is_behind(seen, barriers_)) futex_wait(rank_state.barriers, seen, kPeerCheck);
    --rank_state.waiters;
    if (!is_behind(rank_state.barriers.load(), barriers_)) return;
    // It may have reached the barrier and then ended.
    if (rank_state.has_ended() && is_behind(rank_state.barriers.load(), barriers_))
      fail(name_of(peer) + " has ended");
    if (Clock::now() >= deadline_) fail(name_of(peer) + " did not come in time");
  }
}

/// Fails if ranks make different calls: they would read data of an earlier chunk.
void SharedSums::require_same_call(std::uint32_t slot) {
  for (int peer = 0; peer < world_size_; ++peer)
    if (memory_->rank_state(peer).kinds[slot] != kind_) end_all(End::disagreement);
  require_not_ended();
}

/// Throws if a rank has ended all calls: a rank that was stopped finds out here that the others
/// have given up.
void SharedSums::require_not_ended() {
  const auto end = static_cast<End>(memory_->header().end.load());
  if (end == End::none) return;
  if (end == End::loss) fail("a rank has given up");
  const std::string what = kind_.operation == CallKind::kSum ? "sums"
                           : kind_.operation == CallKind::kGather
                               ? "gathers"
                               : "broadcasts from " + name_of(kind_.operation);
  throw std::logic_error(name_of(rank_) + " " + what + " " + std::to_string(kind_.bytes) +
                         " bytes of " + c10::toString(kind_.type) +
                         ", another rank does something else");
}

void SharedSums::fail(const std::string& why) {
  end_all(End::loss);
  throw c10::DistNetworkError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, why);
}

void SharedSums::end_all(End end) {
  std::uint32_t none = 0;
  memory_->header().end.compare_exchange_strong(none, static_cast<std::uint32_t>(end));
  for (int rank = 0; rank < world_size_; ++rank)
    futex_wake(memory_->rank_state(rank).barriers);
}

}  // namespace ddp::worker
