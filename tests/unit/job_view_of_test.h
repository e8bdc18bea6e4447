// A job of two nodes and three ranks, for the tests of what the page shows.
#pragma once

#include "launcher/plan/web/job_view.h"

namespace ddp::launcher {

inline JobView::Rank a_rank(int rank, std::int64_t step) {
  JobView::Rank view;
  view.sample.rank = rank;
  view.sample.has_page = true;
  view.sample.phase = Phase::training;
  view.sample.epoch = 2;
  view.sample.step = step;
  view.sample.steps_total = 1000;
  view.sample.samples = step * 64;
  view.sample.loss = 0.25;
  view.sample.lr = 0.1;
  view.sample.checkpoint_step = 100;
  view.sample.written_ns = step * 10'000'000;   // 10 ms for each
  view.sample.data_wait_ns = step * 1'000'000;  // 10 % of that
  view.sample.device_bytes = (1 << 20) + rank;
  view.sample.activity.state = 'S';
  view.sample.activity.resident_bytes = 3 << 20;
  view.node_rank = rank / 2;
  view.pid = 4000 + rank;
  return view;
}

inline JobView a_job(std::int64_t step) {
  JobView job;
  job.run_id = "0123456789abcdef";
  job.user_run_id = "mine";
  job.program = "train <b>";
  job.host = "node-a";
  job.run_dir = "/runs/mnist";
  job.endpoint = "127.0.0.1:29500";
  job.pid = 17;
  job.state = JobView::Shown::running;
  job.max_restarts = 3;
  job.world_size = 3;
  job.uptime = 12.5;
  job.nodes = {{0, "node-a", 0, 2}, {1, "node-b", 2, 1}};
  job.ranks = {a_rank(0, step), a_rank(1, step), a_rank(2, step)};
  return job;
}

}  // namespace ddp::launcher
