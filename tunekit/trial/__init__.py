"""One child process, one config, one outcome."""
