"""Cards as HTML: view models and rendering of each part of a call."""
