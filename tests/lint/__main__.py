"""Applies every rule to the checkout given on the command line, prints the findings, and exits 1 when one is not a warning."""

import sys

import code_rules
import room_rules
import text_rules
from source import Checkout


def main() -> int:
    checkout = Checkout(sys.argv[1])
    rules = room_rules.RULES + code_rules.RULES + text_rules.RULES
    findings = sorted({finding for rule in rules for finding in rule(checkout)})
    for finding in findings:
        print(finding)
    errors = sum(not finding.is_warning for finding in findings)
    print(f"lint: {len(checkout.files)} files, {errors} findings, {len(findings) - errors} warnings", file=sys.stderr)
    return 1 if errors else 0


sys.exit(main())
