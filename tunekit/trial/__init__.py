"""One child process, one config, one outcome.

binding_syntax  `--bind KNOB=HOW` as text, read and written (pure)
spelling        values of knobs as text, and as a binding spells them (pure)
command_words   a binding's words in the command: found, replaced, read (pure)
config_files    single keys of the user's YAML, JSON and TOML files
yaml_scalars    one scalar of a YAML text replaced, the rest as it is
bindings        config -> command, variables, file texts, and what the agent is asked to set
suggest         the places that the user's own command, files and script have for knobs
target          the words after `--` -> a target
launch          request.json, environment and keeper process
keeper          (its own process) starts the target, ends every descendant of it
orphans         what a killed keeper left running is ended
events          what the agents tell, validated and bounded
tree            host memory of the process tree
device_memory   the GPUs have back what a trial took before the next one starts
watch           limits while it runs -> evidence
applied         whether the knobs really hold in the process (pure)
outcome         evidence -> measurement or named failure (pure)
executor        the Protocol behind which all this stands, and the real one
training        the real training with tuned knobs, for which the command replaces tunekit
"""
