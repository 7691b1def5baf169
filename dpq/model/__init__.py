"""What callers hold and write: tasks, limits, errors, schedules, priorities, addresses. No I/O."""
