#include "tests/support/fake_gpu_streams.h"

namespace ddp::worker::late {

StreamQueue& queue_of(const c10::Stream& stream) {
  static std::array<std::array<StreamQueue, kStreams>, kDevices> queues;
  return queues.at(static_cast<std::size_t>(stream.device_index()))
      .at(static_cast<std::size_t>(stream.id()));
}

c10::Stream stream_of(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, index), id);
}

c10::Stream current_stream(c10::DeviceIndex index) {
  return stream_of(index, current_streams.at(static_cast<std::size_t>(index)));
}

void wait_for_all(const c10::Stream& stream) {
  StreamQueue& queue = queue_of(stream);
  queue.run_all();
  queue.land(queue.asked());
}

void begin_launch(const c10::Stream& stream) {
  queue_of(stream).ask([] {});
  queue_of(stream).run_all();
}

}  // namespace ddp::worker::late
