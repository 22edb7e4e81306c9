"""Permission rules: parsed, indexed, matched, suggested."""
