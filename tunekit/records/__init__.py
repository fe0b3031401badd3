"""Frozen, validated records and their JSON codec.

Every record is checked when it is built and can't be changed afterwards; `codec` writes it to JSON
and reads it back as untrusted input.
"""
