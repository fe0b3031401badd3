"""Views of runs, plans, GPUs and checkups: every shown number and sentence computed once, then drawn.

view        Run -> RunView: texts and tables, pure; telemetry: one of its tables
plan        Plan -> PlanView, pure
gpus        profiles -> tables and passages, pure
discovered  what one run of a script showed -> tables, pure
columns     tables that fit their terminal, pure
text        records as phrases, pure
doctor      Checkup -> CheckupView -> a terminal
terminal    views -> a terminal of any width
"""
