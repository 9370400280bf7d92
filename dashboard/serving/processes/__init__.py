"""The processes that serve on uvicorn: one server, or a supervisor of several workers."""
