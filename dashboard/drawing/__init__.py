"""What a call looks like: its face, its story and its pictures, in words and marks that are safe to show."""
