"""What errors advise: the names that other libraries have, calls that do not fit, what leaves the tape.

Read when there is an error, or by modules that load late themselves; `import everyo` reads nothing of it.
"""
