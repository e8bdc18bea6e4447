#include "tests/support/fake_gpu_record.h"

#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "tests/support/fake_gpu.h"
#include "tests/support/fake_gpu_memory.h"

namespace ddp::worker {
namespace late {
namespace {

struct Record {
  std::vector<Launch> launches;
  std::map<std::int64_t, std::int64_t> own;  // blocks that were given out meanwhile, by order
};

std::mutex record_mutex;
Record* record = nullptr;  // of one LaunchRecord at a time

Place place_of(const at::Tensor& tensor) {
  const std::int64_t block = block_of(tensor)->id();
  const std::int64_t offset = tensor.storage_offset() * tensor.itemsize();
  const auto found = record->own.find(block);
  if (found == record->own.end()) return {false, block, offset};
  return {true, found->second, offset};
}

}  // namespace

void note_allocation(std::int64_t block, std::size_t size) {
  const std::lock_guard lock(record_mutex);
  if (record == nullptr) return;
  record->own.emplace(block, record->own.size());
  record->launches.push_back({"allocate", {}, std::to_string(size)});
}

void note_launch(const std::string& name,
                 const std::vector<at::Tensor>& tensors,
                 const std::string& values) {
  const std::lock_guard lock(record_mutex);
  if (record == nullptr) return;
  Launch launch{name, {}, values};
  for (const at::Tensor& tensor : tensors)
    launch.places.push_back(place_of(tensor));
  record->launches.push_back(std::move(launch));
}

void note_copy(const std::string& name, const at::Tensor& there, const void* host) {
  const std::lock_guard lock(record_mutex);
  if (record == nullptr) return;
  std::ostringstream address;
  address << host;
  record->launches.push_back({name, {place_of(there)}, address.str()});
}

}  // namespace late

LaunchRecord::LaunchRecord() {
  const std::lock_guard lock(late::record_mutex);
  late::record = new late::Record;
}

LaunchRecord::~LaunchRecord() {
  const std::lock_guard lock(late::record_mutex);
  delete std::exchange(late::record, nullptr);
}

std::vector<std::string> LaunchRecord::names() const {
  std::vector<std::string> names;
  for (const Launch& one : launches()) {
    if (one.name.starts_with("aten::")) names.push_back(one.name);
  }
  return names;
}

std::vector<Launch> LaunchRecord::launches() const {
  const std::lock_guard lock(late::record_mutex);
  return late::record->launches;
}

}  // namespace ddp::worker
