"""Texts that are not valid numbers, although some programs read them as numbers."""

ODD_NUMBERS = ["9" * 5000, "9" * 18, "9" * 25, "²", "٣", "1_0", "-1", "1.5", "NaN", "1e999", "+1", " 1"]
