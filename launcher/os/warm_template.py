# The template of Python ranks that stays warm between jobs (--preload-idle, docs/warm-start.md), sent with python_template.py, whose functions
# it uses. It listens at a socket of the pool (warm_pool.h) and serves each job by a fork of itself, the job's template. That one's copies are
# its own children, as no agent can be made their parent; it tells the agent how they end, and ends with the agent's connection.
import os
import sys


def stamp(path):
    """What shows that a file is another one or has changed, or that a folder has other names that can be imported."""
    try:
        if os.path.isdir(path):
            return {name for name in os.listdir(path) if "." not in name or name.endswith((".py", ".so", ".pth", "-info", "-link"))}
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def stamp_all():
    """All that the imports have read, and the folders in which they have looked."""
    paths = {sys.executable, os.path.join(sys.prefix, "pyvenv.cfg"), *sys.path}
    paths |= {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    paths |= {name for _, name in mappings() if ".so" in name}
    return {path: stamp(path) for path in paths if path and isinstance(path, str)}


class Pool:
    """A template that stays warm. It serves one job after the other, until none has come for `idle` seconds, or its name leads elsewhere."""

    def __init__(self, listener, path, own_path, idle, key, asked):
        import _socket as socket
        import time

        self.clock = time.monotonic
        self.listener, self.path, self.own_path, self.key, self.asked = socket.socket(fileno=listener), path, own_path, key, asked
        self.idle = float(idle)
        self.stamps = stamp_all()
        self.jobs, self.begin = 0, int(time.time())

    def publish(self):
        self.listener.listen(16)  # by us: the agent asks the kernel who does
        self.listener.settimeout(2)
        os.rename(self.own_path, self.path)
        self.inode = os.stat(self.path).st_ino

    def is_published(self):
        try:
            return os.stat(self.path).st_ino == self.inode
        except OSError:
            return False

    def leave(self):
        if self.is_published():
            os.unlink(self.path)
        os._exit(0)

    def serve(self):
        """Returns in a job's template."""
        global n
        deadline = self.clock() + self.idle
        while True:
            try:
                n = self.listener._accept()[0]
            except OSError:  # nobody came
                if children():  # jobs run
                    deadline = self.clock() + self.idle
                if self.clock() > deadline or not self.is_published():
                    self.leave()
                continue
            fds = []
            try:
                packet, fds = self.hear()
                if packet == ["status"]:
                    left = self.idle if children() else max(deadline - self.clock(), 0)
                    facts = (os.getpid(), self.begin, int(left), self.jobs, sys.executable, ",".join(words[0]), sys.argv[0])
                    os.write(n, "\n".join(map(str, facts)).encode(errors="replace")[:4000])
                elif packet == ["stop"]:
                    tell("stopped")
                    self.leave()
                elif fds:
                    deadline = self.clock() + self.idle
                    if self.begin_job(packet, fds[0]):
                        return
            except OSError:
                pass  # who asked is gone
            for fd in [n, *fds]:
                os.close(fd)

    def hear(self):
        """A packet of our own user, who is quick."""
        import _socket as socket

        connection = socket.socket(fileno=n)
        try:
            user = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[4:8], sys.byteorder)
            if user != os.geteuid():
                return None, []
            limit_wait(connection, 1)
        finally:
            connection.detach()
        return receive()

    def begin_job(self, packet, stdin):
        """Returns whether this is the job's template."""
        if packet[0] != self.key:
            tell("stale", "it is of another environment")
            return False
        changed = next((path for path, old in self.stamps.items() if stamp(path) != old), None)
        if changed or tasks() != 1:
            tell("stale", f"{changed} has changed" if changed else "it has threads")
            self.leave()
        self.jobs += 1
        os.utime(self.path)
        if os.fork() != 0:
            return False
        try:
            self.become_job_template(packet[1:], stdin)
        except BaseException as error:
            try:
                tell("stale", f"{type(error).__name__}: {error}")
            finally:
                os._exit(0)
        return True

    def become_job_template(self, arguments, stdin):
        import _signal
        import _socket as socket

        os.setsid()
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        self.listener.close()
        os.dup2(stdin, 0)
        os.close(stdin)
        connection = socket.socket(fileno=n)
        limit_wait(connection, 0)
        connection.detach()
        hidden = find_hidden(script_folder())
        if hidden:
            raise Unfit(hidden)
        if self.asked != ["auto"]:
            return
        reader = os.fork()  # what reading it imports is none of the script's
        if reader == 0:
            try:
                os._exit(0 if choose_modules(self.asked, arguments) == words[0] else 1)
            finally:
                os._exit(1)
        if os.waitpid(reader, 0)[1] != 0:
            raise Unfit("auto chooses otherwise now")


def limit_wait(connection, seconds):
    """For the next packet; 0: without end."""
    import _socket as socket

    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, seconds.to_bytes(8, sys.byteorder) + bytes(8))


def stay_warm(pool, cloner):
    """From now on no job is our parent's alone. Returns in the template of a job."""
    import _signal

    nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.close(nothing)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # jobs' templates leave no zombie
    pool.publish()
    cloner.end_alone()
    tell("ready")
    os.close(n)
    pool.serve()
    cloner.become_job_template()
    tell("ready", str(os.getpid()))
