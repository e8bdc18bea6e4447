"""All rules together."""

import batch_rules
import case_rules
import code_rules
import page_rules
import room_rules
import text_rules
import word_rules


def all_findings(checkout) -> list:
    rules = room_rules.RULES + batch_rules.RULES + code_rules.RULES + text_rules.RULES + case_rules.RULES + page_rules.RULES + word_rules.RULES
    return sorted({finding for rule in rules for finding in rule(checkout)})
