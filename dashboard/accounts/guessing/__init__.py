"""What slows down the guessing of passwords: few hashes at a time, and pauses by person, address and browser."""
