"""ddp-worker fetch against servers that cut, stall, lie and refuse, and against disks that are full.

Sets of a few bytes are got by fetch_tool, which is ddp-fetch with a set that the test makes up; the published ones by ddp-worker itself.
Run by hand: DDP_BIN=build/release DDP_FETCH_TOOL=build/release/tests/fetch_tool PYTHONPATH=tests/support python3 tests/integration/fetch_test.py
"""

import hashlib
import io
import os
import pathlib
import pty
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import unittest

from file_server import Server, answer, claiming, cut_after, send, whole, without_ranges
from processes import ProcessTest

SHARED = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "shared" / "data"
MNIST = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
LETTERS = bytes(i * 7 % 251 for i in range(300_000))
DIGITS = b"0123456789" * 50


class FetchTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.tool = os.environ["DDP_FETCH_TOOL"]
        self.server = Server({"/letters": LETTERS, "/digits": DIGITS})
        self.addCleanup(self.server.close)
        self.data = self.folder / "data"
        self.publish({"letters": LETTERS, "digits": DIGITS})

    def publish(self, files, archive=None, extras=()):
        def words(name, content):
            return f"{name} {len(content)} {hashlib.sha256(content).hexdigest()}\n"

        lines = [f"set small {self.server.address} Small/raw\n", *("file " + words(*item) for item in files.items())]
        if archive is not None:
            lines.append("archive " + words("small.tar.gz", archive))
            self.server.files["/small.tar.gz"] = archive
        (self.folder / "table").write_text("".join([*lines, *(f"extra {name}\n" for name in extras)]), encoding="utf-8")

    def start_fetch(self, *arguments, **variables):
        return self.start(self.tool, "table", "small", self.data, "--stall-limit=1s", *arguments, **variables)

    def fetch(self, expect=0, *arguments, **variables):
        running = self.start_fetch(*arguments, **variables)
        code = running.finish()
        self.assertEqual(code, expect, running.text)
        return running.text

    def fail_to_fetch(self, *arguments):
        """What it says of it, in one line; nothing there has the name of a file."""
        text = self.fetch(125, *arguments)
        last = text.splitlines()[-1]
        self.assertRegex(last, r"\Addp-worker fetch: cannot ")
        self.assertEqual(text.count("cannot "), 1, text)
        self.assertFalse((self.data / "Small/raw/letters").exists())
        return last

    def assert_got(self):
        self.assertEqual((self.data / "Small/raw/letters").read_bytes(), LETTERS)
        self.assertEqual((self.data / "Small/raw/digits").read_bytes(), DIGITS)
        self.assertEqual(self.names(), {"Small/raw/letters", "Small/raw/digits"})

    def names(self):
        """Of all files but the lock."""
        files = (path for path in self.data.rglob("*") if not path.is_dir() and path.name != ".ddp-fetch.lock")
        return {str(path.relative_to(self.data)) for path in files}

    def begins(self, path="/letters"):
        return [begin for name, begin in self.server.requests if name == path]


class Servers(FetchTest):
    def test_files_are_got_once(self):
        self.assertIn("2 files, all as published. Train on it: data.name=small data.root=", self.fetch())
        self.assert_got()
        self.assertIn("they were there already", self.fetch())
        self.assertEqual(len(self.server.requests), 2)

    def test_a_missing_one_alone_is_got_again(self):
        self.fetch()
        (self.data / "Small/raw/digits").unlink()
        self.fetch()
        self.assert_got()
        self.assertEqual([path for path, _ in self.server.requests], ["/letters", "/digits", "/digits"])

    def test_another_address_is_taken(self):
        self.server.files["/mirror/deep/letters"] = LETTERS
        self.server.files["/mirror/deep/digits"] = DIGITS
        self.fetch(0, "--from", self.server.address + "mirror/deep")
        self.assert_got()
        self.assertEqual(self.server.requests[0][0], "/mirror/deep/letters")

    def test_cut_download_resumes_where_it_stopped(self):
        self.server.acts = [cut_after(100_000), cut_after(100_000)]
        self.fetch()
        self.assert_got()
        self.assertEqual(self.begins(), [0, 100_000, 200_000])

    def test_a_later_run_goes_on_with_the_part(self):
        (self.data / "Small/raw").mkdir(parents=True)
        (self.data / "Small/raw/letters.part").write_bytes(LETTERS[:123_456])
        self.fetch()
        self.assert_got()
        self.assertEqual(self.begins(), [123_456])

    def test_a_part_that_is_whole_needs_no_request(self):
        (self.data / "Small/raw").mkdir(parents=True)
        (self.data / "Small/raw/letters.part").write_bytes(LETTERS)
        self.fetch()
        self.assert_got()
        self.assertEqual(self.begins(), [])

    def test_a_server_without_ranges_starts_anew(self):
        self.server.acts = [cut_after(100_000), without_ranges, without_ranges]
        self.fetch()
        self.assert_got()
        self.assertEqual(self.begins(), [0, 100_000, 0])

    def test_a_server_that_does_not_go_on_there_starts_anew(self):
        self.server.acts = [cut_after(100_000), answer(416)]
        self.fetch()
        self.assert_got()
        self.assertEqual(self.begins(), [0, 100_000, 0])

    def test_a_part_of_another_file_is_thrown_away(self):
        (self.data / "Small/raw").mkdir(parents=True)
        for old in (b"x" * 1000, b"x" * len(LETTERS), b"x" * 400_000):
            (self.data / "Small/raw/letters.part").write_bytes(old)
            self.fetch()
            self.assert_got()
            (self.data / "Small/raw/letters").unlink()

    def test_a_link_in_the_place_of_a_part_is_not_followed(self):
        (self.data / "Small/raw").mkdir(parents=True)
        (self.folder / "precious").write_bytes(b"mine")
        (self.data / "Small/raw/letters.part").symlink_to(self.folder / "precious")
        self.fetch()
        self.assert_got()
        self.assertEqual((self.folder / "precious").read_bytes(), b"mine")

    def test_a_failure_that_may_pass_is_tried_again(self):
        self.server.acts = [answer(503), answer(500), answer(429)]
        self.fetch()
        self.assert_got()

    def test_a_proxy_of_the_environment_is_asked(self):
        self.server.files["http://files.invalid/letters"] = LETTERS
        self.server.files["http://files.invalid/digits"] = DIGITS
        self.fetch(0, "--from=http://files.invalid", http_proxy=self.server.address)
        self.assert_got()

    def test_the_line_of_a_terminal_tells_how_far_it_is(self):
        controller, terminal = pty.openpty()
        with os.fdopen(controller, "rb", buffering=0) as screen:
            command = [self.tool, "table", "small", str(self.data)]
            with subprocess.Popen(command, stderr=terminal, cwd=self.folder, env=self.environment) as process:
                os.close(terminal)
                text = b""
                try:
                    while piece := screen.read(65536):
                        text += piece
                except OSError:
                    pass  # the terminal has gone with the last who had it open
                self.assertEqual(process.wait(60), 0)
        self.assertRegex(text.decode(), r"\r\x1b\[Kddp-worker fetch: letters, \d+\.\d KiB of 293\.0 KiB\r\x1b\[K")


class BadServers(FetchTest):
    def test_cuts_without_an_end_are_given_up(self):
        self.server.always = cut_after(0)
        self.assertIn(" (4 tries).", self.fail_to_fetch())
        self.assertEqual(self.begins(), [0] * 4)
        self.assertEqual(self.names(), set())

    def test_cuts_at_one_place_without_ranges_are_given_up(self):
        self.server.always = cut_after(100_000, without_ranges)
        self.fail_to_fetch()
        self.assertLess(len(self.begins()), 10)

    def test_pieces_that_never_make_the_file_are_given_up(self):
        self.server.files["/letters"] = bytes(len(LETTERS))
        self.server.always = cut_after(100_000)
        self.assertIn("but not its contents", self.fail_to_fetch())
        self.assertEqual(self.begins(), [0, 100_000, 200_000] * 2)
        self.assertEqual(self.names(), set())

    def stall(self, handler, body, begin, sent):
        send(handler, 200 if begin == 0 else 206, body[begin : begin + sent], len(body) - begin, f"Content-Range: bytes {begin}-{len(body) - 1}/{len(body)}")
        self.server.is_over.wait()

    def test_silence_is_given_up(self):
        self.server.always = lambda handler, body, begin: self.stall(handler, body, begin, 100 if begin == 0 else 0)
        self.assertIn(
            "no byte came for 1s (4 tries). What has come is kept; the same command goes on with it.",
            self.fail_to_fetch(),
        )
        self.assertEqual(self.begins(), [0, 100, 100, 100])
        self.assertEqual(self.names(), {"Small/raw/letters.part"})
        self.server.always = None
        self.fetch()
        self.assert_got()
        self.assertEqual(self.begins()[4:], [100])

    def drip(self, handler, body, begin):
        """A byte now and then, for ever."""
        send(handler, 200 if begin == 0 else 206, b"", len(body) - begin, f"Content-Range: bytes {begin}-{len(body) - 1}/{len(body)}")
        try:
            for byte in body[begin:]:
                handler.wfile.write(bytes([byte]))
                if self.server.is_over.wait(0.2):
                    return
        except OSError:
            pass  # it has hung up

    def test_a_byte_now_and_then_is_given_up(self):
        self.server.always = self.drip
        text = self.fetch(125)
        self.assertRegex(text, r"cannot get \S+: only \d+ bytes came in 1s, and --min-rate is 1000 B a second \(4 tries\). What has come is kept")
        self.assertEqual(text.count("; trying again"), 3)
        self.assertEqual(len(self.begins()), 4)

    def test_a_byte_for_each_connection_is_given_up(self):
        def one(handler, body, begin):
            if not self.server.is_over.wait(0.2):
                cut_after(1)(handler, body, begin)

        self.server.always = one
        self.assertIn("and --min-rate is 1000 B a second (4 tries)", self.fail_to_fetch())

    def test_min_rate_zero_waits_for_a_slow_server(self):
        def slow_at_the_end(handler, body, begin):
            send(handler, 200, body[:-8], len(body))
            self.drip_rest(handler, body[-8:])

        self.server.acts = [slow_at_the_end]
        self.fetch(0, "--min-rate=0")
        self.assert_got()
        self.assertEqual(self.begins(), [0])

    def drip_rest(self, handler, rest):
        for byte in rest:
            self.server.is_over.wait(0.3)
            handler.wfile.write(bytes([byte]))

    def test_a_header_without_an_end_is_told(self):
        def endless(handler, _body, _begin):
            try:
                handler.wfile.write(b"HTTP/1.1 200 x\r\nX-Long: ")
                while not self.server.is_over.is_set():
                    handler.wfile.write(b"x" * 65536)
            except OSError:
                pass  # it has hung up

        self.server.always = endless
        text = self.fail_to_fetch()
        self.assertIn("the server's header is too large", text)
        self.assertNotIn("memory", text)
        self.assertEqual(len(self.begins()), 1)

    def test_silence_before_the_first_word_is_given_up(self):
        self.server.always = lambda *_: self.server.is_over.wait()
        self.assertIn("no byte came for 1s", self.fail_to_fetch())
        self.assertEqual(self.names(), set())

    def test_nobody_at_the_address_is_told(self):
        with socket.socket() as chosen:  # bound, and nobody listens
            chosen.bind(("127.0.0.1", 0))
            self.assertIn("Failed to connect", self.fail_to_fetch(f"--from=http://127.0.0.1:{chosen.getsockname()[1]}"))

    def test_a_length_that_is_not_the_file_s_is_refused_at_once(self):
        for length, body in ((299_999, None), (300_001, LETTERS + b"x"), (2, b"no"), (0, b"")):
            self.server.requests.clear()
            self.server.always = claiming(length, body)
            # Of nothing at all no byte comes that could be looked at.
            wanted = f"the server offers {length} bytes, the published file has 300000" if length else "the server ended after 0 bytes"
            self.assertIn(wanted, self.fail_to_fetch())
            self.assertEqual(len(self.begins()), 1 if length else 4)
            self.assertEqual(self.names(), set())

    def test_a_length_that_is_longer_than_the_body_is_a_cut(self):
        self.server.acts = [claiming(300_000, LETTERS[:5])]
        self.fetch()
        self.assert_got()
        self.assertEqual(self.begins(), [0, 5])

    def test_more_bytes_than_the_file_has_are_refused(self):
        self.server.always = claiming(None, LETTERS + b"x")
        self.assertIn("the server sends more than the 300000 bytes of the published file", self.fail_to_fetch())

    def test_other_bytes_of_the_right_length_are_removed(self):
        self.server.files["/letters"] = bytes(len(LETTERS))
        self.assertIn("but not its contents (SHA-256 ", self.fail_to_fetch())
        self.assertEqual(self.begins(), [0])
        self.assertEqual(self.names(), set())

    def test_a_refusal_is_told_at_once(self):
        for status in (404, 403, 410):
            self.server.requests.clear()
            self.server.always = answer(status)
            self.assertIn(f"the server answers {status}.", self.fail_to_fetch())
            self.assertEqual(self.begins(), [0])
            self.assertEqual(self.names(), set())

    def test_no_redirection_leads_to_a_file_or_in_a_circle(self):
        self.server.always = answer(302, "Location: file:///etc/passwd")
        self.assertRegex(self.fail_to_fetch(), "(?i)protocol")
        self.server.always = answer(302, "Location: /letters")
        self.assertRegex(self.fail_to_fetch(), "(?i)redirect")


class Directories(FetchTest):
    def test_two_at_once_fetch_one_after_the_other(self):
        may_go_on = threading.Event()

        def wait(handler, body, begin):
            may_go_on.wait(60)
            whole(handler, body, begin)

        self.server.acts = [wait]
        first = self.start_fetch("--stall-limit=60s")
        first.wait_for("getting ")
        second = self.start_fetch()
        second.wait_for("another process fetches into")
        may_go_on.set()
        self.assertEqual((first.finish(), second.finish()), (0, 0), first.text + second.text)
        self.assertIn("they were there already", second.text)
        self.assertEqual(len(self.server.requests), 2)
        self.assert_got()

    def test_one_that_is_killed_leaves_a_part_and_no_lock(self):
        may_end = threading.Event()
        self.addCleanup(may_end.set)

        def half(handler, body, begin):
            send(handler, 200, body[:100_000], len(body))
            may_end.wait(60)

        self.server.acts = [half]
        first = self.start_fetch("--stall-limit=60s")
        first.wait_for("getting ")
        part = self.data / "Small/raw/letters.part"
        second = self.start_fetch()
        second.wait_for("another process fetches into")
        while not part.exists() or part.stat().st_size < 100_000:  # it has a deadline: that of the process
            self.assertIsNone(first.process.poll())
        first.process.kill()
        self.assertEqual((first.finish(), second.finish()), (137, 0), second.text)
        self.assert_got()
        self.assertEqual(self.begins(), [0, 100_000])

    def test_a_file_of_somebody_s_own_is_not_touched(self):
        (self.data / "Small/raw").mkdir(parents=True)
        (self.data / "Small/raw/digits").write_bytes(b"mine")
        text = self.fetch(2)
        self.assertIn("digits is there and is not the published file. Remove it, or give another directory.", text)
        self.assertEqual((self.data / "Small/raw/digits").read_bytes(), b"mine")
        self.assertEqual(self.server.requests, [])

    def test_file_in_place_of_the_directory_is_reported(self):
        self.data.write_bytes(b"mine")
        self.assertIn("cannot make the directory ", self.fetch(2))
        self.assertEqual(self.data.read_bytes(), b"mine")

    def test_a_wrong_command_is_told(self):
        for arguments, wanted in (
            (("smal", "d"), r'smal: unknown data set, did you mean "small"\? There are: small\.'),
            (("small",), "give the name of a set and a directory"),
            (("small", "d", "--from", "ftp://x"), "--from ftp://x: not an http:// or https:// address"),
            (("small", "d", "--stall-limit=3"), "--stall-limit 3: not a duration"),
            (("small", "d", "--from"), "--from: needs a value"),
            (("small", "d", "--from=http://[/"), r"http://\[/letters: not an address"),
            (("small", "d", "--form=x"), "--form=x: unknown flag"),
        ):
            self.assertRegex(self.run_program(self.tool, "table", *arguments, expect=2), wanted)
        self.assertEqual(list(self.folder.rglob("*letters*")), [])


def tar_of(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


MEMBERS = {
    "../evil": b"evil",
    "Small/raw/../../../evil": b"evil",
    "Small/raw/digits": DIGITS,
    "Small/raw/readme.html": b"not asked for",
    "Small/raw/names.txt": b"a\nb\n",
    "Small/raw/letters": LETTERS,
    "/etc/evil": b"evil",
}


class Archives(FetchTest):
    def setUp(self):
        super().setUp()
        self.archive = tar_of(MEMBERS)
        self.publish({"letters": LETTERS, "digits": DIGITS}, self.archive, ["names.txt"])

    def assert_unpacked(self):
        self.assertEqual(self.names(), {"Small/raw/letters", "Small/raw/digits", "Small/raw/names.txt"})
        self.assertEqual((self.data / "Small/raw/letters").read_bytes(), LETTERS)
        self.assertEqual((self.data / "Small/raw/digits").read_bytes(), DIGITS)
        self.assertEqual(list(self.folder.rglob("evil")), [])

    def test_only_what_belongs_to_the_set_is_unpacked(self):
        self.fetch()
        self.assert_unpacked()
        self.assertIn("they were there already", self.fetch())
        self.assertEqual(self.server.requests, [("/small.tar.gz", 0)])

    def test_an_archive_that_was_not_unpacked_is_unpacked_without_a_request(self):
        self.data.mkdir()
        (self.data / "small.tar.gz").write_bytes(self.archive)
        (self.data / "Small/raw").mkdir(parents=True)
        (self.data / "Small/raw/letters.part").write_bytes(b"left by one that was killed")
        self.fetch()
        self.assert_unpacked()
        self.assertEqual(self.server.requests, [])

    def test_an_archive_without_a_file_of_the_set_is_told(self):
        self.publish({"letters": LETTERS, "other": DIGITS}, self.archive)
        self.assertIn("there is no Small/raw/other of 500 bytes in it", self.fetch(125).splitlines()[-1])

    def test_a_member_with_other_contents_is_not_kept(self):
        self.publish({"letters": bytes(len(LETTERS)), "digits": DIGITS}, self.archive)
        self.assertRegex(self.fetch(125).splitlines()[-1], "cannot unpack .*the SHA-256 of letters is ")
        self.assertEqual(self.names(), {"Small/raw/digits", "small.tar.gz"})


class FullDisk(FetchTest):
    """A disk of 200 KiB in memory, for files of 300."""

    def setUp(self):
        super().setUp()
        self.data.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", self.data], check=True)
        self.addCleanup(subprocess.run, ["umount", self.data], check=True)

    def test_a_file_that_does_not_fit_is_told_and_goes_on_later(self):
        line = self.fail_to_fetch()
        self.assertRegex(line, r"No space left on device\. Make room for \S+ KiB more, or take another directory\. What has come is kept")
        self.assertEqual(self.names(), {"Small/raw/letters.part"})
        subprocess.run(["mount", "-o", "remount,size=600k", self.data], check=True)
        self.fetch()
        self.assert_got()
        self.assertGreater(self.begins()[-1], 0)

    def test_an_archive_that_does_not_fit_unpacked_leaves_no_half_file(self):
        self.publish({"letters": LETTERS, "digits": DIGITS}, tar_of(MEMBERS))
        line = self.fail_to_fetch()
        self.assertRegex(line, r"No space left on device\. The files take 293\.5 KiB; the archive is kept, and the same command goes on with it\.")
        self.assertEqual(self.names(), {"Small/raw/digits", "small.tar.gz"})


class RoundedSize(FetchTest):
    """A file of which only eight digits of the digest and a rounded size are published, as of torchvision's weights."""

    def publish_rounded(self, size, digits=None):
        digits = digits or hashlib.sha256(LETTERS).hexdigest()[:8]
        (self.folder / "table").write_text(f"set small {self.server.address} Small/raw\nfile letters {size} {digits} 1000\n", encoding="utf-8")

    def assert_got_letters(self):
        self.assertEqual((self.data / "Small/raw/letters").read_bytes(), LETTERS)

    def test_the_server_tells_the_exact_size(self):
        for size in (len(LETTERS) - 1000, len(LETTERS) + 999):
            self.publish_rounded(size)
            self.fetch()
            self.assert_got_letters()
            self.fetch()  # it is there
            (self.data / "Small/raw/letters").unlink()

    def test_a_cut_near_the_end_goes_on(self):
        self.publish_rounded(len(LETTERS) + 500)
        self.server.acts = [cut_after(len(LETTERS) - 100)]
        self.fetch()
        self.assert_got_letters()

    def test_a_length_that_is_not_told(self):
        self.publish_rounded(len(LETTERS) + 500)
        self.server.always = lambda handler, body, _begin: send(handler, 200, body, None)
        self.fetch()
        self.assert_got_letters()

    def test_another_file_is_refused(self):
        self.publish_rounded(len(LETTERS) + 2000)
        self.assertIn("the server offers 300000 bytes, the published file has 302000", self.fail_to_fetch())
        self.publish_rounded(len(LETTERS), "00000000")
        self.assertIn("expected 00000000). It was removed", self.fail_to_fetch())


class Published(ProcessTest):
    """By ddp-worker itself."""

    def setUp(self):
        super().setUp()
        self.worker = self.bin / "ddp-worker"

    def test_addresses_sizes_and_digests_are_told(self):
        text = self.run_program(self.worker, "fetch", "cifar100", "data", "--dry-run")
        self.assertRegex(text, r"\Ahttps://\S+/cifar-100-binary\.tar\.gz 168513733 [0-9a-f]{64} data/cifar-100-binary\.tar\.gz\n\Z")
        text = self.run_program(self.worker, "fetch", "--dry-run", "fashion-mnist", "data", "--from=http://h/x")
        self.assertRegex(text, r"\A(http://h/x/(t10k|train)-(images-idx3|labels-idx1)-ubyte\.gz \d+ [0-9a-f]{64} data/FashionMNIST/raw/\S+\n){4}\Z")
        text = self.run_program(self.worker, "fetch", "weights/resnet34", "data", "--dry-run")
        self.assertEqual(text, "https://download.pytorch.org/models/resnet34-b627a593.pth 87320166 b627a593 data/resnet34-b627a593.pth\n")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_job_gets_weights_or_says_why_it_cannot(self):
        (self.folder / "job.yaml").write_text("data: {name: digits, batch: 64}\nmodel: {name: resnet18, strict: false}\n", encoding="utf-8")
        job = ("--check", "job.yaml")
        text = self.run_program(self.worker, *job, "model.weights=fetch:resnet43", expect=2)
        self.assertIn("did you mean fetch:resnet34?", text)
        self.environment["https_proxy"] = "http://127.0.0.1:9"
        self.environment["XDG_CACHE_HOME"] = str(self.folder / "cache")
        text = self.run_program(self.worker, *job, "model.weights=fetch:resnet18", expect=2)
        self.assertRegex(text, r"model\.weights: fetch:resnet18: .*cannot get https://\S+/resnet18-f37072fd\.pth: ")
        self.assertIn("model.weights=DIR/resnet18-f37072fd.pth", text)
        cached = self.folder / "cache/ddp/weights/resnet18-f37072fd.pth"
        cached.write_bytes(b"other weights")
        text = self.run_program(self.worker, *job, "model.weights=fetch:resnet18", expect=2)
        self.assertRegex(text, r"fetch:resnet18: \S.*/resnet18-f37072fd\.pth is there and is not the published file\. Remove it, ")

    def test_a_job_takes_the_weights_that_it_has_got(self):
        job = self.folder / "job.yaml"
        job.write_text("data: {name: digits, batch: 4, train_size: 64, test_size: 16}\nmodel: {name: resnet18}\ntrain: {max_steps: 1}\n", encoding="utf-8")
        self.run_program(self.worker, job, "name=other")
        self.run_program(self.worker, "export", "runs/other", "-o", "other.pt")
        (self.folder / "bin").mkdir()
        shutil.copy(self.worker.resolve(), self.folder / "bin")
        fetch = self.folder / "bin/ddp-fetch"
        fetch.write_text(f'#!/bin/sh\nmkdir -p "$2" && cp {self.folder}/other.pt "$2/resnet18-f37072fd.pth"\n', encoding="utf-8")
        fetch.chmod(0o755)
        self.environment["XDG_CACHE_HOME"] = str(self.folder / "cache")
        text = self.run_program(self.folder / "bin/ddp-worker", "--check", job, "model.weights=fetch:resnet18")
        self.assertIn("getting resnet18-f37072fd.pth into ", text)
        self.assertIn("weights: loaded 122 of the model's 122 tensors", text)

    def test_the_help_tells_of_it(self):
        self.assertIn("ddp-worker fetch", self.run_program(self.worker, "--help"))
        self.assertIn("mnist, fashion-mnist, cifar10, cifar100", self.run_program(self.worker, "fetch", "--help"))

    def test_a_worker_that_lies_alone_says_what_it_lacks(self):
        (self.folder / "alone").mkdir()
        shutil.copy(self.worker.resolve(), self.folder / "alone")
        text = self.run_program(self.folder / "alone/ddp-worker", "fetch", "mnist", "data", expect=127)
        self.assertRegex(text, r"cannot start \S+/alone/ddp-fetch: No such file or directory\. It belongs beside ddp-worker")

    def test_without_libcurl_one_line_says_what_to_type(self):
        needed = subprocess.run(["readelf", "--dynamic", self.bin / "ddp-fetch"], capture_output=True, text=True, check=True).stdout
        (curl,) = re.findall(r"\(NEEDED\).*\[(libcurl\S*)\]", needed)
        (self.folder / curl).touch()  # the loader finds this one, and it is none
        text = self.run_program("env", f"LD_LIBRARY_PATH={self.folder}", self.worker, "fetch", "mnist", "data", expect=127)
        self.assertRegex(text, rf"\Addp-worker: fetch needs libcurl, .* {self.folder}/{curl}: file too short\. .*apt-get install libcurl3-gnutls\n\Z")


class RealData(ProcessTest):
    def test_mnist_is_got_and_trained_on(self):
        server = Server({f"/{name}": (SHARED / "mnist" / name).read_bytes() for name in MNIST})
        self.addCleanup(server.close)
        server.acts = [cut_after(1_000_000)]
        worker = self.bin / "ddp-worker"
        self.run_program(worker, "fetch", "mnist", "data", f"--from={server.address}")
        for name in MNIST:
            self.assertEqual((self.folder / "data/MNIST/raw" / name).read_bytes(), (SHARED / "mnist" / name).read_bytes())
        (self.folder / "job.yaml").write_text("data: {name: mnist, root: data, batch: 64}\ntrain: {max_steps: 2}\neval: {every: 100}\n", encoding="utf-8")
        self.run_program(worker, "job.yaml")


if __name__ == "__main__":
    if "FullDisk" in sys.argv and os.geteuid() != 0:
        print("skipped: mounting a small disk needs root")
        sys.exit(77)
    if "RealData" in sys.argv and not SHARED.exists():
        print("skipped: no ../shared/data beside the checkout")
        sys.exit(77)
    unittest.main(verbosity=2)
