"""A run as a picture: a lane per agent, a bar per call, zoom windows, and the minimap of a long run."""
