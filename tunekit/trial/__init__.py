"""One child process, one config, one outcome.

How a knob reaches the script
binding_syntax  `--bind KNOB=HOW` and values of knobs as text, read and written (pure)
bindings        config -> command, variables, file texts, and what the agent is asked to set
config_files    single keys of the user's YAML, JSON and TOML files
option_names    what people call the knobs
suggest         the places that the user's own command, files and script have for knobs
applied         whether the knobs really hold in the process (pure)
tried           suggested bindings, each tried by a short trial

Running it
target          the words after `--` -> a target
elsewhere       commands that train where the agent can't be (pure)
isolation       which sandbox holds here, and what a trial's processes find in it
sandbox         (its own process) the net under which no file of the user's changes
launch          request.json, environment and keeper process
keeper          (its own process) starts the target, ends every descendant of it
compile_cache   the trials' own cache of what torch compiles
events          what the agents tell, validated and bounded
processes       what the kernel tells of the trial's processes
watch           limits while it runs -> evidence
orphans         what a killed keeper left running is ended
device_memory   the GPUs have back what a trial took before the next one starts
left_behind     what a trial leaves, without secrets

What became of it
exceptions      what an uncaught exception amounts to (pure)
outcome         evidence -> measurement or named failure (pure)
executor        the Protocol behind which all this stands, and the real one
training        the real training with tuned knobs, for which the command replaces tunekit
"""
