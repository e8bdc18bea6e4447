// ddp-worker as the template of the ranks of a node: it is loaded once, and copies itself for each
// rank of each round, so that a rank starts without loading LibTorch (launch.warm_start). The
// agent's side is launcher/os/rank_template, the requests are those of
// launcher/plan/start/template_messages.
// Promises: a copy is a child of the agent, leads a session, and ends with the agent. It begins
// nothing before the agent has taken it.
#pragma once

namespace ddp::worker {

/// Returns at once in a process that is not a template. A template serves the agent until that
/// closes their socket, and ends. In each copy this returns: its arguments and environment are then
/// those of its rank. Call it first thing in main, before any thread is there.
void become_copy_of_template(int& argc, char**& argv);

}  // namespace ddp::worker
