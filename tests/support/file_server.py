"""A server of files that lies, cuts and stalls as a test tells it."""

import http.server
import io
import re
import threading


class Server:
    """Serves `files` by path. `acts` are what it does to the first requests instead, one each; `always` to all others."""

    def __init__(self, files):
        self.files = files
        self.acts = []
        self.always = None
        self.requests = []  # (path, where its range begins)
        self.is_over = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.close_connection = True
                begin = int((re.match(r"bytes=(\d+)-$", self.headers.get("Range", "")) or [0, 0])[1])
                outer.requests.append((self.path, begin))
                act = outer.acts.pop(0) if outer.acts else outer.always
                if self.path not in outer.files and act is None:
                    act = answer(404)
                (act or whole)(self, outer.files.get(self.path, b""), begin)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.is_over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def send(handler, status, body, length, *headers):
    """`length`: what Content-Length says; None: nothing is said."""
    lines = [f"HTTP/1.1 {status} x", "Connection: close", *headers]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    handler.wfile.write("\r\n".join([*lines, "", ""]).encode() + body)
    handler.wfile.flush()


def whole(handler, body, begin):
    if begin == 0:
        send(handler, 200, body, len(body))
    elif begin >= len(body):
        send(handler, 416, b"", 0, f"Content-Range: bytes */{len(body)}")
    else:
        send(handler, 206, body[begin:], len(body) - begin, f"Content-Range: bytes {begin}-{len(body) - 1}/{len(body)}")


def without_ranges(handler, body, _begin):
    send(handler, 200, body, len(body))


def cut_after(size, act=whole):
    """As `act` would, but for what comes after `size` bytes."""

    def do(handler, body, begin):
        kept = handler.wfile
        handler.wfile = io.BytesIO()
        act(handler, body, begin)
        answer_bytes, handler.wfile = handler.wfile.getvalue(), kept
        head = answer_bytes.index(b"\r\n\r\n") + 4
        handler.wfile.write(answer_bytes[: head + size])

    return do


def answer(status, *headers):
    return lambda handler, _body, _begin: send(handler, status, b"no", 2, *headers)


def claiming(length, body=None):
    """All of it, or another body, with a Content-Length of its own."""
    return lambda handler, real, _begin: send(handler, 200, real if body is None else body, length)
