"""The fixtures of `kit.web`: dashboards, and browsers without a window."""

from kit.web import change, dashboard, look, path

__all__ = ["change", "dashboard", "look", "path"]
