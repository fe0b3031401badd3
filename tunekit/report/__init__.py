"""Views of a saved run: every shown number and sentence computed once, then drawn.

view       Run -> RunView: texts and tables, pure
terminal   RunView -> a terminal of any width
plan       Plan -> PlanView -> a terminal
"""
