"""What the programs print for others: completions for real shells, the manual page for man, the JSON Schema for editors.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/shells_test.py
"""

import copy
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import unittest

import jsonschema
import yaml
from processes import ProcessTest

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"


class ShellTest(ProcessTest):
    program = "ddp-launch"

    def printed(self, *arguments, expect=0):
        return self.run_program(self.bin / self.program, *arguments, expect=expect)

    def flags(self):
        """As --help tells them."""
        return re.findall(r"^ {2}(?:-\w, | {4})(--[a-z-]+)", self.printed("--help"), re.MULTILINE)


class CompletionTest(ShellTest):
    def file(self, shell):
        for name in ("job.yaml", "train.py"):
            (self.folder / name).write_text("", encoding="utf-8")
        path = self.folder / f"completion.{shell}"
        path.write_text(self.printed("--completion", shell), encoding="utf-8")
        return path

    def bash(self, line):
        """What bash offers for the last word; it splits words at '=' itself."""
        words = [word for part in line.split(" ") for word in re.split("(=)", part) if word or part == ""]
        quoted = " ".join(f"'{word}'" for word in words)
        script = f"""
            compopt() {{ :; }}
            source '{self.file("bash")}'
            COMP_WORDS=({quoted}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            {"_" + self.program.replace("-", "_")}
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        return self.run_program("/bin/bash", "--norc", "-c", script).split()

    def fish(self, line):
        script = f"source '{self.file('fish')}'; complete -C '{line}'"
        answer = self.run_program(shutil.which("fish"), "--no-config", "-c", script, HOME=str(self.folder))
        return [offer.split("\t")[0] for offer in answer.splitlines()]

    def type_into(self, shell, first, *turns):
        """A shell on a terminal runs the line `first`. Then what each turn types stands on its line, which must come to hold what it wants."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execve(shell[0], shell, {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(self.folder), "PS1": "> "})
        try:
            os.write(terminal, f"{first}; echo rea''dy\n".encode())
            self.read_until(terminal, "ready")
            for typed, wanted in turns:
                os.write(terminal, typed.encode())
                self.read_until(terminal, wanted)
                os.write(terminal, b"\x15")  # Ctrl-U: away with it
        finally:
            os.close(terminal)
            os.waitpid(child, 0)

    def zsh(self, typed, wanted):
        setup = "unsetopt prompt_sp; autoload -U compinit; compinit -u -D"
        self.type_into([shutil.which("zsh"), "-f", "-i"], f"{setup}; source {self.file('zsh')}", (typed + "\t", wanted))

    def installed_zsh(self, *turns):
        """With the file where the package puts it."""
        (self.folder / "functions").mkdir()
        self.file("zsh").rename(self.folder / "functions" / f"_{self.program}")
        setup = f"unsetopt prompt_sp; fpath=({self.folder}/functions $fpath); autoload -U compinit; compinit -u -D"
        self.type_into([shutil.which("zsh"), "-f", "-i"], setup, *turns)

    def bash_on_a_terminal(self, *turns):
        self.type_into(["/bin/bash", "--norc", "--noprofile", "-i"], f"source {self.file('bash')}", *turns)

    def read_until(self, terminal, wanted):
        seen = ""
        while wanted not in seen:
            ready, _, _ = select.select([terminal], [], [], 30)
            self.assertTrue(ready, f"the shell has not shown {wanted!r}, but: {seen!r}")
            seen += os.read(terminal, 4096).decode(errors="replace")
        return seen

    def test_another_shell_is_refused(self):
        self.assertIn("no completion for tcsh. Give bash, zsh or fish.", self.printed("--completion", "tcsh", expect=2))


class Completion(CompletionTest):
    def test_torchs_name_of_the_flag(self):
        self.assertEqual(self.printed("--print-completion", "zsh"), self.printed("--completion", "zsh"))
        self.assertIn("no completion for tcsh. Give bash, zsh or fish.", self.printed("--print_completion", "tcsh", expect=2))

    def test_bash_offers_flags_choices_verbs_and_keys(self):
        self.assertEqual(self.bash("ddp-launch --"), self.flags())
        self.assertEqual(self.bash("ddp-launch --hang"), ["--hang-timeout"])
        self.assertEqual(self.bash("ddp-launch --restart "), ["all", "failed"])
        self.assertEqual(self.bash("ddp-launch --restart=f"), ["failed"])
        self.assertEqual(self.bash("ddp-launch --nproc-per-node "), ["auto", "cpu", "gpu", "xpu"])
        self.assertEqual(self.bash("ddp-launch --append-local-rank=u"), ["underscore"])
        self.assertEqual(self.bash("ddp-launch st"), ["status", "stop"])
        self.assertEqual(self.bash("ddp-launch job"), ["job.yaml"])
        self.assertEqual(self.bash("ddp-launch --nnodes 2 job.yaml train.epo"), ["train.epochs="])
        self.assertEqual(self.bash("ddp-launch job.yaml --dry"), ["--dry-run"])
        self.assertEqual(self.bash("ddp-launch --hostfile jo"), ["job.yaml"])
        self.assertEqual(self.bash("ddp-launch status --"), ["--watch", "--json", "--help"])
        self.assertEqual(self.bash("ddp-launch compare --h"), ["--html", "--help"])
        self.assertEqual(self.bash("ddp-launch logs job"), ["job.yaml"])
        self.assertEqual(self.bash("ddp-launch doctor --hang"), ["--hang-timeout"])
        self.assertEqual(self.bash("ddp-launch --explain train.epo"), ["train.epochs"])
        self.assertEqual(self.bash("ddp-launch compare a --html=jo"), ["job.yaml"])

    def test_fish_offers_flags_choices_verbs_and_keys(self):
        self.assertEqual({flag.rstrip("=") for flag in self.fish("ddp-launch --")}, set(self.flags()))
        self.assertEqual(self.fish("ddp-launch --restart "), ["all", "failed"])
        self.assertEqual(self.fish("ddp-launch st"), ["status", "stop"])
        self.assertEqual(self.fish("ddp-launch job.yaml train.epo"), ["train.epochs="])
        self.assertEqual(self.fish("ddp-launch --explain train.epo"), ["train.epochs"])
        self.assertEqual(sorted(self.fish("ddp-launch status --")), ["--help", "--json", "--watch"])
        self.assertEqual(self.fish("ddp-launch doctor --hang"), ["--hang-timeout"])

    def test_zsh_completes_flags_choices_and_keys(self):
        self.zsh("ddp-launch --hang", "--hang-timeout")
        self.zsh("ddp-launch --restart=f", "--restart=failed")
        self.zsh("ddp-launch job.yaml train.epo", "train.epochs=")
        self.zsh("ddp-launch logs --fo", "--follow")

    def test_an_installed_zsh_file_completes_each_time(self):
        self.installed_zsh(*[("ddp-launch --hang\t", "--hang-timeout")] * 3)


class WorkerCompletion(CompletionTest):
    program = "ddp-worker"

    def flags(self, *verb):
        return re.findall(r"^ {2}(?:-\w \[ )?(--[a-z-]+)", self.printed(*verb, "--help"), re.MULTILINE)

    def test_bash_offers_flags_verbs_and_keys(self):
        self.assertEqual(self.bash("ddp-worker p"), ["predict", "preview"])
        offered = self.bash("ddp-worker --")  # the help has those of verbs, too
        self.assertLess(set(offered), set(self.flags()))
        self.assertIn("--check", offered)
        self.assertNotIn("--json", offered)
        for verb in ("eval", "val", "predict", "inspect", "export", "preview", "fetch"):
            with self.subTest(verb):
                self.assertEqual(self.bash(f"ddp-worker {verb} --"), self.flags(verb))
        self.assertEqual(self.bash("ddp-worker --ch"), ["--check"])
        self.assertEqual(self.bash("ddp-worker --progress p"), ["plain"])
        self.assertEqual(self.bash("ddp-worker job.yaml train.epo"), ["train.epochs="])
        self.assertEqual(self.bash("ddp-worker eval jo"), ["job.yaml"])
        self.assertEqual(self.bash("ddp-worker eval run jo"), ["job.yaml"])
        self.assertEqual(self.bash("ddp-worker eval run data.ro"), ["data.root="])
        self.assertEqual(self.bash("ddp-worker eval run data.root=jo"), ["job.yaml"])
        self.assertEqual(self.bash("ddp-worker predict run tra"), ["train.py"])
        self.assertEqual(self.bash("ddp-worker predict run --top "), [])
        self.assertEqual(self.bash("ddp-worker export run -o jo"), ["job.yaml"])
        names = re.search(r"^NAME is ([^.]*)\.$", self.printed("fetch", "--help"), re.MULTILINE).group(1)
        sets = re.split(r",\s+", names)
        self.assertEqual([word for word in self.bash("ddp-worker fetch ") if "." not in word], sets)

    def test_fish_offers_flags_verbs_and_keys(self):
        self.assertEqual(sorted(self.fish("ddp-worker pre")), ["predict", "preview"])
        self.assertEqual({flag.rstrip("=") for flag in self.fish("ddp-worker predict --")}, set(self.flags("predict")))
        self.assertEqual(self.fish("ddp-worker eval run train.epo"), ["train.epochs="])
        self.assertEqual(self.fish("ddp-worker eval train.epo"), [])
        self.assertEqual(self.fish("ddp-worker inspect job.yaml train.epo"), [])
        self.assertEqual(self.fish("ddp-worker fetch mn"), ["mnist"])

    def test_zsh_completes_flags_verbs_and_keys(self):
        self.zsh("ddp-worker predict --conf", "--confidence")
        self.zsh("ddp-worker job.yaml train.epo", "train.epochs=")
        self.zsh("ddp-worker eval run train.epo", "train.epochs=")
        self.zsh("ddp-worker fetch fa", "fashion-mnist")

    def test_an_installed_zsh_file_completes_each_time(self):
        self.installed_zsh(*[("ddp-worker val run train.epo\t", "train.epochs=")] * 3)

    def test_a_key_or_a_file_stands_in_bash_as_it_must_be_typed(self):
        (self.folder / "my pic.png").write_text("", encoding="utf-8")
        self.bash_on_a_terminal(
            ("ddp-worker eval run train.epo\t5", "train.epochs=5"),
            ("ddp-worker job.yaml train.epo\t5", "train.epochs=5"),
            ("ddp-worker eval run data.root=jo\t", "data.root=job.yaml"),
            ("ddp-worker predict run my\t", "my\\ pic.png"),
        )


class Pages(ShellTest):
    def test_the_manual_is_one_and_tells_every_flag_and_key(self):
        path = self.folder / "ddp-launch.1"
        path.write_text(self.printed("--man"), encoding="utf-8")
        remarks = subprocess.run([shutil.which("mandoc"), "-Tlint", "-Wwarning", path], capture_output=True, text=True, check=False)
        self.assertEqual([line for line in remarks.stdout.splitlines() if "missing date" not in line], [], remarks.stderr)
        page = self.run_program(shutil.which("mandoc"), "-Tutf8", "-Owidth=200", path)
        page = re.sub(".\b", "", page)
        for flag in self.flags():
            self.assertIn(flag, page)
        self.assertIn("train.epochs (2)", page)
        self.assertIn("${local_rank}", page)

    def test_pages_come_before_all_else(self):
        for flag in ("--man", "--schema", "--completion=bash"):
            self.assertEqual(self.printed(flag, "--nproc-per-node", "wrong"), self.printed(flag))


class WorkerPages(ShellTest):
    program = "ddp-worker"

    def test_the_manual_is_one_and_tells_every_flag_verb_and_key(self):
        path = self.folder / "ddp-worker.1"
        path.write_text(self.printed("--man"), encoding="utf-8")
        remarks = subprocess.run([shutil.which("mandoc"), "-Tlint", "-Wwarning", path], capture_output=True, text=True, check=False)
        self.assertEqual([line for line in remarks.stdout.splitlines() if "missing date" not in line], [], remarks.stderr)
        page = re.sub(".\b", "", self.run_program(shutil.which("mandoc"), "-Tutf8", "-Owidth=200", path))
        flags = re.findall(r"(?<=[ ,])(--[a-z-]+)", self.printed("--help").partition("Flags:")[2].partition("Keys of")[0])
        self.assertIn("--as-rank", flags)
        words = ("eval CKPT", "predict CKPT", "fetch mnist", "train.epochs (2)", "128+n", "ddp-launch(1)")
        for word in (*(set(flags) - {"--output", "--ema", "--json", "--top", "--confidence", "--iou"}), *words):
            self.assertIn(word, page)


class Schema(ShellTest):
    def setUp(self):
        super().setUp()
        self.schema = json.loads(self.printed("--schema"))
        jsonschema.Draft7Validator.check_schema(self.schema)

    def problems(self, job):
        return [".".join(map(str, error.path)) + ": " + error.message for error in jsonschema.Draft7Validator(self.schema).iter_errors(job)]

    def test_the_shipped_one_is_what_is_printed(self):
        self.assertEqual((CONFIGS / "job.schema.json").read_text(encoding="utf-8"), self.printed("--schema"))

    def test_every_shipped_job_is_valid_and_names_it(self):
        for path in sorted(CONFIGS.glob("*.yaml")):
            text = path.read_text(encoding="utf-8")
            self.assertIn("# yaml-language-server: $schema=job.schema.json\n", text, path.name)
            self.assertEqual(self.problems(yaml.safe_load(text)), [], path.name)

    def test_schema_accepts_what_the_program_accepts_and_nothing_else(self):
        good = """
            {data: {batch: 8, augment: [flip, {crop: {padding: 4}}, mosaic: null], class_weights: {cat: 2, "3": 0.5}},
             launch: {nproc_per_node: auto, nnodes: 2, grace: 1.5s, tee: 3, env: {A: 1, B: text, C: }, last_call: 0},
             ddp: {bucket: 25MiB, broadcast_buffers: true}, schedule: {milestones: [1, 2]},
             optimizer: {name: mine, lr: 1e-3, momentum: 0.9}, amp: {loss_scale: 128}, eval: }
        """
        job = yaml.safe_load(good)
        (self.folder / "job.yaml").write_text(good, encoding="utf-8")
        self.assertEqual(self.problems(job), [])
        self.printed("job.yaml", "--explain", "train.epochs")
        for path, value in (
            ("train.epoch", 3),
            ("epochs", 3),
            ("train.epochs", "many"),
            ("train.epochs", 0),
            ("train.epochs", 1.5),
            ("launch.restart", "some"),
            ("launch.grace", "30"),
            ("ddp.bucket", "25"),
            ("data.augment", "flip"),
            ("data.augment", [["flip"]]),
            ("schedule.milestones", [-1]),
            ("train.deterministic", "yes"),
            ("optimizer.lr", -1),
            ("name", ".hidden"),
        ):
            with self.subTest(path=path, value=value):
                changed = copy.deepcopy(job)
                *sections, leaf = path.split(".")
                place = changed
                for section in sections:
                    place = place.setdefault(section, {})
                place[leaf] = value
                self.assertNotEqual(self.problems(changed), [])
                (self.folder / "job.yaml").write_text(yaml.safe_dump(changed), encoding="utf-8")
                self.printed("job.yaml", "--explain", "train.epochs", expect=2)


if __name__ == "__main__":
    missing = [program for program in ("fish", "zsh", "mandoc") if not shutil.which(program)]
    if missing:
        sys.exit(f"This test needs {', '.join(missing)}: apt-get install {' '.join(missing)}")
    unittest.main()
