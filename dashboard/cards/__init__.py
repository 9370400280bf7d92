"""Cards as HTML: what each part of a call shows."""
