"""One child process, one config, one outcome.

How a knob reaches the script
knob_names           what people call the knobs, and the hint beside a name that is none of them (pure)
binding_syntax       `--bind KNOB=HOW` and values of knobs as text, read and written (pure)
bindings             config -> command, variables, file texts, and what the agent is asked to set
config_files         single keys of the user's YAML, JSON and TOML files
binding_suggestions  the places that command, files and script have for them
knob_verification    whether the knobs really hold in the process (pure)
binding_trials       suggested bindings, each tried by a short trial
typed_commands       tunekit's commands on a target, as they would be typed again (pure)

Running it
target               the words after `--` -> a target
external_launchers   commands that train where the agent can't be (pure)
launch               starts a trial: which sandbox holds here, request.json, environment and keeper process
sandbox              (its own process) the net under which no file of the user's changes
keeper               (its own process) starts the target, ends every descendant of it
events               what the agents report, validated and bounded, and the evidence that it adds up to
processes            what the kernel says of the trial's processes; orphans of a killed keeper are ended
watch                limits while a trial runs
cleanup              the GPUs have back what a trial took; the files that it leaves are without secrets

What became of it
outcome              evidence, an uncaught exception among it -> measurement or named failure (pure)
executor             the Protocol behind which all this stands, and the real one
training             the real training with tuned knobs, for which the command replaces tunekit
"""
