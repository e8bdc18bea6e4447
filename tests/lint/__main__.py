"""Applies every rule to the checkout given on the command line, prints the findings, and exits 1 when one is not a warning."""

import sys

from rules import all_findings
from source import Checkout


def main() -> int:
    checkout = Checkout(sys.argv[1])
    findings = all_findings(checkout)
    for finding in findings:
        print(finding)
    errors = sum(not finding.is_warning for finding in findings)
    print(f"lint: {len(checkout.files)} files, {errors} findings, {len(findings) - errors} warnings", file=sys.stderr)
    return 1 if errors else 0


sys.exit(main())
