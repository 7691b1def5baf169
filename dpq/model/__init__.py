"""The data of callers: tasks, limits, errors, schedules, priorities, payloads. No I/O."""
