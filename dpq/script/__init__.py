"""The protocol: keys, Lua scripts, commands and their replies. No I/O."""
