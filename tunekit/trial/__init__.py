"""One child process, one config, one outcome.

bindings   config -> what the agent is asked to set
launch     request.json, environment and keeper process
keeper     (its own process) starts the target, ends every descendant of it
events     what the agents tell, validated and bounded
tree       host memory of the process tree
watch      limits while it runs -> evidence
outcome    evidence -> measurement or named failure (pure)
executor   the Protocol behind which all this stands, and the real one
"""
