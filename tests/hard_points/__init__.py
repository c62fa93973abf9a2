"""Where floating point is hard. No warning may appear either: the suite turns warnings into errors."""
