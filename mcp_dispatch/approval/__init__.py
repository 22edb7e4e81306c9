"""Approvals: asking a person whether a call may run, and the result when nobody can be asked."""
