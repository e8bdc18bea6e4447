"""L17: words that the programs and their tests have left for those of the field, or for one of their own.

"order" is not looked for, as a sort order is one: a node 0 *commands*.
"""

import re

from source import Checkout, File

# Each word, written in pieces so that this file passes itself, and what is said in its place.
OLD = {
    "cr" "ew": "group", "ros" "ter": "node table", "se" "at": "slot, or place", "attend" "ance": "rendezvous", "member" "ship": "which nodes are here",
    "st" "ory": "run loop, job", "pr" "ess": "stop request", "ne" "ws": "event", "stran" "ger": "unproven, or unknown, peer",
    "visi" "tor": "peer", "gu" "est": "peer", "be" "at": "heartbeat",
}
OF_CPP = {"do" "or": "endpoint, or handshake server"}  # a library's one file has that name among these rules
OF_LAUNCHER = {"samp" "ler": "worker samples", "lo" "ne": "without node 0"}  # a test may use torch's
OF_WORKER = {
    "led" "ger": "run log", "kee" "per": "checkpointer", "tal" "ly": "meters", "sl" "ab": "batch buffer",
    "wi" "sh": "request", "train" "er": "training loop",
}
# Words of prose.
OF_PROSE = {"unt" "old": "not reported", "an" "ew": "again", "who" "ever": "anyone who, or no matter who"}

# Names that others have given.
OF_OTHERS = re.compile(r"KUBEFLOW_TR" r"AINER_\w+|\btr" r"ainerStatus\b|\bkubeflow/tr" r"ainer\b")

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # AStopRequest_of is four


def stem(word: str) -> str:
    """Of a plural, or of a past."""
    word = word.lower()
    if word.endswith("ies"):
        return word[:-3] + "y"
    return re.sub(r"(?<=ss)e[sd]$|(?<!s)s$", "", word)


def is_verb(file: File, word: re.Match) -> bool:
    """Whether it stands as in "a flag ... the file", not as in send_it, AnIt or "the it"."""
    before, after = file.text[max(0, word.start() - 8):word.start()], file.text[word.end():word.end() + 1]
    if after == "_" or before.endswith("_"):
        return False
    if word.group()[0].isupper():
        return not re.search(r"(?:\W|_)(?:An?|The)?$|(?:That|Each|No)$", before)
    return not re.search(r"\b(?:a|the|each|no) $", before)


def old_words(checkout: Checkout):
    for file in checkout.files:
        old = OF_PROSE if file.is_cpp and not file.is_test else {}
        if file.path.startswith("launcher/") or file.is_test:
            old = old | OLD | (OF_CPP if file.is_cpp else {})
        if file.path.startswith("launcher/"):
            old = old | OF_LAUNCHER
        if file.path.startswith("worker/"):
            old = old | OF_WORKER
        given = [name.span() for name in OF_OTHERS.finditer(file.text)]
        for match in WORD.finditer(file.text):
            word = next((word for word in (match.group().lower(), stem(match.group())) if word in old), None)
            if word is None or (word == "be" "at" and is_verb(file, match)):
                continue
            if any(begin <= match.start() < end for begin, end in given):
                continue
            yield file.find(match.start(), "L17", f"{match.group()}: say {old[word]}")


RULES = [old_words]
