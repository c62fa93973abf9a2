"""Passes on scans: what one loop has computed serves the next one, and large products leave the loops."""
