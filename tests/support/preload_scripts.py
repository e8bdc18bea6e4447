"""What preload_test.py runs: scripts by what they try, and modules that make a template unfit."""

HEAVY = """
import os, sys
with open(os.environ["IMPORTS"], "a") as file:
    file.write(f"{os.getpid()}\\n")
VALUE = [1]
class Keeps:  # all modules, __main__ too, in a cycle: only a collection drops them
    modules = dict(sys.modules)
"""
TAKEN_DOWN = """
class Told:
    def __del__(self):
        print("taken down")
held = Told()
"""
WARNS = "import json, os, warnings\nwarnings.simplefilter('always')\n"
# A handler of exit(3) that writes into the descriptor whose number is the exit code.
AT_EXIT = """
import ctypes
libc = ctypes.CDLL(None)
libc.strdup.restype = ctypes.c_void_p
libc.on_exit(libc.dprintf, ctypes.c_void_p(libc.strdup(b"{text}\\n")))
"""
PRINTS = """
libc.fopen.restype = ctypes.c_void_p
libc.fputs(b"printed\\n", ctypes.c_void_p(libc.fopen(b"/proc/self/fd/1", b"w")))
"""
LAST_WORDS = "import json\nclass Node:\n    def __del__(self):\n        print('deleted', json.dumps([1]))\na = Node()\n"

# Of a rank's environment, what no two jobs share.
UNIQUE = '("DDP_RUN_ID", "DDP_AGENT_ID", "DDP_JOB_START", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE")'

SCRIPTS = {
    "arguments": "import sys; print(sys.argv, getattr(sys, 'orig_argv', None))",
    "main module": """
import __main__
print(__name__, __file__, __spec__, __package__, type(__loader__).__name__, __builtins__, sorted(globals()))
""",
    "module path": "import sys; print(sys.path)",
    "module beside the script": "import beside; print(beside.__file__, beside.VALUE)",
    "meta path": "import sys; print(sys.meta_path, sys.path_hooks, sorted(sys.path_importer_cache)[:0])",
    "environment": f"import os; print([i for i in sorted(os.environ.items()) if i[0] not in {UNIQUE}])",
    "C environment": f"""
import subprocess
lines = subprocess.run(["env"], stdout=subprocess.PIPE, text=True).stdout.splitlines()
print([line for line in sorted(lines) if line.split("=")[0] not in {UNIQUE} + ("_",)])
""",
    "directory and umask": "import os; print(os.getcwd(), os.umask(0))",
    "flags": "import sys; print(sys.flags, sys._xoptions, sys.warnoptions, sys.dont_write_bytecode)",
    "executable": "import sys; print(sys.executable, sys.prefix, sys.base_prefix, sys.version)",
    "signals": "print([line for line in open('/proc/self/status') if line[:4] in ('SigP', 'ShdP', 'SigB', 'SigI', 'SigC')])",
    "limits": "import resource; print([resource.getrlimit(i) for i in range(16)])",
    "priority and affinity": "import os; print(os.getpriority(0, 0), os.sched_getaffinity(0), os.sched_getscheduler(0))",
    "session": "import os; print(os.getsid(0) == os.getpid() == os.getpgrp(), open(f'/proc/{os.getppid()}/comm').read())",
    "names": "print(open('/proc/self/comm').read(), open('/proc/self/cmdline').read().split('\\0'))",
    "descriptors": """
import os
print([(fd, os.get_inheritable(int(fd))) for fd in sorted(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd/" + fd)])
""",
    "streams": """
import sys
for s in (sys.stdin, sys.stdout, sys.stderr):
    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(), s.seekable(), s.fileno())
""",
    "stdin": "import sys; print(repr(sys.stdin.readline()), repr(input()), repr(sys.stdin.read()))",
    "exit code": "import sys; print('bye'); sys.exit(3)",
    "exit text": "import sys; sys.exit('a reason')",
    "exit at once": "import os; print('bye'); os._exit(7)",
    "exception": """
def inner():
    raise ValueError("no")
def outer():
    inner()
outer()
""",
    "chained exceptions": """
try:
    1 / 0
except ZeroDivisionError as error:
    raise RuntimeError("then") from error
""",
    "wrong syntax": "print('before')\nthis is wrong\n",
    "segmentation fault": "import ctypes; print('now'); ctypes.string_at(0)",
    "abort": "import os; print('now'); os.abort()",
    "interrupt": "import signal; signal.raise_signal(signal.SIGINT)",
    "signal handler": """
import os, signal
signal.signal(signal.SIGUSR1, lambda number, frame: print("caught", number, frame.f_code.co_name))
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGTERM))
""",
    "at exit": """
import atexit, logging
logging.basicConfig(format="%(levelname)s %(message)s")
atexit.register(lambda: logging.warning("first registered"))
atexit.register(lambda: logging.warning("last registered"))
""",
    "warnings": "import warnings; warnings.warn('careful'); warnings.warn('old', DeprecationWarning)",
    "stack": """
import faulthandler, inspect, sys, traceback
def depth():
    traceback.print_stack()
    faulthandler.dump_traceback()
    return len(inspect.stack()), faulthandler.is_enabled()
print(depth(), sys._getframe().f_back)
""",
    "source": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f), inspect.getfile(f))",
    "threads": """
import os, threading
main = threading.main_thread()
print(main.name, main is threading.current_thread(), main.native_id == os.getpid(), main.ident == threading.get_ident())
t = threading.Thread(target=lambda: print("in a thread", threading.active_count()))
t.start()
""",
    "collector": "import gc; print(gc.isenabled(), gc.get_threshold(), gc.callbacks, gc.garbage)",
    "cycles at the end": """
class Node:
    def __del__(self):
        print("deleted")
a = Node(); a.me = a
""",
    "clocks": "import time; print(time.process_time() < 2, time.thread_time() < 2)",
    "multiprocessing fork": """
import multiprocessing
def work(x):
    return x * x
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, range(5)), multiprocessing.parent_process(), multiprocessing.current_process().name)
""",
    "multiprocessing spawn": """
import multiprocessing, sys
def work(x):
    return x * x, __name__, sys.argv
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(work, range(5)))
""",
    "multiprocessing forkserver": """
import multiprocessing
def work(x):
    return x * x
if __name__ == "__main__":
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        print(pool.map(work, range(5)))
""",
    "process pool": """
import concurrent.futures
class Box:
    def __init__(self, value):
        self.value = value
def work(box):
    return Box(box.value + 1)
if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        print([box.value for box in pool.map(work, [Box(1), Box(2)])])
""",
    "pickled class of the script": """
import pickle
class Box: pass
print(pickle.dumps(Box(), 2), type(pickle.loads(pickle.dumps(Box()))) is Box)
""",
    "another program": "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'import os; print(os.environ[\"RANK\"])'])",
    "child": "import os\nif os.fork() == 0:\n    print('child', os.getppid() > 1); os._exit(0)\nprint(os.wait()[1])",
    "asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\nprint(asyncio.run(f()))",
    "debugger": "x = 1\nbreakpoint()\nprint('on', x)",
    "hashes": "print(hash('a'), {1, 2, 'x'} and hash((1, 'b')))",
    "imports": "import heavy, sys; heavy.VALUE.append(2); print(heavy.VALUE, heavy.__spec__.name, 'sitecustomize' in sys.modules)",
    "odd arguments": "import sys; print(sys.argv[1:])",
    "locale": "import locale, sys; print(locale.getlocale(), locale.getpreferredencoding(), sys.getfilesystemencoding())",
    "time zone": "import os, time; os.environ['TZ'] = 'America/New_York'; time.tzset(); print(time.tzname, time.localtime(0)[:5])",
    "seeded numbers": "import random; random.seed(7); print(random.random(), random.getrandbits(64))",
    "hook of exceptions": """
import sys
sys.excepthook = lambda kind, error, trace: print("hook", kind.__name__, error, trace.tb_lineno)
raise OSError("own")
""",
    "exception in a thread": "import threading\ndef fail():\n    raise ValueError('there')\nt = threading.Thread(target=fail, name='own')\nt.start(); t.join()",
    "exception at exit": "import atexit\n@atexit.register\ndef fail():\n    raise ValueError('late')\nprint('done')",
    "trace": """
import sys
lines = []
def trace(frame, event, argument):
    if frame.f_code.co_name == "work":
        lines.append((event, frame.f_lineno))
    return trace
def work():
    x = 1
    return x
sys.settrace(trace); work(); sys.settrace(None); print(lines)
""",
    "timer": """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
signal.setitimer(signal.ITIMER_REAL, 0.01)
print(signal.sigwait([signal.SIGALRM]))
""",
    "pipes of a child": "import subprocess; print(subprocess.run(['cat'], input=b'given', stdout=subprocess.PIPE).stdout)",
    "forked child": "import os\npid = os.fork()\nif pid == 0:\n    os._exit(9)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
    "module run by a script": "import runpy; print(sorted(runpy.run_module('beside', run_name='other'))[:2])",
    "reloaded module": "import beside, importlib; print(importlib.reload(beside) is beside, beside.VALUE)",
    "long lines": "import sys; print('x' * 20_000); print('y' * 20_000, file=sys.stderr)",
    "closed streams": "import os, sys; sys.stdout.close(); os.write(2, b'still\\n')",
    "replaced streams": "import io, sys; sys.stdout = io.StringIO(); print('hidden'); sys.stdout = sys.__stdout__; print('shown')",
    "recursion": "import sys\ndef f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nprint(sys.getrecursionlimit(), f(sys.getrecursionlimit() - 10))",
    "too deep": "def f():\n    return f()\nf()",
    "finalizers": "import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, 'finalized')\nprint('end')",
    "a file left open": "import os\nf = os.fdopen(os.dup(1), 'w'); f.write('written')\ndef g(): return f",
    "a file that an import holds": "import json, os\nf = os.fdopen(os.dup(1), 'w'); f.write('written'); json.JSONDecoder.kept = f",
    "an object that an import holds": LAST_WORDS + "json.kept = a",
    "one that a class of an import holds": LAST_WORDS + "json.JSONDecoder.kept = a",
    "a function in the place of an import's": LAST_WORDS + "def g(): return a\njson.loads = g",
    "an import that holds all modules": LAST_WORDS + "import heavy",
    "subclasses of an import's": LAST_WORDS + "class Decoder(json.JSONDecoder):\n    kept = a",
    "files left open in many places": """
import beside, json, os
def write(text):
    file = os.fdopen(os.dup(1), "w")
    file.write(text + "\\n")
    return file
here, beside.file, json.file, json.decoder.BACKSLASH["file"] = map(write, ("here", "beside", "json", "a dict of json's"))
cycle = [write("cycle")]
cycle.append(cycle)
del cycle
""",
    "generators left open": """
import json
def lines(text):
    try:
        yield
    finally:
        print(json.dumps(text))
here, json.lines = lines("here"), lines("json")
next(here), next(json.lines)
""",
    "objects of several modules": """
import beside, json
class Node:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        print("deleted", self.name, json.dumps(beside.VALUE))
a, b, beside.c = Node("a"), Node("b"), Node("c")
raise SystemExit(3)
""",
    "loggers at the end": """
import logging.handlers
memory = logging.handlers.MemoryHandler(10, target=logging.FileHandler("/proc/self/fd/1"))
logging.getLogger("own").addHandler(memory)
logging.getLogger("own").warning("kept until the end")
""",
    "daemon thread at the end": """
import threading
class Node:
    def __del__(self):
        print("deleted")
def wait():
    held = Node()
    begun.set()
    threading.Event().wait()
begun = threading.Event()
threading.Thread(target=wait, daemon=True).start()
begun.wait()
a = Node()
""",
    "exit in a thread and at exit": """
import atexit, sys, threading
atexit.register(sys.exit, 5)
thread = threading.Thread(target=sys.exit, args=(4,))
thread.start()
thread.join()
sys.exit(3)
""",
    "import at the end": """
class Node:
    def __del__(self):
        for name in ("json", "colorsys"):
            try:
                __import__(name)
            except ImportError as error:
                print(type(error).__name__)
a = Node()
a.me = a
""",
    "thawed objects": "import gc\nclass Node:\n    def __del__(self):\n        print('deleted')\na = Node(); a.me = a\ngc.freeze(); gc.unfreeze()",
    "queue of a child": """
import multiprocessing
def work(queue):
    queue.put("from the child")
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    context.Process(target=work, args=(queue,)).start()
    print(queue.get())
    queue.put("never read")
""",
    "temporary files": "import os, tempfile; print(tempfile.gettempdir(), os.path.exists(tempfile.NamedTemporaryFile().name))",
    "context": "import contextvars; v = contextvars.ContextVar('v', default=1); print(v.get(), contextvars.copy_context().run(v.set, 2) is not None, v.get())",
}  # fmt: skip
ARGUMENTS = {"odd arguments": ["", "two words", "-m", "--x=ä", "\\"], "arguments": ["--lr", "0.1"]}
INPUT = {"stdin": "first\nsecond\nthe rest", "debugger": "p x + 1\nc\n"}
BAD_MODULES = {
    "threads": ("import threading, time\nfor i in range(3): threading.Thread(target=time.sleep, args=(100,), daemon=True).start()",
                "module bad started 3 threads"),
    "socket": ("import socket\nheld = socket.socket()", "module bad left socket:["),
    "file": ("held = open(__file__)", "bad.py open"),
    "memory": ("import mmap\nheld = mmap.mmap(-1, 4096)", "module bad shares /dev/zero"),
    "process": ("import os, time\nif os.fork() == 0:\n    time.sleep(100)", "module bad left a process running"),
    "rank": ("import os\nrank = os.environ.get('RANK')", "module bad reads RANK, which differs between ranks"),
    "error": ("import nothing_of_this_name", "module bad cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
    "exit": ("raise SystemExit(5)", "module bad cannot be imported: SystemExit: 5"),
    "killed": ("import os; os.kill(os.getpid(), 9)" , ", has ended (import of bad)"),
    "stopped": ("import os; os.kill(os.getpid(), 19)", ", is stopped (import of bad)"),
    "stopped at the fork": ("import os; os.register_at_fork(before=lambda: os.kill(os.getpid(), 19))", "rank 0: it is stopped"),
    "killed at the fork": ("import os; os.register_at_fork(before=lambda: os.kill(os.getpid(), 9))", "rank 0: it has ended"),
    "killed copy": ("import os; os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), 9))", "rank 0: it has ended"),
    "closed socket": ("os.closerange(3, 1000)", ", has ended (import of bad)"),
    "environment": ("held = dict(os.environ)", "module bad reads the whole environment"),
    "path": ("sys.path.insert(0, '/nowhere')", "module bad changes sys.path"),
    "much text": ("print('x' * (2 << 20))", "the imports print 2097153 bytes"),
}  # fmt: skip
# A module that hurts only a template: in a rank it does nothing.
ONLY_THERE = "import os, sys\nif b'RANK' not in os.environ._data:\n    exec({text!r})\n"
# For a Python with torch.
# `seen` tells whether what a model under DDP imports later was there before it.
ALLREDUCE = """
import os
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
open("seen", "w").write(str("torch._dynamo" in sys.modules))
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
loss = model(torch.full((3, 4), 1.0 + dist.get_rank())).sum()
loss.backward()
print(round(loss.item(), 4), model.module.weight.grad.sum().item(), torch.get_num_threads(), torch.initial_seed(), flush=True)
dist.barrier()
os._exit(0)  # torch now and then aborts where threads of Gloo meet the end of the interpreter
"""
LOADER = """
import sys
import numpy
import torch
import torch.multiprocessing
def work(index, shared):
    shared[index] = index + 1
if __name__ == "__main__":
    print("torch._dynamo" in sys.modules, torch.get_num_threads(), (numpy.ones((300, 300)) @ numpy.ones((300, 300))).sum())
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    print([batch[0].tolist() for batch in torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)])
    shared = torch.zeros(1).share_memory_()
    torch.multiprocessing.spawn(work, (shared,), 1)
    print(shared.tolist(), torch.cuda.is_available(), torch.backends.mkldnn.is_available())
"""
COMPILED = """
import logging
import os
import torch
import torch._logging
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch._logging.set_logs(all=logging.ERROR)  # a line of its log has the time
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
step = DistributedDataParallel(torch.compile(model))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = step(torch.full((3, 4), 1.0 + dist.get_rank())).square().mean()
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 4))
counters = torch._dynamo.utils.counters
print(counters["stats"]["unique_graphs"], dict(counters["graph_break"]), flush=True)
dist.barrier()
os._exit(0)
"""
# It ends in an exit code, with objects that only an import holds.
LAST = """
import os
import torch
import torch._dynamo
class Node:
    def __del__(self):
        print("deleted", torch.ones(2).sum().item())
a, torch.b, torch.nn.Module.c = Node(), Node(), Node()
torch.file = os.fdopen(os.dup(1), "w")
torch.file.write("written\\n")
raise SystemExit(3)
"""
DRAWS = "import numpy, os, torch; print(torch.rand(1).item(), numpy.random.rand(), flush=True); os._exit(0)"
