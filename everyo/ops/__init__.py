"""The calculus: every operation, with its rules beside it. One file a family."""
