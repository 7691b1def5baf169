"""The one app of this project."""
