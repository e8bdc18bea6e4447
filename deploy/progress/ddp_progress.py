"""One line per step, and ddp-launch knows how this rank fares: exact detection of hangs, live line, status.

    from ddp_progress import progress
    for i, batch in enumerate(loader):
        ...
        progress.step(i, loss)                    # also total=, epoch=, samples= (of the whole job), lr=, data_wait=, device_bytes=
    with progress.phase("evaluating"): ...        # what takes long between two steps; "saving" has no automatic limit
    with progress.collective(): dist.barrier()    # a rank inside of one waits for others, and is not to blame
    progress.checkpoint(i)                        # that step's checkpoint is whole
    progress.accuracy(0.97)                       # of an evaluation

Copy this file beside your script. Without ddp-launch all of it does nothing. No call into the system but the clock.
"""
import atexit
import contextlib
import mmap
import os
import time

VERSION = 3  # of the page; common/progress/progress_page.h of ddp-launch has its layout
PHASES = ("none", "starting", "joining", "loading", "training", "evaluating", "saving", "stopping", "finished", "data",
          "forward", "backward")  # fmt: skip
_STEP_PHASES = tuple(PHASES.index(name) for name in ("training", "data", "forward", "backward"))


def _open_page():
    """The page that ddp-launch shares with this process, or None."""
    fd = os.environ.get("DDP_PROGRESS_FD", "")
    try:
        # A process that was started by a worker has the variable, but another file behind the number.
        if os.readlink(f"/proc/self/fd/{int(fd)}").startswith("/memfd:ddp-progress"):
            page = mmap.mmap(int(fd), 4096)
            os.close(int(fd))
            return memoryview(page)
    except (OSError, ValueError):
        pass
    return None


class Progress:
    def __init__(self, page):
        self._is_shared = page is not None
        page = page or memoryview(bytearray(4096))
        self._words, self._numbers, self._reals = page.cast("I"), page.cast("q"), page.cast("d")
        self._pid = os.getpid()
        self._words[1] = PHASES.index("starting")
        self._words[0] = VERSION  # last: from now on the agent reads the rest
        atexit.register(self.finish)

    def step(self, step, loss=None, *, total=None, epoch=None, samples=None, lr=None, data_wait=None, device_bytes=None):
        """Step number `step` is done. `loss` is anything that float() takes; of a tensor on a GPU that waits for the GPU.
        `data_wait`: seconds that the loop has waited for data since it began. `device_bytes`: torch.cuda.memory_reserved()."""
        if not self._is_shared:
            return
        wait_ns = None if data_wait is None else data_wait * 1e9
        for slot, value in ((2, epoch), (4, total), (5, samples), (11, wait_ns), (12, device_bytes)):
            if value is not None:
                self._numbers[slot] = int(value)
        for slot, value in ((6, loss), (7, lr)):
            if value is not None:  # a tensor that is part of a graph warns when it is read
                self._reals[slot] = float(value.detach() if hasattr(value, "detach") else value)
        self._numbers[3] = int(step)
        if self._words[1] not in _STEP_PHASES:
            self._words[1] = PHASES.index("training")
        self.alive()

    def alive(self):
        """A sign of life in what takes long, such as an evaluation's loop."""
        self._numbers[9] = time.monotonic_ns()

    @contextlib.contextmanager
    def phase(self, name):
        """What this rank does meanwhile, one of PHASES; afterwards what it did before."""
        self.alive()
        before, self._words[1] = self._words[1], PHASES.index(name)
        try:
            yield
        finally:
            self.alive()
            self._words[1] = before

    @contextlib.contextmanager
    def collective(self):
        """This rank waits for others."""
        self._words[3] += 1
        try:
            yield
        finally:
            self._words[3] -= 1

    def accuracy(self, share):
        """An evaluation had that share of right answers, from 0 to 1."""
        self._reals[13] = float(share)

    def checkpoint(self, step):
        """The checkpoint of that step is whole: a round that follows begins there."""
        self._numbers[8] = int(step)

    def finish(self):
        """All is done. Called at the end of the interpreter; call it yourself before os._exit(0)."""
        if os.getpid() == self._pid:
            self._words[1] = PHASES.index("finished")


progress = Progress(_open_page())
