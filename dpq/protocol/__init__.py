"""What is stored and said: keys, Lua scripts, commands and their replies. No I/O."""
