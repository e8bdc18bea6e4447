// The loader as the training loop drives it, without a model: images per second, and the CPU's time
// for them, of one of the sets of tests/bench/loader.py.
//   loader_rate mnist | cifar10 | image-folder | coco ROOT BATCH SECONDS [THREADS | resident
//   [KEPT]]
// resident: of a set that lies on the device, here the CPU.
// KEPT: MiB of decoded samples that stay in memory.
// The linker leads calls of libjpeg through here (--wrap), so that its share of the time is known.
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>  // jpeglib.h wants it before itself
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <jpeglib.h>

#include "common/error.h"
#include "worker/data/loading/cached_source.h"
#include "worker/data/sets/memory_source.h"
#include "worker/plan/partition.h"
#include "worker/train/loader_choice.h"
#include "worker/train/registry.h"

namespace {

using namespace ddp::worker;
using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 8;  // batches that do not count
std::atomic<std::int64_t> nanoseconds_in_libjpeg{0};

/// Where libjpeg leaves by longjmp the call does not count: nothing is to be destroyed here.
template <typename Call>
auto timed(const Call& call) {
  const Clock::time_point start = Clock::now();
  const auto result = call();
  nanoseconds_in_libjpeg += std::chrono::nanoseconds(Clock::now() - start).count();
  return result;
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Of all threads, in the program and in the kernel.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

AugmentJob augment(const std::string& name, const ddp::TextMap& args = {}) {
  return {name, Args("data.augment." + name, args)};
}

/// What configs/cifar10.yaml, trainings on ImageNet and those of detectors do to an image.
std::vector<AugmentJob> augments_of(const std::string& set) {
  if (set == "cifar10") return {augment("crop", {{"padding", "4"}}), augment("flip")};
  if (set == "image-folder") return {augment("random-resized-crop"), augment("flip")};
  if (set == "coco")
    return {augment("mosaic"), augment("random-perspective"), augment("hsv"), augment("flip")};
  return {};
}

int measure(const std::vector<std::string>& words) {
  const Registry registry = built_in();
  DataJob job;
  job.name = words.at(0);
  job.augment = augments_of(job.name);
  DataRequest request{.name = job.name, .root = words.at(1)};
  request.test_size = 1;
  if (job.name == "coco") {
    request.image_size = 640;
    request.args = Args("data.args", {{"val", "images/train2017"}});  // coco128 has no other
  }
  Sources sources = registry.data_sets.contains(job.name)
                        ? make_sources(registry.data_sets.at(job.name)(request))
                        : registry.sources.at(job.name)(request);
  if (words.size() > 5)
    sources.train = std::make_shared<CachedSource>(sources.train, std::stoull(words[5]) << 20);
  const DataFacts& facts = sources.train->facts();
  const std::int64_t batch = std::stoll(words.at(2));
  const double limit = std::stod(words.at(3));
  // As worker/train/train_task chooses on a CPU.
  const std::string threads = words.size() > 4 ? words[4] : facts.is_in_memory ? "0" : "2";
  LoaderOptions loading{.augments = make_augments(registry, job, facts), .seed = 1};
  job.resident = DataJob::Resident::never;
  if (threads == "resident")
    job.resident = DataJob::Resident::always;
  else
    loading.threads = std::stoi(threads);
  const std::unique_ptr<BatchLoader> loader = make_loader({job, at::kCPU}, sources.train, loading);
  const PartitionOptions partition{.size = facts.count,
                                   .global_batch = batch,
                                   .micro_batch = batch,
                                   .seed = 1,
                                   .drop_last = true};
  loader->start([walk = PartitionWalk(partition, 0, 0)]() mutable { return walk.next(); });
  for (int i = 0; i < kWarmUp; ++i)
    (void)loader->next();
  const double cpu = cpu_seconds();
  const std::int64_t libjpeg = nanoseconds_in_libjpeg;
  const Clock::time_point start = Clock::now();
  std::int64_t images = 0;
  double taken = 0;
  while (taken < limit) {
    images += loader->next().input.size(0);
    taken = seconds(Clock::now() - start);
  }
  std::cout << "{\"images\": " << images << ", \"seconds\": " << taken
            << ", \"cpu_seconds\": " << cpu_seconds() - cpu << ", \"libjpeg_seconds\": "
            << seconds(std::chrono::nanoseconds(nanoseconds_in_libjpeg - libjpeg)) << "}\n";
  return 0;
}

}  // namespace

extern "C" {
// What of libjpeg takes time, under the names that the linker gives it, and what is called instead.
int __real_jpeg_read_header(j_decompress_ptr info, boolean require_image);
boolean __real_jpeg_start_decompress(j_decompress_ptr info);
JDIMENSION __real_jpeg_read_scanlines(j_decompress_ptr info, JSAMPARRAY rows, JDIMENSION count);
JDIMENSION __real_jpeg_skip_scanlines(j_decompress_ptr info, JDIMENSION count);

int __wrap_jpeg_read_header(j_decompress_ptr info, boolean require_image) {
  return timed([&] { return __real_jpeg_read_header(info, require_image); });
}
boolean __wrap_jpeg_start_decompress(j_decompress_ptr info) {
  return timed([&] { return __real_jpeg_start_decompress(info); });
}
JDIMENSION __wrap_jpeg_read_scanlines(j_decompress_ptr info, JSAMPARRAY rows, JDIMENSION count) {
  return timed([&] { return __real_jpeg_read_scanlines(info, rows, count); });
}
JDIMENSION __wrap_jpeg_skip_scanlines(j_decompress_ptr info, JDIMENSION count) {
  return timed([&] { return __real_jpeg_skip_scanlines(info, count); });
}
}

int main(int argc, char** argv) try {
  if (argc < 5) {
    std::cerr << "usage: loader_rate SET ROOT BATCH SECONDS [THREADS [KEPT]]\n";
    return 2;
  }
  return measure({argv + 1, argv + argc});
} catch (const std::exception& error) {
  std::cerr << "loader_rate: " << error.what() << "\n";
  return 2;
}
