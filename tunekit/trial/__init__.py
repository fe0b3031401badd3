"""One child process, one config, one outcome.

binding_syntax  `--bind KNOB=HOW` as text, read and written (pure)
spelling   values of knobs as text, and as a binding spells them (pure)
command_words  a binding's words in the command: found, replaced, read (pure)
config_files  single keys of the user's YAML, JSON and TOML files; yaml_scalars keeps the rest as it is
bindings   config -> command, variables, file texts, and what the agent is asked to set
launch     request.json, environment and keeper process
keeper     (its own process) starts the target, ends every descendant of it
events     what the agents tell, validated and bounded
tree       host memory of the process tree
watch      limits while it runs -> evidence
outcome    evidence -> measurement or named failure (pure)
executor   the Protocol behind which all this stands, and the real one
"""
