"""One line per step, and ddp-launch knows how this rank fares: exact detection of hangs, live line, status.

    from ddp_progress import progress
    for i, batch in enumerate(loader):
        ...
        progress.step(i, loss)                    # also total=, epoch=, samples= (of the whole job), lr=, data_wait=, device_bytes=
    with progress.phase("evaluating"): ...        # what takes long between two steps; "saving" has no automatic limit
    with progress.collective(): dist.barrier()    # a rank inside of one waits for others, and is not to blame
    progress.checkpoint(i)                        # that step's checkpoint is whole
    progress.accuracy(0.97)                       # of an evaluation
    progress.watch(model)                         # once: the slowest rank is named with what makes it slow (DDP on CPUs)

Copy this file beside your script. Without ddp-launch all of it does nothing. No call into the system but the clock.
"""
import atexit
import contextlib
import errno
import mmap
import os
import threading
import time

VERSION = 4  # of the page; common/progress/progress_page.h of ddp-launch has its layout
PHASES = ("none", "starting", "joining", "loading", "training", "evaluating", "saving", "stopping", "finished", "data",
          "forward", "backward")  # fmt: skip
_COUNTED, _WAITED, _SPENT = 14, 15, 16  # slots of 64 bits: until when time was counted, and the sums; by phase from _SPENT on
_ALIVE_LOCK = 3072  # the byte where the lock is
_STEP_PHASES = tuple(PHASES.index(name) for name in ("training", "data", "forward", "backward"))


def _open_page():
    """The page that ddp-launch shares with this process, or None."""
    fd = os.environ.get("DDP_PROGRESS_FD", "")
    try:
        # A process that was started by a worker has the variable, but another file behind the number.
        if os.readlink(f"/proc/self/fd/{int(fd)}").startswith("/memfd:ddp-progress"):
            page = mmap.mmap(int(fd), 4096)
            os.close(int(fd))
            _take_alive_lock(page)
            return memoryview(page)
    except (OSError, ValueError):
        pass
    return None


def _take_alive_lock(page):
    """The kernel marks this lock as soon as the process dies, so that the other ranks need not wait until its memory and its GPU
    are free again. It belongs to a thread: to the main one, as others may end earlier."""
    if threading.get_native_id() != os.getpid():
        return
    try:
        import ctypes  # not every Python has it

        library = ctypes.CDLL(None)
        trylock, consistent = library.pthread_mutex_trylock, library.pthread_mutex_consistent
    except (ImportError, OSError, AttributeError):
        return
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(page))  # stays mapped to the end: the thread's list of locks leads through it
    lock = ctypes.byref(ctypes.c_char.from_buffer(page, _ALIVE_LOCK))
    if trylock(lock) == errno.EOWNERDEAD:  # of an earlier process with this page
        consistent(lock)


class Progress:
    def __init__(self, page):
        self._is_shared = page is not None
        page = page or memoryview(bytearray(4096))
        self._words, self._numbers, self._reals = page.cast("I"), page.cast("q"), page.cast("d")
        self._pid = os.getpid()
        self._watches = self._broadcasts = False
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
            if value is not None:
                with self.collective() if getattr(value, "is_cuda", False) else contextlib.nullcontext():  # waits for the GPU
                    # A tensor that is part of a graph warns when it is read.
                    self._reals[slot] = float(value.detach() if hasattr(value, "detach") else value)
        self._numbers[3] = int(step)
        if self._watches:
            self._enter("data")
        elif self._words[1] not in _STEP_PHASES:
            self._enter("training")
        self.alive()

    def alive(self):
        """A sign of life in what takes long, such as an evaluation's loop."""
        self._numbers[9] = time.monotonic_ns()

    @contextlib.contextmanager
    def phase(self, name):
        """What this rank does meanwhile, one of PHASES; afterwards what it did before."""
        self.alive()
        before = PHASES[self._words[1]]
        self._enter(name)
        try:
            yield
        finally:
            self.alive()
            self._enter(before)

    @contextlib.contextmanager
    def collective(self):
        """This rank waits for others."""
        self._wait(1)
        try:
            yield
        finally:
            self._wait(-1)

    def watch(self, model):
        """Counts how long this rank is in forward and backward of `model`, a DistributedDataParallel, and how long it waits for
        others there. What is between step() and the next forward counts as data, the rest of the loop as training. On a GPU these
        are times of the host, which does not wait for what it has sent there; put what waits, as loss.item(), into collective()."""
        if not self._is_shared:
            return
        import torch

        self._watches = True
        inner = model
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            inner = model.module
            model.register_forward_pre_hook(self._note_broadcast)
        inner.register_forward_pre_hook(self._note_inputs)
        inner.register_forward_hook(self._note_outputs)

    def _note_broadcast(self, _model, _inputs):  # it makes the buffers of all ranks equal before the model runs
        if not self._broadcasts:
            self._broadcasts = True
            self._wait(1)

    def _note_inputs(self, _model, _inputs):
        if self._broadcasts:
            self._broadcasts = False
            self._wait(-1)
        self._enter_part("forward")

    def _note_outputs(self, _model, _inputs, outputs):
        self._enter_part("training")
        tensor = _first_with_gradient(outputs) if self._is_in_step() else None
        if tensor is not None:
            tensor.register_hook(self._note_backward)

    def _note_backward(self, _gradient):
        import torch

        queue = torch.autograd.Variable._execution_engine.queue_callback

        def reduced():
            self._wait(-1)
            self._enter_part("training")

        def computed():  # runs before DistributedDataParallel's own callback, which waits for the buckets
            self._wait(1)
            queue(reduced)

        self._enter_part("backward")
        queue(computed)

    def _is_in_step(self):
        return PHASES[self._words[1]] in ("none", "starting", "training", "data", "forward", "backward")

    def _enter_part(self, name):
        if self._is_in_step():  # not in an evaluation
            self._enter(name)

    def _enter(self, name):
        self._count()
        self._words[1] = PHASES.index(name)

    def _wait(self, change):
        self._count()
        self._words[3] += change

    def _count(self):
        """Adds the time since the last call to what this rank has been at."""
        now, last = time.monotonic_ns(), self._numbers[_COUNTED]
        if last:
            self._numbers[_WAITED if self._words[3] else _SPENT + self._words[1]] += now - last
        self._numbers[_COUNTED] = now

    def accuracy(self, share):
        """An evaluation had that share of right answers, from 0 to 1."""
        self._reals[13] = float(share)

    def checkpoint(self, step):
        """The checkpoint of that step is whole: a round that follows begins there."""
        self._numbers[8] = int(step)

    def finish(self):
        """All is done. Called at the end of the interpreter; call it yourself before os._exit(0)."""
        if os.getpid() == self._pid:
            self._enter("finished")


def _first_with_gradient(outputs):
    """The first tensor in what a model returned that a backward may reach."""
    if hasattr(outputs, "requires_grad"):
        return outputs if outputs.requires_grad else None
    inside = outputs.values() if isinstance(outputs, dict) else outputs if isinstance(outputs, (list, tuple)) else ()
    return next((tensor for tensor in map(_first_with_gradient, inside) if tensor is not None), None)


progress = Progress(_open_page())
