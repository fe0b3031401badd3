"""Runs of different days or machines side by side: pure functions of records.

side          a run with the config of it that is compared
compare       factors, what grew, what the machines differ by -> RunComparison
unfair        what else differs, as findings

Configs within one run are compared by round, in the search room.
"""
