"""Pages: find, check the form, pass through the gate, render."""
