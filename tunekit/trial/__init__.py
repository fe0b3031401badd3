"""One child process, one config, one outcome.

How a knob reaches the script
knob_names           what people call the knobs, and hints for misspelled names (pure)
binding_syntax       `--bind KNOB=HOW` and knob values as text, read and written (pure)
bindings             config -> command, variables, file texts, and what the agent should set
config_files         single keys of the user's YAML, JSON and TOML files
binding_suggestions  places in the command, files and script where a knob could be bound
knob_verification    whether the process really has the knobs (pure)
binding_trials       tries each suggested binding in a short trial
typed_commands       tunekit's commands on a target, ready to be typed again (pure)

Running it
target               the words after `--` -> a target
external_launchers   commands that train where the agent can't run (pure)
launch               starts a trial: chooses the sandbox, writes request.json, starts the keeper process
sandbox              (its own process) keeps the user's files from being changed
keeper               (its own process) starts the target and ends all of its descendants
events               the agents' reports, validated and bounded, collected as evidence
processes            the kernel's view of the trial's processes; ends the orphans of a killed keeper
watch                enforces limits while a trial runs
cleanup              waits until GPU memory is free again; masks secrets in the files that a trial leaves

What became of it
outcome              evidence, including an uncaught exception -> measurement or named failure (pure)
executor             the Protocol that hides all this, and the real implementation
training             the real training with tuned knobs, where the command replaces tunekit
"""
